"""install and uninstall: the files of clients before and after, and what the user is told and asked."""

import contextlib
import json
import os
import shlex
import shutil
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from clients import connected
from commands.conftest import Run, answered
from commands.connecting.conftest import everything
from vector_memory.clients import client as client_module
from vector_memory.clients.client import Client, InstallScope
from vector_memory.clients.editing import changes, planning
from vector_memory.clients.registry import CLIENTS

PLACES = [
    pytest.param(name, scope, id=f"{name} {scope}")
    for name, client in CLIENTS.items()
    for scope in client.files
    if scope not in client.by_command
]
COMMENTED = {
    "json": '{\n  // mine\n  "mcpServers": {"other": {"command": "x"}},\n  "servers": {"other": {"command": "x"}}\n}\n',
    "toml": '# mine\n[mcp_servers.other] # keep\ncommand = "x"',
    "yaml": "# mine\nextensions:\n  a: # keep\n    cmd: x\nmcpServers:\n  - name: a\n    command: x # keep\nmore: 1",
}
THEIRS = {
    "tidy": COMMENTED | {"plain": '{\n  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}\n}\n'},
    "odd": {
        "json": '{ "mcpServers" :{\n"other":\t{"command":"x"} } ,"servers":{}, /* mine */ }',
        "yaml": "---\nmcpServers:\n- {name: a, command: x}\n\n# the end\nextensions:\n    a:\n        cmd: 'x'\n\n\n",
        "toml": "\n\n[mcp_servers]\n  [mcp_servers.'other']\n  command='x'\n\n\n# the end\n\n",
        "plain": '{"hooks" :{ "Stop":[ \n {"hooks":[{"type":"command","command":"x"}  ]}\n\n]} ,\n"mcpServers":{} }',
    },
    "of Windows": {
        "json": '\ufeff{\r\n\t"mcpServers": {}\r\n}\r\n',
        "yaml": "extensions:\r\n  other:\r\n    cmd: x\r\n# mine\r\nmcpServers:\r\n  - name: other\r\n",
        "toml": 'model = "m"\r\n[mcp_servers.other]\r\ncommand = "x"\r\n',
        "plain": '\ufeff{\r\n\t"hooks": {\r\n\t}\r\n}',
    },
}
"""Files that a user wrote; the plain ones for clients that read no comments."""


def file_of(client: Client, scope: InstallScope) -> Path:
    return client.files[scope](Path.cwd())


def written(client: Client, scope: InstallScope) -> dict[str, Any]:
    text = file_of(client, scope).read_text(encoding="utf-8")
    return dict(planning.FORMATS[client.format].entry(text, client.section, planning.NAME))


def words_in(entry: dict[str, Any]) -> list[str]:
    """Return the command line that an entry starts."""
    start = entry.get("transport", entry)
    command = start.get("command", start.get("cmd"))
    return command if isinstance(command, list) else [command, *start["args"]]


