"""install and uninstall: the hooks with which a client remembers without being asked."""

import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from commands.conftest import Run
from commands.connecting.conftest import everything
from hook_texts import PROMPT
from vector_memory.clients.client import InstallScope
from vector_memory.clients.editing import hooks
from vector_memory.clients.registry import CLIENTS
from waiting import eventually

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


def test_only_clients_whose_hooks_call_tools_get_such_hooks() -> None:
    """Those of Cursor and VS Code run programs."""
    calling = {name: client for name, client in CLIENTS.items() if client.hooks and not client.command_hooks}
    assert {name: set(client.hooks) for name, client in calling.items()} == {
        name: {InstallScope.USER, InstallScope.PROJECT} for name in ("claude", "codex")
    }


REPORTED = {
    **dict.fromkeys(("session_id", "sessionId"), "s"),
    "prompt": PROMPT,
    "sessionContext": {"rootSessionId": "s"},
    "userPromptSubmit": {"prompt": PROMPT},
}
"""A prompt as each client reports it."""

WITH_COMMANDS = [name for name, client in CLIENTS.items() if client.command_hooks]


def commands_in(folder: Path) -> list[str]:
    """Return the commands in the files that have some of ours."""
    texts = [file.read_text(encoding="utf-8") for file in folder.rglob("*") if file.suffix in {".json", ".sh", ".js"}]
    return [found for text in texts for found in re.findall(r"/\S+ -I -S \S+hook\.py [^|]+2>/dev/null \|\| true", text)]


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_what_install_adds_keeps_what_the_client_reports(name: str, run: Run, tmp_path: Path, home: Path) -> None:
    run("install", name, "--yes")
    (command,) = [command for command in commands_in(tmp_path) if f" {name} prompt" in command]
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(["/bin/sh", "-c", command], input=json.dumps(REPORTED), env=env, text=True, check=True)
    assert not done.stdout
    eventually(lambda: len(list(tmp_path.rglob("*.outbox/*.json"))) == 1)
    (kept,) = tmp_path.rglob("*.outbox/*.json")
    body = json.loads(kept.read_text())
    assert (body["content"], body["session_id"]) == (PROMPT, "s")
    run("install", name, "--tools-only", "--yes")
    assert not commands_in(tmp_path)


@pytest.mark.parametrize("name", ["copilot", "grok", "cline", "opencode"])
def test_a_file_of_hooks_that_another_program_has_written_stays(name: str, run: Run, home: Path) -> None:
    client = CLIENTS[name]
    assert client.command_hooks
    assert client.command_hooks.texts
    folder = client.hooks[InstallScope.USER](Path())
    folder.mkdir(parents=True)
    for file in client.command_hooks.texts(dict.fromkeys(client.command_hooks.events.values(), "")):
        (folder / file).write_text("# mine\n")
    before = everything(home)
    refused = run("install", name, "--yes")
    assert refused.code == 2
    assert "another program's. Nothing was changed." in refused.err
    assert everything(home) == before
