"""install and uninstall with the real clients: an agent remembers unasked, and afterwards nothing is left."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from real_client.claude_code import User
from real_client.codex_terminal import CodexTerminal
from real_client.scripted_model import CODEX, CODEX_WAITS, SERVER, Call, Say, ScriptedModel, Turn
from vector_memory.domain import Scope
from vector_memory.server.instructions import instructions_for
from vector_memory.settings import Profile, ServerOptions
from vector_memory.store import SessionMemoryStore
from waiting import eventually

pytestmark = pytest.mark.real_client

QUESTION = "Find out why the nightly import fails."
ANSWER = (
    "The nightly import fails because the disk of the staging machine is full: the job writes its temporary files to "
    "the root partition. It needs 40 GB, and 12 GB are left. Moving its scratch folder to the data partition would "
    "repair it; I have changed nothing so far."
)
REPORT = "The cooling fan of rack 7 is broken. The spare one is in the cellar, on the shelf beside the old printers."
SETTINGS = '{ "hooks" :{ "Stop":[\n\t{"hooks":[{"type":"command","command":"true"}  ]}\n\n]} ,\r\n"theme":"dark" }'
"""Settings with a hook of the user, written by hand."""

MODEL = CODEX.replace('/v1"', '/v1" # for the test')
CONFIGURATION = f"""# mine{MODEL}
[tui]
screen_reader_detection_done = true

[projects."{{project}}"]
trust_level = "trusted"
"""

CHOSEN = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "


def run(*words: str | Path, env: Mapping[str, str], cwd: Path) -> str:
    """Run a command and return what it says."""
    try:
        done = subprocess.run(
            words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
        )
    except subprocess.TimeoutExpired as late:  # pytest shows the beginning of its output alone
        pytest.fail(f"{late.stdout} {late.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ours(*words: str, env: Mapping[str, str], cwd: Path) -> str:
    return run(sys.executable, "-P", "-m", "vector_memory", *words, env=env, cwd=cwd)


def memory_in(project: Path) -> Path:
    return project / "memory" / "agent_session_memory.db"


def stored(project: Path, kind: str) -> list[str]:
    """Return the texts of this kind in the project's memory."""
    with SessionMemoryStore(memory_in(project)) as store:
        return [found.content for found in store.search_scoped(Scope(kind)).results]


def files(*folders: Path) -> dict[Path, bytes]:
    """Return what the user has, without what clients write by themselves."""
    own = {"backups", "projects", "telemetry", "plugins", ".cache", "memory"}
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in paths if not own.intersection(path.parts)}


class Connecting:
    """A user of Claude Code, who has no plugin, and the commands that the user types."""

    def __init__(self, user: User) -> None:
        self.user = user
        user.words = user.words[2:]
        self.variables = {**user.variables, "PATH": f"{user.command.parent}:{os.environ['PATH']}"}

    def ours(self, *words: str) -> str:
        return ours(*words, env=self.variables, cwd=self.user.project)

    def claude(self, *words: str) -> str:
        return run(self.user.command, *words, env=self.variables, cwd=self.user.project)


@pytest.fixture
def connecting(user: User) -> Connecting:
    return Connecting(user)


