"""An evening on one project: agents of different vendors, one after another, each goes on where the last one ended.

`uv run examples/an_evening.py [CLIENT...]` runs the real clients that `uv run python tests/from_npm.py NAME` has
installed, `real_client` for claude and codex and otherwise `other_clients/gemini` and so on. Their models play a
script, so this needs no account and no network: a model checks the rack after the last one that it reads of, and
without any the first. Each session is new and of another client, so only the memory can tell.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from other_clients.driven import ALL, NotInstalledError, User, call_of_ours, command_of, in_shell
from other_clients.scripted import Call, Messages, Model
from vector_memory.answers.models import MemoryEntry
from vector_memory.clients import hook
from vector_memory.clients.registry import CLIENTS
from vector_memory.domain import Scope
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

PROMPT = "Check the next rack, and say what it needs."
RACKS = (
    *("the fan is loud, 41 degrees at the outlet", "one of two power supplies is dark", "the label is missing"),
    *("the cable to the switch is loose", "the battery is of 2019", "the fan is broken", "disk 4 reports 12 errors"),
    *("the door does not close", "the firmware is of March", "a screw is missing", "all is well"),
)
CHECKED = re.compile(r"Rack (\d+) is checked")
FINDING = (
    "Rack {0} is checked: {1}. I have read this in racks/{0}.txt, and repaired nothing. Whoever goes on should read "
    "the file of the next rack, and say in the same words what it needs, so that the list of this evening is complete."
)
QUESTIONS = {
    "search_changes": {"session_id": "last"},
    "search_reports_specific_chunks": {"query": "Which rack is checked?", "limit": 20},
}
"""What an agent asks that no hook tells. In Grok Build, whose prompts hooks store, the last session is its own."""
SECONDS_TO_WAIT, ATTEMPTS = 20, 9


class Agent:
    """The model of one client. `told`: the last rack that it read of before it began. `finding`: what it said."""

    def __init__(self, name: str) -> None:
        self.name = name
        hooks = CLIENTS[name].command_hooks
        self.is_told = bool(CLIENTS[name].hooks) and (hooks is None or hooks.answer is not None)
        self.is_recapped = self.is_told or name == "grok"
        self.told, self.finding = 0, ""

    def turn(self, messages: Messages) -> str | Call:
        """Check the next rack. What no hook does, the agent does: ask the memory before, store a report after."""
        for tool, arguments in () if self.is_told else QUESTIONS.items():
            if not has_called(messages, tool):
                return call_of_ours(self.name, messages, tool, arguments)
        heard = json.dumps([one for one in messages if one["role"] not in ("assistant", "model")])
        self.told = max(map(int, CHECKED.findall(heard)), default=0)
        rack = self.told + 1
        if f"rack {rack}: {RACKS[self.told]}" not in heard:
            return in_shell(self.name, f"cat racks/{rack}.txt", "Read what the rack reports")
        self.finding = FINDING.format(rack, RACKS[self.told])
        if not self.is_recapped and not has_called(messages, "store_report"):
            report = {"title": f"Rack {rack} is checked", "content": self.finding}
            return call_of_ours(self.name, messages, "store_report", report)
        return self.finding


def has_called(messages: Messages, tool: str) -> bool:
    """Return whether the model has called a tool of the memory, and not only looked for it."""
    calls = [call["function"] for one in messages for call in one.get("tool_calls") or ()]
    return any(tool in f"{call['name']} {call['arguments']}" and call["name"] != "search_tool" for call in calls)


class Evening:
    """A project, its memory, and what has happened so far."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        self.memory = self.project / "memory/agent_session_memory.db"
        (self.project / "racks").mkdir(parents=True)
        for number, state in enumerate(RACKS, 1):
            (self.project / f"racks/{number}.txt").write_text(f"rack {number}: {state}\n", encoding="utf-8")

    @contextmanager
    def editor(self) -> Iterator[None]:
        """Keep a server running all evening, as an editor does that is open: hooks that run a command reach it."""
        words = [
            sys.executable,
            "-P",
            "-m",
            "vector_memory",
            "serve",
            "--embedding-model",
            "toy",
            "--log-level",
            "WARNING",
        ]
        with subprocess.Popen(words, cwd=self.project, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
            wait_for(Path(hook.socket_of(str(self.memory.resolve()))).exists)
            try:
                yield
            finally:
                server.kill()

    def memories(self) -> dict[int, MemoryEntry]:
        """Return the newest prompts, answers and reports in the memory."""
        if not self.memory.exists():
            return {}
        with SessionMemoryStore(self.memory, Settings(embedding_model="toy"), read_only=True) as store:
            scopes = map(Scope, ("input_prompt", "working_memory", "report"))
            return {one.id: one for scope in scopes for one in store.search_scoped(scope).results}

    def has_heard(self, agent: Agent, before: Collection[int]) -> bool:
        """Return whether what an agent has found was stored since then."""
        return any(one.content == agent.finding for number, one in self.memories().items() if number not in before)

    def work(self, name: str, rack: int) -> Agent:
        """Let a client work. If it has not waited for its hooks, on a busy machine, that is forgotten and repeated.

        Raises NotInstalledError.
        """
        with Model({}) as model:
            user = User(name, self.folder, model)
            named = ("--database-path", str(self.memory)) if name == "cline" else ()  # its projects share one otherwise
            user.ours("install", name, "--yes", *named, *ALL[name].flags)
            for _ in range(ATTEMPTS):
                agent, before = Agent(name), self.memories().keys()
                model.script = {PROMPT: agent.turn}
                user.ask(PROMPT)
                if wait_for(partial(self.has_heard, agent, before)) and agent.told == rack - 1:
                    break
                for session_id in {one.session_id for number, one in self.memories().items() if number not in before}:
                    user.ours("delete", "--session", session_id, "--yes")
            if name == "cline":  # it leaves a process that every session uses
                user.run(user.command, "hub", "stop")
        return agent


def wait_for(holds: Callable[[], bool]) -> bool:
    """Return whether a condition holds in time."""
    until = time.monotonic() + SECONDS_TO_WAIT
    while not (is_so := holds()) and time.monotonic() < until:
        time.sleep(0.1)
    return is_so


def main(names: list[str], folder: Path) -> None:
    """Let clients work one after another, and print what each was told and has found."""
    evening = Evening(folder)
    with evening.editor():
        for rack, name in enumerate(names, 1):
            agent = evening.work(name, rack)
            how = "was told with its prompt" if agent.is_told else "has asked the memory"
            told = f"{how} that rack {agent.told} is checked" if agent.told else "was told nothing"
            print(f"{name:>8} {told}, and says:\n{'':>9}{agent.finding.partition('. ')[0]}.", flush=True)
            if agent.told != rack - 1:
                sys.exit(f"{name} should have been told of rack {rack - 1}.")


if __name__ == "__main__":
    here = []
    for client in sys.argv[1:] or ALL:
        with suppress(NotInstalledError):
            command_of(client)
            here.append(client)
    if not {"cline", "continue"} & {*here}:  # only their agents store reports, and that of Grok Build finds no answers
        here = [client for client in here if client != "grok"]
    here.sort(key=lambda one: not Agent(one).is_told)  # each of these is told what the one before has found
    with tempfile.TemporaryDirectory() as scratch:
        main([*here, *here[:1]], Path(scratch))
