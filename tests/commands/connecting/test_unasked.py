"""install and uninstall: the hooks with which a client remembers without being asked."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from commands.conftest import Run
from commands.connecting.conftest import everything
from vector_memory.clients.client import InstallScope
from vector_memory.clients.editing import hooks
from vector_memory.clients.registry import CLIENTS

OURS = hooks.handlers_for("vector-memory")
OURS_IN = {"claude": OURS, "codex": {event: OURS[event] for event in OURS if event != "PostCompact"}}
"""Codex fails a hook for a field that its event lacks."""
HOOK = '{"hooks": [{"type": "command", "command": "x"}]}'
SETTINGS = f'{{\n    "model": "opus",\n    "hooks": {{\n        "Stop": [{HOOK}]\n    }}\n}}'

pytestmark = pytest.mark.usefixtures("claude")


@pytest.fixture
def settings(home: Path) -> Path:
    """The user's settings of Claude Code, which have a hook."""
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(SETTINGS, encoding="utf-8")
    return file


def hooks_in(file: Path) -> hooks.Handlers:
    return hooks.found(json.loads(file.read_text(encoding="utf-8")), "vector-memory")


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["claude"], "home/.claude/settings.json"),
        (["claude", "--project"], "project/.claude/settings.local.json"),
        (["codex"], "home/.codex/hooks.json"),
        (["codex", "--project"], "project/.codex/hooks.json"),
    ],
    ids=["claude", "claude in a project", "codex", "codex in a project"],
)
def test_a_client_gets_tools_and_hooks_and_loses_both(words: list[str], file: str, run: Run, tmp_path: Path) -> None:
    run("install", "claude", "--yes")  # it writes its own file for the first time
    run("uninstall", "claude", "--yes")
    before = everything(tmp_path)
    done = run("install", *words, "--yes")
    assert done.code == 0
    assert f"{tmp_path / file}." in done.out
    assert "Prompts, long answers and reports of sub-agents are stored" in done.out
    assert hooks_in(tmp_path / file) == OURS_IN[words[0]]
    again = run("install", *words)
    assert (again.code, "already connected" in again.out) == (0, True)
    assert run("uninstall", *words, "--yes").code == 0
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_tools_only_adds_no_hooks_and_takes_out_those_that_are_there(name: str, run: Run, tmp_path: Path) -> None:
    done = run("install", name, "--tools-only", "--yes")
    assert done.code == 0
    assert "are stored" not in done.out
    only_tools = everything(tmp_path)
    assert not [path for path in only_tools if path.endswith(("settings.json", "hooks.json"))]
    run("install", name, "--yes")
    assert everything(tmp_path) != only_tools
    assert run("install", name, "--tools-only", "--yes").code == 0
    assert everything(tmp_path) == only_tools


def test_a_dry_run_shows_the_diff_of_every_file_and_changes_none(run: Run, settings: Path, tmp_path: Path) -> None:
    before = everything(tmp_path)
    shown = run("install", "claude", "--dry-run", "--diff")
    assert shown.code == 0
    assert f"\n--- {tmp_path}/home/.claude.json" in shown.out
    assert '\n+  "vector-memory": {' in shown.out
    assert "\n$ claude mcp add-json" in shown.out
    assert f"\n+++ {settings}" in shown.out
    assert '\n+            {\n+                "hooks": [\n+                    {\n' in shown.out, "in the file's style"
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["claude", "codex", "cursor"])
def test_where_nobody_can_answer_the_user_is_told_of_yes(name: str, run: Run, tmp_path: Path) -> None:
    for command in ("install", "uninstall"):
        before = everything(tmp_path)
        ended = run(command, name)
        assert ended.code == 2
        assert "add --yes to make the change, or --dry-run" in ended.err
        assert everything(tmp_path) == before
        run("install", name, "--yes")


