"""What was said in a session: the plain values that readers of transcripts return, and how they are gathered."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from vector_memory.clients.reading.lines import FormatError
from vector_memory.domain import MAIN_AGENT, CameFrom, MemoryFields, MemoryKind, Way
from vector_memory.domain.text import without_halves, without_nul
from vector_memory.domain.validation import MAX_CONTENT, MAX_IDENTIFIER, MAX_TITLE, as_title
from vector_memory.texts.redaction import Redacted, redact
from vector_memory.writing.writer import hash_of


@dataclass(frozen=True, slots=True)
class Message:
    """A text of a session, perhaps with secrets. `time`: ISO 8601 in UTC. `line_id`: of its line, if that has one.

    A line keeps its id when a client copies it into the transcript of another session.
    """

    kind: MemoryKind
    agent_id: str
    content: str
    time: str
    title: str | None = None
    line_id: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """What is worth remembering of a transcript. `project`: the absolute path of the folder it is about.

    `unread`: the lines that were left out because they are not as expected. `unknown`: the types of those that say
    something that is not known here.
    """

    path: Path
    session_id: str
    project: str
    said: tuple[Message, ...]
    unread: tuple[FormatError, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class TranscriptConversation:
    """Gathers what is said in a session, in the order of its transcript.

    Of what an agent writes between two prompts, only the last text is an answer: the others say what it is about to do.
    `is_at_rest`: nothing was said for long.
    """

    agent_id: str
    is_at_rest: bool = False
    said: list[Message] = field(default_factory=list)
    _is_left_out: bool = False
    _turns: list[int] = field(default_factory=list)
    _last: Message | None = None
    _is_final: bool = False

    def prompt(self, text: str, time: str, *, line_id: str | None = None, is_queued: bool = False) -> None:
        """Note what the user wrote, which makes the text before it an answer, unless the agent was at work."""
        self._is_final |= not is_queued
        if self._is_final:
            self.finish()
        self._turns.append(len(self.said))
        self._is_left_out |= leaves_out(text)
        self._say(said_by_user(text, time, line_id=line_id))

    def _say(self, message: Message | None) -> None:
        if message and not (self._is_left_out and message.agent_id != USER):
            self.said.append(message)

    def answer(self, text: str, time: str, *, line_id: str | None = None, is_final: bool | None = False) -> None:
        """Note what the agent wrote. `is_final`: the agent has nothing more to do; None: the client does not tell."""
        self._last = Message(MemoryKind.WORKING_MEMORY, self.agent_id, text, time, line_id=line_id)
        self._is_final = self.is_at_rest if is_final is None else is_final

    def end_turn(self) -> None:
        """Note that the agent has nothing more to do."""
        self._is_final = True

    def summary(self, text: str, time: str, *, line_id: str | None = None) -> None:
        """Note the summary of what was said so far, which comes after the answer to the last prompt."""
        if self._is_final:
            self.finish()
        if summary := summary_in(text):
            self._say(Message(MemoryKind.SESSION_CONTEXT, MAIN_AGENT, summary, time, line_id=line_id))

    def miss(self) -> None:
        """Note that something cannot be read: perhaps the answer, so that the text before it is none."""
        if not self._is_final:
            self._last = None

    def roll_back(self, turns: int) -> None:
        """Forget the last turns: the user went back to what was said before them."""
        if turns > 0 and self._turns:
            del self.said[self._turns[-turns:][0] :]
            del self._turns[-turns:]
        self._last, self._is_final = None, False

    def finish(self) -> None:
        """Keep the agent's last text as an answer. Not while it is at work: it has not answered yet."""
        if self._last is not None and self._is_final and (answer := long_enough(self._last.content, LEAST_ANSWER)):
            self._say(replace(self._last, content=answer))
        self._last, self._is_final = None, False

    def result(self, *, is_report: bool = False, title: object = None) -> tuple[Message, ...]:
        """Return what is worth remembering at the end: of a sub-agent only its report, with the title."""
        if not is_report:
            self.finish()
            return tuple(self.said)
        last, titled = self._last, str(title or "")[:MAX_TITLE] or None
        if last is None or not self._is_final or not (report := long_enough(last.content, LEAST_REPORT)):
            return ()
        return (Message(MemoryKind.REPORT, self.agent_id, report, last.time, titled, last.line_id),)


LEAST_REPORT, LEAST_ANSWER = 80, 200
"""Shorter texts say only that something is done."""

SENDERS = (
    "task-notification|agent-message|teammate-message|cross-session-message|coordinator-relay|channel|remote-review"
    "|slack-ping|slack-tag-message|tick|mcp-resource-update|mcp-polling-update"
)
"""Tags around what others than the user write to an agent."""

COMMANDS = (
    "add-dir|agents|branch|clear|color|compact|config|context|copy|cost|doctor|effort|exit|export|fast|fork|help|hooks"
    "|ide|init|login|logout|mcp|memory|model|output-style|permissions|plan|plugin|plugins|quit|release-notes"
    "|reload-plugins|rename|resume|rewind|sandbox|skills|status|statusline|terminal-setup|theme|undo|usage|vim"
)
"""Commands of clients. Other texts that begin with a slash can be of a path, or ask for the work of a skill."""

