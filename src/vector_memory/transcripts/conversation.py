"""What was said in a session: the plain values that readers of transcripts return, and how they are gathered."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from vector_memory.domain import MAIN_AGENT, MemoryKind
from vector_memory.validation import MAX_CONTENT

LEAST_REPORT, LEAST_ANSWER = 80, 200
"""Shorter texts say only that something is done."""

NOT_THE_USERS = re.compile(
    r"<task-notification|<local-command|<command-|<bash-|<user-memory-input|\[Request interrupted by user"
    r"|Caveat: The messages below|/[A-Za-z][\w:.-]*(?=\s|$)"
)
"""How prompts begin that a user did not write: reports of background agents, and commands of the client."""

ANALYSIS = re.compile(r"<analysis>.*?(?:</analysis>|\Z)|</?summary>", re.DOTALL)
"""What the client's model writes around its summary, and before it to prepare it."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text of a session. `time`: ISO 8601 in UTC."""

    kind: MemoryKind
    agent_id: str
    content: str
    time: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """What is worth remembering of a transcript. `project`: the absolute path of the folder it is about."""

    path: Path
    session_id: str
    project: str
    said: tuple[Said, ...]


@dataclass(slots=True)
class Conversation:
    """Gathers what is said in a session, in the order of its transcript.

    Of what an agent writes between two prompts, only the last text is an answer: the others say what it is about to do.
    """

    agent_id: str
    said: list[Said] = field(default_factory=list)
    _last: Said | None = None
    _is_final: bool = False

    def prompt(self, text: str, time: str) -> None:
        """Note what the user wrote, which makes the text before it an answer."""
        self._is_final = True
        self.finish()
        text = text.strip()[:MAX_CONTENT]
        if text and not NOT_THE_USERS.match(text):
            self.said.append(Said(MemoryKind.INPUT_PROMPT, MAIN_AGENT, text, time))

    def answer(self, text: str, time: str, *, is_final: bool = False) -> None:
        """Note what the agent wrote. `is_final`: the agent has nothing more to do."""
        self._last = Said(MemoryKind.WORKING_MEMORY, self.agent_id, text.strip()[:MAX_CONTENT], time)
        self._is_final = is_final

    def end_turn(self) -> None:
        """Note that the agent has nothing more to do."""
        self._is_final = True

    def summary(self, text: str, time: str) -> None:
        """Note the summary of what was said so far."""
        text = ANALYSIS.sub("", text).strip()[:MAX_CONTENT]
        if text:
            self.said.append(Said(MemoryKind.SESSION_CONTEXT, MAIN_AGENT, text, time))

    def finish(self) -> None:
        """Keep the agent's last text as an answer. Not while it is at work: it has not answered yet."""
        if self._last is not None and self._is_final and len(self._last.content) >= LEAST_ANSWER:
            self.said.append(self._last)
        self._last, self._is_final = None, False

    def report(self, title: str | None) -> tuple[Said, ...]:
        """Return the last text of a sub-agent as its report, if it is at its end and long enough."""
        last = self._last
        if last is None or not self._is_final or len(last.content) < LEAST_REPORT:
            return ()
        return (Said(MemoryKind.REPORT, self.agent_id, last.content, last.time, title),)