def test_claude_code_remembers_unasked_after_install(connecting: Connecting, model: ScriptedModel) -> None:
    user = connecting.user
    settings = user.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(SETTINGS.encode())
    connecting.ours("install", "claude", "--yes")
    model.script["Inspect the racks."] = [[Say(REPORT)]]
    task = {
        "description": "Inspect",
        "prompt": "Inspect the racks.",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    with user.session() as first:
        first.ask(QUESTION, [Call("Agent", {**task, "run_in_background": False})], [Say(ANSWER)])
        instructions = instructions_for(ServerOptions(profile=Profile.CORE))
        assert instructions.strip() in model.requests[-1].text, "the instructions need no other file"
        assert first.told() == ""
    assert stored(user.project, "input_prompt") == [QUESTION]
    assert stored(user.project, "working_memory") == [ANSWER]
    assert stored(user.project, "report") == [REPORT]
    with user.session() as second:
        (found,) = second.ask("Go on.", [Call(f"{SERVER}search_reports_specific_chunks", {"query": "cooling"})])
        assert found.fields["results"][0]["content"] == REPORT
        eventually(lambda: second.told() or second.ask("And then?"))  # a busy client may not have waited for it
        assert QUESTION in second.told()
        assert second.told().strip() in model.requests[-1].text
    connecting.ours("uninstall", "claude", "--yes")
    assert settings.read_bytes() == SETTINGS.encode()
    assert [path.name for path in settings.parent.glob("settings*")] == ["settings.json"]
    assert "vector-memory" not in connecting.claude("mcp", "list")
    with user.session() as third:
        third.ask("Is anything left?")
        assert third.told() == ""
    assert "Is anything left?" not in stored(user.project, "input_prompt")


@pytest.mark.parametrize("scope", ["user", "project"])
def test_claude_code_has_every_file_as_before_after_uninstall(connecting: Connecting, scope: str) -> None:
    user = connecting.user
    connecting.claude("mcp", "list")  # writes the client's own files
    for file in (user.home / ".claude" / "settings.json", user.project / ".claude" / "settings.local.json"):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(SETTINGS.encode())
    before = files(user.home, user.project)
    connecting.ours("install", "claude", f"--{scope}", "--yes")
    connecting.ours("install", "claude", f"--{scope}", "--profile", "full", "--yes")
    assert "already connected" in connecting.ours("install", "claude", f"--{scope}", "--profile", "full")
    assert ("Connected" if scope == "user" else "Pending approval") in connecting.claude("mcp", "list")
    connecting.ours("uninstall", "claude", f"--{scope}", "--yes")
    assert files(user.home, user.project) == before


def test_the_plugin_is_noticed_and_gives_way_as_install_says(connecting: Connecting) -> None:
    connecting.claude("plugin", "marketplace", "add", str(Path(__file__).parents[2]))
    connecting.claude("plugin", "install", "vector-memory@vector-memory")
    before = files(connecting.user.home, connecting.user.project)
    said = connecting.ours("install", "claude", "--yes")
    assert files(connecting.user.home, connecting.user.project) == before
    (command,) = [line.split() for line in said.splitlines() if line.startswith("  claude")]
    connecting.claude(*command[1:])
    assert "Connected Claude Code" in connecting.ours("install", "claude", "--yes")


class Codex:
    """A user of Codex, who has a configuration."""

    def __init__(self, command: Path, folder: Path, url: str) -> None:
        self.command, self.home, self.project = command, folder / "home", folder / "project"
        self.config = self.home / ".codex" / "config.toml"
        self.config.parent.mkdir(parents=True)
        self.project.mkdir()
        self.config.write_text(CONFIGURATION.format(url=url, project=self.project), encoding="utf-8")
        self.variables = {"HOME": str(self.home), "PATH": os.environ["PATH"]}

    def files(self) -> dict[Path, bytes]:
        """Return the user's files, without what Codex writes by itself."""
        configuration = [self.config, *self.config.parent.glob("hooks*"), *self.config.parent.glob("*.before-*")]
        return files(self.project) | {path: path.read_bytes() for path in configuration}

    def ours(self, *words: str) -> str:
        return ours(*words, env=self.variables, cwd=self.project)

    def trust_hooks(self) -> None:
        """Do what `install` says."""
        with CodexTerminal(self.command, self.project, self.variables) as terminal:
            terminal.wait_for(lambda shown: "Trust all and continue" in shown)
            terminal.press_until("2", CHOSEN + "2. Trust all and continue")
            terminal.press("\r")
            terminal.wait_for(lambda _: self.config.read_text(encoding="utf-8").count("trusted_hash") == 3)

    def ask(self, prompt: str) -> str:
        is_there = "vector-memory" in "".join(path.read_text() for path in self.files() if path.name == "config.toml")
        words = ["exec", "--skip-git-repo-check", *(CODEX_WAITS if is_there else ()), prompt]
        return run(self.command, *words, env=self.variables, cwd=self.project)

    def delegate_to(self, model: ScriptedModel) -> None:
        """Have the model delegate its next task, and answer as soon as the report is stored."""

        def as_soon_as_it_has_reported() -> Turn:
            eventually(lambda: stored(self.project, "report"))
            return [Say(ANSWER)]

        delegated = Call("multi_agent_v1__spawn_agent", {"message": "Inspect the racks.", "agent_type": "default"})
        answering = [as_soon_as_it_has_reported, [Say(ANSWER)]]  # the second, if Codex tells of the end meanwhile
        model.script |= {"Inspect the racks.": [[Say(REPORT)]], QUESTION: [[delegated], *answering]}


@pytest.mark.parametrize("scope", ["user", "project"])
def test_codex_remembers_unasked_after_install_and_trust(
    codex: Path, scope: str, tmp_path: Path, model: ScriptedModel
) -> None:
    user = Codex(codex, tmp_path, model.url)
    if scope == "user":  # who edits a file by hand may leave out its last line end
        user.config.write_text(user.config.read_text(encoding="utf-8").rstrip(), encoding="utf-8")
    before, numbers = user.files(), list[str]()
    assert '"Trust all and continue"' in user.ours("install", "codex", f"--{scope}", "--yes")
    [hooks] = tmp_path.rglob("hooks.json")
    installed = hooks.read_text(encoding="utf-8")
    hooks.write_text(installed.replace('"timeout": 5', '"timeout": 120'), encoding="utf-8")  # for a busy machine
    user.trust_hooks()

    user.delegate_to(model)
    user.ask(QUESTION)
    assert "Search this memory before you begin a task" in model.requests[-1].text, "no other file needs to say it"
    assert stored(user.project, "input_prompt") == [QUESTION]
    assert stored(user.project, "working_memory") == [ANSWER]
    assert stored(user.project, "report") == [REPORT]
    model.script |= {"Go on.": [[Say(ANSWER)]]}

    def recalled() -> list[str]:
        """Begin a session, and return the answers in its recap: no recap delays a prompt on a busy machine."""
        user.ask("Go on.")
        return re.findall(rf"Last answer \(memory (\d+)\): {re.escape(ANSWER)}", model.requests[-1].text)

    eventually(lambda: (found := recalled()) and numbers.extend(found) is None)
    with SessionMemoryStore(memory_in(user.project)) as store:
        assert store.get_memory_by_id(int(numbers[0])).memory.content == ANSWER
    hooks.write_text(installed, encoding="utf-8")
    user.ours("uninstall", "codex", f"--{scope}", "--yes")
    assert user.files() == before
    user.ask("Is anything left?")
    assert "Is anything left?" not in stored(user.project, "input_prompt")


def test_codex_waits_for_the_server_of_a_sub_agent_that_has_reported(
    codex: Path, tmp_path: Path, model: ScriptedModel
) -> None:
    user = Codex(codex, tmp_path, model.url)
    user.ours("install", "codex", "--user", "--yes")
    user.trust_hooks()
    late = tmp_path / "late"  # the second server, which is the sub-agent's
    late.write_text(f'#!/bin/sh\nmkdir "$0.1" || sleep 15\nexec {sys.executable} -P -m vector_memory "$@"\n')
    late.chmod(0o755)
    user.config.write_text(re.sub("(?m)^command = .*", f'command = "{late}"', user.config.read_text()))
    user.delegate_to(model)
    user.ask(QUESTION)
    assert stored(user.project, "report") == [REPORT]


def test_codex_lists_the_server_of_a_project_that_is_trusted(codex: Path, tmp_path: Path) -> None:
    user = Codex(codex, tmp_path, "http://127.0.0.1:9")
    user.ours("install", "codex", "--project", "--tools-only", "--yes")
    (server,) = json.loads(run(codex, "mcp", "list", "--json", env=user.variables, cwd=user.project))
    assert server["transport"]["args"] == ["serve", "--profile", "core"]
    user.config.write_text(user.config.read_text().partition("[projects.")[0], encoding="utf-8")
    assert json.loads(run(codex, "mcp", "list", "--json", env=user.variables, cwd=user.project)) == []