def write_all(name: str, scope: InstallScope, texts: dict[str, str]) -> None:
    """Write the files of a client."""
    client = CLIENTS[name]
    hooks = client.hooks.get(scope) if not (client.command_hooks and client.command_hooks.texts) else None
    for file in (file_of(client, scope), *([hooks(Path.cwd())] if hooks else [])):
        is_json = file.suffix.startswith(".json")
        kind = ("json" if client.reads_comments else "plain") if is_json else file.suffix.removeprefix(".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(texts[kind].encode())


@pytest.mark.parametrize(("name", "scope"), PLACES)
@pytest.mark.parametrize("there", [None, *THEIRS])
def test_uninstall_leaves_every_file_as_it_was_before_install(
    name: str, scope: InstallScope, there: str | None, run: Run, tmp_path: Path
) -> None:
    client = CLIENTS[name]
    if there:
        write_all(name, scope, THEIRS[there])
        Path(".gitignore").write_text("*.log", encoding="utf-8")
    before = everything(tmp_path)
    assert run("install", name, f"--{scope}", "--yes").code == 0
    assert words_in(written(client, scope))[1:4] == ["serve", "--profile", "core"]
    assert run("install", name, f"--{scope}", "--profile", "full", "--yes").code == 0, "it can be changed"
    assert "--profile" not in words_in(written(client, scope))
    assert run("uninstall", name, f"--{scope}", "--yes").code == 0
    assert everything(tmp_path) == before
    assert not [path for path in tmp_path.rglob("*") if path.name in {".cursor", ".codex", ".vscode"} and not there]


@pytest.mark.parametrize(("name", "scope"), PLACES)
def test_a_file_that_changed_after_install_keeps_the_changes_and_no_copy_stays(
    name: str, scope: InstallScope, run: Run, tmp_path: Path
) -> None:
    client = CLIENTS[name]
    file = file_of(client, scope)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes({"json": b"{}", "toml": b'model = "m"\n'}.get(client.format, b"model: m\n"))
    run("install", name, f"--{scope}", "--yes")
    assert file.with_name(f"{file.name}.before-vector-memory").is_file()
    text = file.read_text(encoding="utf-8")
    form = planning.FORMATS[client.format]
    other = {"name": "other", "command": "x"}
    file.write_text(form.put(text, client.section, "other", other), encoding="utf-8")
    run("uninstall", name, f"--{scope}", "--yes")
    left = file.read_text(encoding="utf-8")
    assert form.entry(left, client.section, "other") == other
    assert form.entry(left, client.section, planning.NAME) is None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


@pytest.mark.parametrize(("name", "scope"), PLACES)
def test_install_again_changes_nothing(name: str, scope: InstallScope, run: Run, tmp_path: Path) -> None:
    run("install", name, f"--{scope}", "--yes")
    before = everything(tmp_path)
    again = run("install", name, f"--{scope}")
    assert (again.code, again.err) == (0, "")
    assert "already connected" in again.out
    assert everything(tmp_path) == before


@pytest.mark.anyio
async def test_the_entry_starts_a_server_with_no_path_in_another_folder(run: Run, tmp_path: Path, home: Path) -> None:
    """Entries of several clients that say the same are tried once."""
    folder, starts = tmp_path / "project", dict[tuple[str, ...], bool]()
    for name in ("codex", "cursor", "desktop", "copilot", "opencode", "cline", "continue", "goose"):
        run("install", name, "--yes")
        words = words_in(written(CLIENTS[name], InstallScope.USER))
        start = tuple(word.replace("${workspaceFolder}", str(folder)) for word in words)
        assert starts.setdefault(start, CLIENTS[name].shared) == CLIENTS[name].shared
    variables = {"HOME": str(home), "PATH": "/nowhere", "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"}
    for number, (start, is_shared) in enumerate(starts.items()):
        async with connected([*start], folder, variables) as client:
            assert len(await client.list_tools()) == 8
            report = {"agent_id": "a", "session_id": "s", "content": f"Words of {number}."}
            await client.call_tool("store_report", report)
        place = home / ".vector-memory" / "memory.db" if is_shared else folder / "memory" / "agent_session_memory.db"
        place.unlink()


def test_the_change_is_shown_and_not_made_in_a_dry_run(run: Run, tmp_path: Path) -> None:
    Path(".vscode").mkdir()
    Path(".vscode/mcp.json").write_text(COMMENTED["json"], encoding="utf-8")
    before = everything(tmp_path)
    shown = run("install", "vscode", "--dry-run", "--diff")
    assert shown.code == 0
    assert '\n+  "servers": {"other": {"command": "x"}, "vector-memory": {"type": "stdio", ' in shown.out
    assert f"+++ {Path.cwd()}/.gitignore" in shown.out
    assert everything(tmp_path) == before


def test_another_entry_of_this_name_is_shown_with_what_differs(run: Run, home: Path) -> None:
    (home / ".cursor").mkdir()
    theirs = {"command": "/old/vector-memory", "args": ["serve"], "env": {"LOG_LEVEL": "DEBUG"}}
    text = json.dumps({"mcpServers": {"vector-memory": theirs}}, indent=2)
    (home / ".cursor" / "mcp.json").write_text(text, encoding="utf-8")
    assert '-      "command": "/old/vector-memory",' in run("install", "cursor", "--yes", "--diff").out
    assert written(CLIENTS["cursor"], InstallScope.USER)["env"] == {"LOG_LEVEL": "DEBUG"}, "what the user added stays"
    assert (home / ".cursor" / "mcp.json.before-vector-memory").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("name", "scope"), PLACES)