NOT_THE_USERS = re.compile(
    rf"<(?:{SENDERS})\b|<local-command|<command-|<bash-|<user-memory-input|\[Request interrupted by user"
    rf"|Caveat: The messages below|/(?:[A-Za-z][\w.-]*\s*\Z|[A-Za-z][\w.-]*:[A-Za-z]|(?:{COMMANDS})\s)"
)
"""How prompts begin that a user did not write: messages of agents and of programs, and commands of the client."""

SCAFFOLDING = re.compile(r"<(system-reminder|ide_\w+|local-command-\w+)\b[^>]*>.*?</\1>", re.DOTALL)
"""What a client adds to a prompt."""

BEFORE_REQUEST = re.compile(
    r"\A\s*# (?:Context from my IDE setup|Files mentioned by the user):.*?^## My request for Codex:",
    re.DOTALL | re.MULTILINE,
)
"""What an editor writes before the prompt, such as its open tabs."""

NO_ANSWER = re.compile(r"API Error(?::|\s*\()|No response requested\.\s*\Z")
"""How texts begin that a client writes in place of an answer."""

ANALYSIS = re.compile(r"<analysis>.*?(?:</analysis>|\Z)|</?(?:summary|state_snapshot)>", re.DOTALL)
"""What a client's model writes around its summary, and before it to prepare it."""


def prompt_in(text: str) -> str:
    """Return what a user wrote; empty if it was not the user."""
    prompt = SCAFFOLDING.sub("", BEFORE_REQUEST.sub("", text, count=1)).strip()
    return "" if NOT_THE_USERS.match(prompt) else prompt


USER = "user"
"""The agent of what a user asked to remember."""

REMEMBER = re.compile(r"/remember\s+(?=\S)|remember:\s*(?=\S[^\n]*\Z)", re.IGNORECASE)
"""How prompts begin whose rest is to be remembered. Without a slash, only one line: others are tasks."""

LEAVE_OUT = re.compile(r"(?:do not|don['\u2019]t) remember this session[.!]?", re.IGNORECASE)
"""The prompt, as a whole, after which nothing more of its session is kept unasked."""


def leaves_out(prompt: str) -> bool:
    """Return whether a user asks in a prompt to keep nothing more of the session."""
    return LEAVE_OUT.fullmatch(prompt_in(prompt)) is not None


def said_by_user(text: str, time: str, *, line_id: str | None = None) -> Message | None:
    """Return what is kept of a prompt: the prompt, or as a report what the user asks to remember."""
    prompt = prompt_in(text)
    if not prompt or leaves_out(prompt):
        return None
    if asked := REMEMBER.match(prompt):
        return Message(MemoryKind.REPORT, USER, prompt[asked.end() :], time, line_id=line_id)
    return Message(MemoryKind.INPUT_PROMPT, MAIN_AGENT, prompt, time, line_id=line_id)


def long_enough(text: str, least: int) -> str:
    """Return the text of an answer or a report; empty if it has fewer characters than `least`, or is none."""
    said = text.strip()
    return said if len(said) >= least and not NO_ANSWER.match(said) else ""


def message_of(event: str, given: Mapping[str, str], agent: str, time: str) -> Message | None:
    """Return what a hook reports of an event: prompt, answer, subagent or compaction; None: nothing to keep.

    `given`: what the client says of it. `agent`: who answers.
    """
    if event == "prompt":
        return said_by_user(given.get("prompt", ""), time)
    last = given.get("last_assistant_message", "")
    kind, agent_id, content = {
        "answer": (MemoryKind.WORKING_MEMORY, agent, long_enough(last, LEAST_ANSWER)),
        "subagent": (MemoryKind.REPORT, given.get("agent_type", "").strip(), long_enough(last, LEAST_REPORT)),
        "compaction": (MemoryKind.SESSION_CONTEXT, MAIN_AGENT, summary_in(given.get("compact_summary", ""))),
    }.get(event, (MemoryKind.INPUT_PROMPT, MAIN_AGENT, ""))
    return Message(kind, agent_id, content, time) if agent_id and content else None


def stored_fields(
    said: Message, session_id: str, project: str, client: str, clean: Callable[[str], str]
) -> MemoryFields:
    """Return the fields with which a message is stored. `clean` returns a text or a name without secrets."""
    return MemoryFields(
        agent_id=clean(said.agent_id)[:MAX_IDENTIFIER],
        session_id=session_id,
        title=as_title(clean(said.title or "")),
        metadata={"project": clean(project)},
        created_at=said.time,
        came_from=CameFrom(by=Way.HOOK, client=client),
    )


def summary_in(text: str) -> str:
    """Return the summary of a compacted conversation."""
    return ANALYSIS.sub("", text).strip()


def hashes_as_stored(text: str) -> set[str]:
    """Return the hashes of a text as it is stored, with secrets and without."""
    return {hash_of(storable(text, redacts=redacts).text) for redacts in (True, False)}


def storable(text: str, *, redacts: bool) -> Redacted:
    """Return a text as it is stored: without secrets and private parts if `redacts`, then cut to the maximum length."""
    text = without_nul(without_halves(text))  # nobody can correct it
    found = redact(text) if redacts else Redacted(text, 0)
    return replace(found, text=found.text[:MAX_CONTENT].strip())
