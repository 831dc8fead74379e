"""What was said in a session: the plain values that readers of transcripts return, and how they are gathered."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from vector_memory.domain import MAIN_AGENT, MemoryKind
from vector_memory.transcripts.worth import answer_in, prompt_in, report_in, summary_in


@dataclass(frozen=True, slots=True)
class Said:
    """A text of a session, perhaps with secrets. `time`: ISO 8601 in UTC."""

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
        if prompt := prompt_in(text):
            self.said.append(Said(MemoryKind.INPUT_PROMPT, MAIN_AGENT, prompt, time))

    def answer(self, text: str, time: str, *, is_final: bool = False) -> None:
        """Note what the agent wrote. `is_final`: the agent has nothing more to do."""
        self._last = Said(MemoryKind.WORKING_MEMORY, self.agent_id, text, time)
        self._is_final = is_final

    def end_turn(self) -> None:
        """Note that the agent has nothing more to do."""
        self._is_final = True

    def summary(self, text: str, time: str) -> None:
        """Note the summary of what was said so far."""
        if summary := summary_in(text):
            self.said.append(Said(MemoryKind.SESSION_CONTEXT, MAIN_AGENT, summary, time))

    def finish(self) -> None:
        """Keep the agent's last text as an answer. Not while it is at work: it has not answered yet."""
        if self._last is not None and self._is_final and (answer := answer_in(self._last.content)):
            self.said.append(replace(self._last, content=answer))
        self._last, self._is_final = None, False

    def report(self, title: str | None) -> tuple[Said, ...]:
        """Return the last text of a sub-agent as its report, if it is at its end and long enough."""
        last = self._last
        if last is None or not self._is_final or not (report := report_in(last.content)):
            return ()
        return (Said(MemoryKind.REPORT, self.agent_id, report, last.time, title),)