@pytest.mark.parametrize("is_edited", [False, True])
def test_another_server_of_this_name_is_back_after_uninstall(
    name: str, scope: InstallScope, run: Run, tmp_path: Path, *, is_edited: bool
) -> None:
    client = CLIENTS[name]
    form, file = planning.FORMATS[client.format], file_of(client, scope)
    file.parent.mkdir(parents=True, exist_ok=True)
    theirs = client.entry("other-memory", "--stdio") | {"env": {"LEVEL": "1"}}
    file.write_text(form.put("", client.section, planning.NAME, theirs), encoding="utf-8")
    before = everything(tmp_path)
    assert run("install", name, f"--{scope}", "--yes").code == 0
    assert "env" not in written(client, scope), "it is of the other server"
    run("install", name, f"--{scope}", "--profile", "full", "--yes")
    if is_edited:
        added = form.put(file.read_text(encoding="utf-8"), client.section, "more", {"name": "more", "command": "x"})
        file.write_text(added, encoding="utf-8")
    assert run("uninstall", name, f"--{scope}", "--yes").code == 0
    assert written(client, scope) == theirs
    assert is_edited or everything(tmp_path) == before
    assert "is not connected" in run("uninstall", name, f"--{scope}", "--yes").out
    assert written(client, scope) == theirs


def test_a_change_that_cannot_be_made_is_taken_back_whatever_is_in_the_way(
    run: Run, home: Path, tmp_path: Path
) -> None:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("a = 1\n", encoding="utf-8")
    (home / ".codex" / "hooks.json").write_text("{}", encoding="utf-8")
    (home / ".codex" / "hooks.json.before-vector-memory").mkdir()
    before = everything(tmp_path)
    ended = run("install", "codex", "--yes")
    assert (ended.code, "hooks.json.before-vector-memory is not a file" in ended.err) == (2, True)
    assert everything(tmp_path) == before


@pytest.mark.usefixtures("claude")
def test_no_copy_stays_when_claude_refuses_an_entry(run: Run, home: Path) -> None:
    (home / ".claude.json").write_text('{"userID": "x"}', encoding="utf-8")
    assert run("install", "claude", "--database-path", "broken.db", "--yes").code == 2
    assert [path.name for path in home.iterdir() if path.is_file()] == [".claude.json"]


@pytest.mark.parametrize(("answer", "is_made"), [(b"y\n", True), (b"\n", False), (b"no\n", False)])
def test_in_a_terminal_it_asks(answer: bytes, is_made: bool, home: Path) -> None:
    code, _, _ = answered(answer, "install", "cursor")
    assert code == (0 if is_made else 1)
    assert (home / ".cursor" / "mcp.json").is_file() == is_made


def test_a_mistake_in_the_file_is_an_error_with_its_line_and_what_to_add(run: Run) -> None:
    Path(".vscode").mkdir()
    broken = '{\n  "servers": {\n    "a": {}\n    "b": {}\n  }\n}\n'
    Path(".vscode/mcp.json").write_text(broken, encoding="utf-8")
    for command in ("uninstall", "install"):
        ended = run(command, "vscode", "--yes")
        assert ended.code == 2
        assert f"{Path.cwd()}/.vscode/mcp.json, line 4, column 5: a comma or }} is missing. Nothing" in ended.err
    snippet = json.loads(ended.err.partition("\n\n")[2])
    assert snippet["servers"]["vector-memory"]["args"][:3] == ["serve", "--profile", "core"]
    assert Path(".vscode/mcp.json").read_text(encoding="utf-8") == broken
    assert [path.name for path in Path(".vscode").iterdir()] == ["mcp.json"]