def test_what_the_user_changes_meanwhile_stays_and_only_ours_goes(run: Run, settings: Path) -> None:
    run("install", "claude", "--yes")
    content = json.loads(settings.read_text(encoding="utf-8"))
    content["model"] = "haiku"
    content["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "y"}]})
    settings.write_text(json.dumps(content, indent=4), encoding="utf-8")
    run("uninstall", "claude", "--yes")
    theirs = [{"hooks": [{"type": "command", "command": name}]} for name in "xy"]
    assert json.loads(settings.read_text(encoding="utf-8")) == {"model": "haiku", "hooks": {"Stop": theirs}}
    assert [path.name for path in settings.parent.iterdir()] == ["settings.json"]


def test_hooks_that_the_user_took_out_are_added_again_and_a_timeout_stays(run: Run, settings: Path) -> None:
    run("install", "claude", "--yes")
    content = json.loads(settings.read_text(encoding="utf-8"))
    del content["hooks"]["PostCompact"]
    content["hooks"]["Stop"][1]["hooks"][0]["timeout"] = 30
    settings.write_text(json.dumps(content), encoding="utf-8")
    assert run("install", "claude", "--yes").code == 0
    assert hooks_in(settings) == OURS | {"Stop": OURS["Stop"] | {"timeout": 30}}


@pytest.mark.parametrize(
    ("name", "file"), [("claude", ".claude/settings.json"), ("codex", ".codex/hooks.json")], ids=["claude", "codex"]
)
def test_a_file_that_the_client_does_not_read_is_refused_with_the_reason(
    name: str, file: str, run: Run, home: Path, tmp_path: Path
) -> None:
    (home / file).parent.mkdir()
    (home / file).write_text('{\n  // mine\n  "hooks": {}\n}\n', encoding="utf-8")
    before = everything(tmp_path)
    ended = run("install", name, "--yes")
    assert ended.code == 2
    assert f"{home / file}, line 2, column 3: this client does not read files with comments" in ended.err
    assert hooks.found(json.loads(ended.err.partition("\n\n")[2]), "vector-memory") == OURS_IN[name]
    assert everything(tmp_path) == before, "not even the tools"


@pytest.mark.parametrize(("version", "is_old"), [("2.1.52", True), ("2.1.117", True), ("2.1.118", False), ("?", False)])
def test_a_client_that_would_ignore_the_file_gets_no_hooks(
    version: str, is_old: bool, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_VERSION", version)
    before = everything(tmp_path)
    ended = run("install", "claude", "--yes")
    assert (ended.code, "update it to 2.1.118 or later" in ended.err) == ((2, True) if is_old else (0, False))
    assert (everything(tmp_path) == before) == is_old
    assert run("install", "claude", "--tools-only", "--yes").code == 0


def test_links_are_followed_and_permissions_stay(run: Run, settings: Path, tmp_path: Path) -> None:
    kept = settings.rename(tmp_path / "dotfiles.json")
    settings.symlink_to(kept)
    kept.chmod(0o600)
    run("install", "claude", "--yes")
    assert (settings.is_symlink(), hooks_in(kept)) == (True, OURS)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    run("uninstall", "claude", "--yes")
    assert (settings.is_symlink(), kept.read_text(encoding="utf-8")) == (True, SETTINGS)


def test_a_link_to_a_file_that_is_not_there_yet_stays(run: Run, settings: Path, tmp_path: Path) -> None:
    settings.unlink()
    settings.symlink_to(tmp_path / "dotfiles.json")
    run("install", "claude", "--yes")
    assert hooks_in(tmp_path / "dotfiles.json") == OURS
    run("uninstall", "claude", "--yes")
    assert settings.is_symlink()
    assert not (tmp_path / "dotfiles.json").exists()


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_if_one_file_cannot_be_written_none_is_changed(name: str, run: Run, home: Path, tmp_path: Path) -> None:
    for first in ("install", "uninstall"):  # the stand-in for Claude Code writes its own file for the first time
        run(first, "claude", "--yes")
    file = home / {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}[name]
    file.parent.mkdir(exist_ok=True)
    file.symlink_to("/proc/not-to-be-written.json")
    before = everything(tmp_path)
    ended = run("install", name, "--yes")
    assert ended.code == 2
    assert f"{file} could not be written" in ended.err
    assert everything(tmp_path) == before


ENABLED: dict[str, Any] = {"enabledPlugins": {"vector-memory@catalog": True}}
DISABLED: dict[str, Any] = {"enabledPlugins": {"vector-memory@catalog": False, "other@x": True}}


@pytest.mark.parametrize(
    ("user", "shared", "own", "is_there"),
    [
        (ENABLED, {}, {}, True),
        ({}, ENABLED, {}, True),
        ({}, {}, ENABLED, True),
        (ENABLED, {}, DISABLED, False),
        (DISABLED, [], {"enabledPlugins": None}, False),
    ],
)
def test_with_the_plugin_nothing_is_added(
    user: Any, shared: Any, own: Any, is_there: bool, run: Run, home: Path, tmp_path: Path
) -> None:
    for folder, name, content in (
        (home, "settings.json", user),
        (Path.cwd(), "settings.json", shared),
        (Path.cwd(), "settings.local.json", own),
    ):
        (folder / ".claude").mkdir(exist_ok=True)
        (folder / ".claude" / name).write_text(json.dumps(content), encoding="utf-8")
    before = everything(tmp_path)
    for words in (["claude", "--yes"], ["claude", "--tools-only", "--yes"], ["claude", "--project", "--yes"]):
        assert ("claude plugin disable vector-memory@catalog" in run("install", *words).out) == is_there
        assert (everything(tmp_path) == before) == is_there


def test_who_trusted_the_hooks_in_codex_has_the_file_as_before(run: Run, home: Path, tmp_path: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = "m" # mine\n', encoding="utf-8")
    before = everything(tmp_path)
    installed = run("install", "codex", "--yes")
    assert 'when it says "Hooks need review", choose "Trust all and continue"' in " ".join(installed.out.split())
    assert "Hooks need review" in run("install", "codex").out, "also later"
    noted = "".join(
        f'\n[hooks.state."{config.with_name("hooks.json")}:{event}:0:0"]\ntrusted_hash = "sha256:1"\n'
        for event in ("stop", "subagent_stop", "user_prompt_submit")
    )
    with config.open("a", encoding="utf-8") as file:
        file.write(f"\n[hooks.state]\n{noted}")
    assert run("uninstall", "codex", "--yes", "--diff").out.count(f"--- {config}\n") == 1
    assert everything(tmp_path) == before


def test_only_clients_whose_hooks_call_tools_get_hooks() -> None:
    """Those of Cursor and VS Code run programs."""
    assert {name: set(client.hooks) for name, client in CLIENTS.items() if client.hooks} == {
        name: {InstallScope.USER, InstallScope.PROJECT} for name in ("claude", "codex")
    }
