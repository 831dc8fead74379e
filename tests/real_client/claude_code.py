"""The real Claude Code: one user's home, one project, and this checkout's plugin unless it is left out."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from real_client.received import Answer, answers_in
from real_client.scripted_model import PLUGIN, SERVER, ScriptedModel, Turn
from waiting import eventually

CHECKOUT = Path(__file__).parents[2]
ALLOWED = (f"{PLUGIN}*", f"{SERVER}*", "Agent", "ToolSearch")
WORDS = (
    *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--include-hook-events"),
    *("--forward-subagent-text", "--permission-mode", "default", "--allowedTools", *ALLOWED),
)
WITH_PLUGIN = ("--plugin-dir", str(CHECKOUT / "plugin"))
ALONE = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "MCP_CONNECTION_NONBLOCKING": "0",  # otherwise the first turn begins before the server is connected
    "MCP_CONNECT_TIMEOUT_MS": "60000",
    "MCP_TIMEOUT": "60000",  # after a start that took longer, Claude Code does not try again for 15 minutes
}
INSTALLED = {"UV_PROJECT_ENVIRONMENT": sys.prefix, "UV_NO_SYNC": "1"}
"""The plugin's server runs in the environment of these tests."""


class User:
    """Somebody with an empty home and an empty project, who talks with the scripted model."""

    def __init__(self, command: Path, folder: Path, model: ScriptedModel) -> None:
        self.command = command
        self.words = (*WITH_PLUGIN, *WORDS)
        self.model = model
        self.home, self.project, self.log = folder / "home", folder / "project", folder / "server.log"
        self.home.mkdir()
        self.project.mkdir()

    @property
    def database(self) -> Path:
        """Where the project's memory is."""
        return self.project / "memory" / "agent_session_memory.db"

    @property
    def variables(self) -> dict[str, str]:
        """The environment: nothing of the one that the tests run in but where commands are."""
        own = {"HOME": str(self.home), "TMPDIR": str(self.home), "PATH": os.environ["PATH"]}
        log = {"VECTOR_MEMORY_LOG_FILE": str(self.log), "VECTOR_MEMORY_LOG_LEVEL": "DEBUG"}
        return {**own, **log, **ALONE, **INSTALLED, "ANTHROPIC_BASE_URL": self.model.url}

    def session(self, **variables: str) -> "Session":
        """Start Claude Code, with these variables too."""
        return Session(self, variables)


class Session:
    """Claude Code running in a process group of its own, which is killed at the end."""

    def __init__(self, user: User, variables: Mapping[str, str]) -> None:
        self.events: list[dict[str, Any]] = []
        """What was typed, and all that the client has reported, in this order."""
        self._model = user.model
        self._errors = (user.home / "errors.txt").open("ab")
        self._process = subprocess.Popen(
            [user.command, *user.words],
            env={**user.variables, **variables},
            cwd=user.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.end()
        finally:
            self.kill()

    def ask(self, prompt: str, *turns: Turn) -> list[Answer]:
        """Type a prompt and wait for the end of the model's last turn; return what its calls have returned.

        `turns` are added to the script.
        """
        if turns:
            self._model.script[prompt] = turns
        received, results = len(self._model.answers()), self.results()
        self.type(prompt)
        eventually(lambda: self.results() > results or self._process.poll() is not None)
        assert self.results() > results, "Claude Code ended before the model did"
        return self._model.answers()[received:]

    def type(self, prompt: str) -> None:
        """Type a prompt."""
        message = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": prompt}]}}
        self.events.append({"type": "typed", "text": prompt})
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Close the client, as a user would."""
        self._process.stdin.close()
        eventually(lambda: self._process.poll() is not None)

    def kill(self) -> None:
        """Let the client, its server and everything else that it has started end at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def answers(self) -> list[Answer]:
        """Return what calls have returned to the client, which may not have told the model yet."""
        messages = [event["message"] for event in list(self.events) if event["type"] == "user"]
        return [answer for message in messages for answer in answers_in(message["content"])]

    def results(self) -> int:
        """Return how often the model has said all that it had to say."""
        return sum(event["type"] == "result" for event in list(self.events))

    def hooks(self, event: str = "") -> list[dict[str, Any]]:
        """Return how hooks have ended, or those of an event such as UserPromptSubmit."""
        ended = [happened for happened in list(self.events) if happened.get("subtype") == "hook_response"]
        return [hook for hook in ended if hook["hook_event"].startswith(event)]

    def told(self) -> str:
        """Return what the hooks have added to prompts. The client ends a hook that takes too long, and goes on."""
        answered = [hook for hook in self.hooks("UserPromptSubmit") if hook["outcome"] == "success"]
        outputs = [json.loads(hook["output"] or "{}") for hook in answered]
        return "\n".join(output.get("hookSpecificOutput", {}).get("additionalContext", "") for output in outputs)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):  # of a killed client, the last line may be a part
                self.events.append(json.loads(line))