def test_an_inline_table_of_servers_gets_the_entry_too(run: Run, home: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    text = 'mcp_servers = { a = { command = "x" } }\n'
    config.write_text(text, encoding="utf-8")
    assert run("install", "codex", "--yes").code == 0
    servers = tomllib.loads(config.read_text())["mcp_servers"]
    assert (servers["a"], servers["vector-memory"]["args"]) == ({"command": "x"}, ["serve", "--profile", "core"])
    assert "already connected" in run("install", "codex").out
    assert run("uninstall", "codex", "--yes").code == 0
    assert config.read_text() == text


def test_a_file_that_is_not_text_is_refused(run: Run) -> None:
    Path(".mcp.json").write_bytes("{}".encode("utf-16"))
    ended = run("install", "claude", "--project", "--yes")
    assert ended.code == 2
    assert "not UTF-8" in ended.err
    assert Path(".mcp.json").read_bytes() == "{}".encode("utf-16")


def test_a_file_that_is_a_pipe_is_refused_without_waiting(run: Run, home: Path) -> None:
    (home / ".codex").mkdir()
    os.mkfifo(home / ".codex" / "config.toml")
    ended = run("install", "codex", "--yes")
    assert ended.code == 2
    assert "config.toml could not be read (it is a named pipe, not a file): nothing was changed" in ended.err


def test_in_a_folder_that_was_deleted_the_user_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project" / "gone").mkdir()
    os.chdir(tmp_path / "project" / "gone")
    (tmp_path / "project" / "gone").rmdir()
    ended = run("install", "cursor", "--yes")
    os.chdir(tmp_path)
    assert ended.code == 2
    assert "The current folder was deleted" in ended.err


def test_a_killed_install_leaves_no_file_that_the_repository_does_not_ignore(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[changes.FileChange] = []
    make = changes.FileChange.make

    def second_is_killed(change: changes.FileChange) -> None:
        if made:
            raise KeyboardInterrupt
        made.append(change)
        make(change)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(changes.FileChange, "make", second_is_killed)
        run("install", "cursor", "--project", "--yes")
    assert not Path(".cursor/mcp.json").exists()
    assert "/.cursor/mcp.json" in Path(".gitignore").read_text(encoding="utf-8").splitlines()
    assert run("install", "cursor", "--project", "--yes").code == 0
    assert Path(".gitignore").read_text(encoding="utf-8").count("/.cursor/mcp.json") == 1


def test_links_and_permissions_stay(run: Run, home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.toml"
    kept.write_text(COMMENTED["toml"], encoding="utf-8")
    kept.chmod(0o640)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(kept)
    run("install", "codex", "--yes")
    assert (home / ".codex" / "config.toml").is_symlink()
    assert "vector-memory" in kept.read_text(encoding="utf-8")
    backup = home / ".codex" / "config.toml.before-vector-memory"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept, backup)] == [0o640, 0o640]


def test_the_repository_ignores_what_has_paths_of_this_machine(run: Run) -> None:
    run("install", "claude", "--project", "--yes")
    run("install", "cursor", "--project", "--yes")
    lines = Path(".gitignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules == ["/.mcp.json", "/.claude/settings.local.json", "/.cursor/mcp.json"]
    run("uninstall", "claude", "--project", "--yes")
    assert "claude" not in Path(".gitignore").read_text(encoding="utf-8")


@pytest.mark.parametrize("leftover", [False, True])
def test_outside_a_repository_no_gitignore_is_written(run: Run, *, leftover: bool) -> None:
    shutil.rmtree(".git")
    if leftover:  # Git takes an empty folder for none either
        Path.cwd().with_name(".git").mkdir()
    run("install", "claude", "--project", "--yes")
    assert sorted(path.name for path in Path.cwd().iterdir()) == [".claude", ".mcp.json"]


def test_the_user_is_told_what_to_approve_and_where_the_memory_is(run: Run, home: Path) -> None:
    said = run("install", "claude", "--project", "--yes").out
    assert 'choose "Use this MCP server"' in said
    assert "memory/agent_session_memory.db in this project" in said
    assert "paste this into AGENTS.md" in run("install", "cursor", "--yes").out
    assert str(home / ".vector-memory" / "memory.db") in run("install", "desktop", "--yes").out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["codx"], "accepted: claude, codex, gemini, "),
        (["desktop", "--project"], "Claude Desktop has no projects"),
        (["codex", "--project", "--user"], "either --user or --project"),
        (["codex", "--toolsets", "sessions"], '--toolsets is "sessions"'),
        (["codex", "--toolsets", "all", "--profile", "core"], "with --profile core only session"),
        (["codex", "--database-path", "none/x.db"], "none does not exist"),
        (["codex", "--database-path", "${HOME}/x.db"], "a ${variable} that the client did not expand"),
        (["claude", "--user"], "The command `claude` was not found"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    words: list[str], reason: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ended = run("install", *words, "--yes")
    assert ended.code == 2
    assert reason in ended.err
    assert everything(tmp_path) == {}


def test_the_entry_has_the_flags_that_were_chosen(run: Run) -> None:
    run("install", "codex", "--toolsets", "all", "--read-only", "--database-path", "x.db", "--yes")
    assert written(CLIENTS["codex"], InstallScope.USER)["args"] == [
        *("serve", "--answers", "lean", "--toolsets", "all", "--read-only"),
        *("--database-path", str(Path.cwd() / "x.db")),
    ]


def test_an_entry_for_a_database_names_its_url_and_the_file_of_the_password(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client's configuration gets a password."""
    monkeypatch.delenv("VECTOR_MEMORY_DATABASE_PATH", raising=False)
    url = "postgresql://memory@db.example.com/agents"
    assert "password" in run("install", "codex", "--database-url", "postgresql://a:secret@db/agents", "--yes").err
    words = ["--database-url", url, "--database-password-file", str(tmp_path / "password")]
    assert run("install", "codex", *words, "--yes").code == 0
    assert written(CLIENTS["codex"], InstallScope.USER)["args"][-4:] == words


def test_an_entry_for_a_shared_memory_names_the_file_of_the_token_and_never_the_token(run: Run, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("vm_secret")
    token.chmod(0o600)
    url = "https://memory.example.com/mcp"
    answer = run("install", "cursor", "--project", "--yes", "--http", url, "--token-file", str(token))
    entry = written(CLIENTS["cursor"], InstallScope.PROJECT)
    assert entry["args"][-4:] == ["--remote", url, "--token-file", str(token)]
    assert "vm_secret" not in file_of(CLIENTS["cursor"], InstallScope.PROJECT).read_text() + answer.out
    assert f"The memory is the shared one at {url}." in answer.out
    for flags in (["--http", url], ["--token-file", str(token)]):
        refused = run("install", "cursor", "--project", "--yes", *flags)
        assert (refused.code, "needs both" in refused.err) == (2, True)


def test_an_environment_that_may_vanish_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/abc")
    assert "`uv tool install`" in run("install", "codex", "--yes").err


def test_the_command_on_the_path_is_written_if_it_is_this_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It stays where it is when the tool is installed again."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (script,) = planning.program()
    assert Path(script) == Path(sys.executable).with_name("vector-memory")
    (tmp_path / "vector-memory").symlink_to(script)
    assert planning.program() == [str(tmp_path / "vector-memory")]


def test_a_clone_connects_the_installed_command_if_there_is_one_and_else_says_what_it_depends_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setattr(sys, "argv", ["main.py", "install", "cursor", "--yes"])
    clone = f"It starts from the clone {planning.clone()}: after moving that, run this again."
    command = tmp_path / "bin" / "vector-memory"
    command.symlink_to(Path(sys.executable).with_name("vector-memory"))
    assert clone in run("install", "cursor", "--yes").out
    command.unlink()
    command.write_text("#!/bin/sh\necho called: $*\nexit 3\n")
    command.chmod(0o700)
    ended = run("install", "cursor", "--yes")
    assert (ended.code, ended.err) == (3, "")
    assert ended.out.endswith("called: install cursor --yes\n")
    assert str(command) in ended.out


@pytest.mark.parametrize(
    ("system", "folder"), [("linux", ".config/Code/User"), ("darwin", "Library/Application Support/Code/User")]
)
def test_applications_keep_their_files_where_the_system_says(
    system: str, folder: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module.sys, "platform", system)
    assert CLIENTS["vscode"].files[InstallScope.USER](home) == home / folder / "mcp.json"


@pytest.mark.usefixtures("claude")
def test_the_file_of_claude_code_is_changed_by_its_own_command(run: Run, home: Path) -> None:
    words = shlex.split(run("install", "claude", "--yes", "--diff").out.partition("\n$ ")[2].partition("\n")[0])
    assert words[:6] == ["claude", "mcp", "add-json", "--scope", "user", "vector-memory"]
    held = json.loads((home / ".claude.json").read_text(encoding="utf-8"))
    assert held["mcpServers"]["vector-memory"] == json.loads(words[6])
    assert "already connected" in run("install", "claude").out
    assert run("install", "claude", "--profile", "full", "--yes").code == 0
    assert run("uninstall", "claude", "--yes").code == 0
    assert json.loads((home / ".claude.json").read_text(encoding="utf-8")) == {"mcpServers": {}}


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize(
    "text",
    [
        '{"userID": "x"}',
        '{ "a":1, "mcpServers":{} }\n',
        "{}",
        "",
        '\ufeff{"a": 1}',
        '{"mcpServers": {"vector-memory": {"command": "of another program"}}}',
    ],
)
def test_the_file_of_claude_code_is_as_before_after_uninstall(text: str, run: Run, home: Path, tmp_path: Path) -> None:
    (home / ".claude.json").write_text(text, encoding="utf-8")
    before = everything(tmp_path)
    assert "not connected" in run("uninstall", "claude", "--yes").out
    run("install", "claude", "--yes")
    assert "of another program" not in (home / ".claude.json").read_text(encoding="utf-8")
    run("install", "claude", "--profile", "full", "--yes")
    run("uninstall", "claude", "--yes")
    assert everything(tmp_path) == before


@pytest.mark.usefixtures("claude")
def test_what_a_session_has_written_into_the_file_of_claude_code_stays(run: Run, home: Path) -> None:
    (home / ".claude.json").write_text('{"userID": "x"}', encoding="utf-8")
    run("install", "claude", "--yes")
    held = json.loads((home / ".claude.json").read_text(encoding="utf-8"))
    (home / ".claude.json").write_text(json.dumps(held | {"numStartups": 2}), encoding="utf-8")
    run("uninstall", "claude", "--yes")
    left = json.loads((home / ".claude.json").read_text(encoding="utf-8"))
    assert left == {"mcpServers": {}, "userID": "x", "numStartups": 2}
    assert [path.name for path in home.iterdir() if path.is_file()] == [".claude.json"]


@pytest.mark.usefixtures("claude")
def test_the_old_entry_is_added_again_when_the_new_one_is_refused(run: Run, home: Path) -> None:
    run("install", "claude", "--yes")
    before = (home / ".claude.json").read_bytes()
    ended = run("install", "claude", "--database-path", "broken.db", "--yes")
    assert ended.code == 2
    assert "`claude mcp add-json` failed: Invalid configuration" in ended.err
    assert (home / ".claude.json").read_bytes() == before


@pytest.mark.usefixtures("claude")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n"a" 1}', ".claude.json, line 2, column 5"),
        ("[1]", ".claude.json, the file must hold an object"),
        ('{"a": ' + "[" * 90_000, ".claude.json, the file must hold an object"),
        ('{"a": ' + "9" * 5_000 + "}", ".claude.json, the file must hold an object"),
        ('{"mcpServers": []}', '.claude.json, "mcpServers" and the servers in it must be objects'),
        ('{"mcpServers": {"vector-memory": "x"}}', '.claude.json, "mcpServers" and the servers in it must be'),
    ],
    ids=range(6),
)
def test_a_file_of_claude_code_that_cannot_be_read_is_an_error(text: str, said: str, run: Run, home: Path) -> None:
    (home / ".claude.json").write_text(text, encoding="utf-8")
    ended = run("install", "claude", "--yes")
    assert ended.code == 2
    assert f"{home}/{said}" in ended.err
    assert "Nothing was changed" in ended.err
    assert [path.read_text(encoding="utf-8") for path in home.iterdir() if path.is_file()] == [text]


SERVE = ["serve", "--profile", "core"]


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("copilot", {"type": "local", "command": "vm", "args": SERVE, "tools": ["*"]}),
        ("opencode", {"type": "local", "command": ["vm", *SERVE], "enabled": True}),
        ("cline", {"transport": {"type": "stdio", "command": "vm", "args": [*SERVE, "--database-path", "HOME"]}}),
        ("continue", {"name": "vector-memory", "command": "vm", "args": SERVE}),
        ("qwen", {"command": "vm", "args": SERVE}),
        ("crush", {"type": "stdio", "command": "vm", "args": SERVE}),
    ],
)
def test_an_entry_is_what_makes_the_tools_of_a_client_appear(
    name: str, entry: dict[str, Any], run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/other_clients shows that with the real ones."""
    monkeypatch.setattr(planning, "program", lambda: ["vm"])
    run("install", name, "--yes")
    text = json.dumps(written(CLIENTS[name], InstallScope.USER))
    assert json.loads(text.replace(str(home / ".vector-memory/memory.db"), "HOME")) == entry


def test_gemini_is_trusted_only_if_that_is_asked_for(run: Run, home: Path) -> None:
    """Without it `gemini -p` offers no tool, and with it deletions are not confirmed either."""
    file = home / ".gemini/settings.json"
    assert "`gemini -p` does not offer the tools: --trust" in " ".join(run("install", "gemini", "--yes").out.split())
    assert "trust" not in written(CLIENTS["gemini"], InstallScope.USER)
    assert "--trust" not in run("install", "gemini", "--trust", "--yes").out
    assert written(CLIENTS["gemini"], InstallScope.USER)["trust"] is True
    assert "already connected" in run("install", "gemini").out
    file.unlink()
    file.with_name("settings.json.before-vector-memory").unlink(missing_ok=True)
    for answers, is_trusted in ((b"y\ny\n", True), (b"n\ny\n", None)):
        code, _, asked = answered(answers, "install", "gemini")
        assert (code, b"those that delete too?" in asked) == (0, True)
        assert written(CLIENTS["gemini"], InstallScope.USER).get("trust") is is_trusted
        file.unlink()


def test_install_alone_connects_everything_on_the_machine_after_one_question(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert run("install", "--yes").out == "Found no known client on this machine.\n"
    for command in ("opencode", "grok"):
        (tmp_path / "bin" / command).symlink_to("/bin/true")
    (home / ".qwen").mkdir()
    (home / ".cursor").mkdir()
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text("{ broken", encoding="utf-8")
    before = everything(tmp_path)
    shown = run("install", "--dry-run")
    assert (shown.code, everything(tmp_path)) == (1, before), "one file is broken"
    assert f"Qwen Code, for all your projects: changes {home}/.qwen/settings.json." in shown.out
    assert f"Gemini CLI is left out: {home}/.gemini/settings.json, line 1" in shown.out
    assert "Grok Build also starts the servers of Cursor: nothing to change." in shown.out
    assert f"Found {home}/.qwen, but no command `qwen`." in shown.out, "it may have been removed"
    assert f"Found {tmp_path}/bin" not in shown.out
    assert "+++" not in shown.out
    assert f"+++ {home}/.config/opencode/opencode.json" in run("install", "--dry-run", "--diff").out
    code, _, asked = answered(b"y\n", "install")
    assert (code, asked.count(b"[y/N]"), b"Connect 3 clients?" in asked) == (1, 1, True)
    changed = {path for path, content in everything(tmp_path).items() if before.get(path) != content}
    ours = {"home/.qwen/settings.json", "home/.config/opencode/opencode.json", "home/.cursor/mcp.json"}
    assert ours <= changed
    assert "already connected" in run("install", "--yes").out
