"""What a line of a transcript of Claude Code says, and who says it."""

import re
from dataclasses import dataclass
from enum import Enum, auto

from vector_memory.transcripts.conversation import Conversation
from vector_memory.transcripts.lines import Line, blocks_of, field, texts_of, time_of

FINAL = ("end_turn", "stop_sequence", "refusal")
"""Why a message ends when the agent has nothing more to do."""

SYNTHETIC = "<synthetic>"
"""The model of a message that the client has written itself."""

AROUND_SUMMARY = re.compile(
    r"\AThis session is being continued.*?\n\s*Summary:\s*\n"
    r"|\n\s*(?:If you need specific details from before compaction|Please continue the conversation from where).*\Z",
    re.DOTALL,
)
"""What the client writes around the summary of a compacted conversation, for its own model."""


class Speaker(Enum):
    """Who says something. QUEUE: the user, while the agent works. NOBODY: the line cannot be read."""

    USER = auto()
    QUEUE = auto()
    AGENT = auto()
    SUMMARY = auto()
    NOBODY = auto()


@dataclass(frozen=True, slots=True)
class Turn:
    """What a line says. `is_final`: whether the agent has nothing more to do; None: the client does not tell."""

    speaker: Speaker
    text: str = ""
    time: str = ""
    line_id: str | None = None
    is_final: bool | None = False

    def add_to(self, conversation: Conversation, *, is_at_rest: bool) -> None:
        """Add it to a conversation. `is_at_rest`: nothing was said in it for long."""
        match self.speaker:
            case Speaker.USER | Speaker.QUEUE:
                is_queued = self.speaker is Speaker.QUEUE
                conversation.prompt(self.text, self.time, line_id=self.line_id, is_queued=is_queued)
            case Speaker.AGENT:
                is_final = is_at_rest if self.is_final is None else self.is_final
                conversation.answer(self.text, self.time, line_id=self.line_id, is_final=is_final)
            case Speaker.SUMMARY:
                conversation.summary(self.text, self.time, line_id=self.line_id)
            case Speaker.NOBODY:
                conversation.miss()


def id_of(line: Line, name: str = "uuid") -> str | None:
    """Return the id of a line, or of one that it names, if there is one."""
    line_id = line.get(name)
    return line_id if isinstance(line_id, str) and line_id else None


def is_prompt(line: Line) -> bool:
    """Return whether a line can be a prompt of the user: not a note for the model, a summary or a tool's result."""
    if line["type"] != "user" or not is_of_user(line):
        return False
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def is_of_user(said: Line) -> bool:
    """Return whether a line or an attachment is of the user. Messages of agents and programs name their origin."""
    origin = said.get("origin")
    kind = origin.get("kind") if isinstance(origin, dict) else None
    notes = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
    return kind in (None, "human") and not any(map(said.get, notes))


def turn_in(number: int, line: Line) -> Turn | None:
    """Return what a line says; None if that is nothing worth keeping. Raises FormatError."""
    if "forkedFrom" in line:  # a copy of a line of another session
        return None
    match line["type"]:
        case "user":
            return _of_user(number, line)
        case "assistant":
            return _of_agent(number, line)
        case "attachment":
            return _queued(number, line)
    return None


def _of_user(number: int, line: Line) -> Turn | None:
    if line.get("isMeta"):
        return None
    blocks = blocks_of(number, field(number, line, "message", dict).get("content"))
    text, time = "\n".join(texts_of(number, blocks, ("text",))), time_of(number, line)
    if line.get("isCompactSummary"):
        return Turn(Speaker.SUMMARY, AROUND_SUMMARY.sub("", text), time, id_of(line))
    return Turn(Speaker.USER, text, time, id_of(line)) if is_prompt(line) else None


def _of_agent(number: int, line: Line) -> Turn | None:
    message = field(number, line, "message", dict)
    if line.get("isMeta") or line.get("isApiErrorMessage") or message.get("model") == SYNTHETIC:
        return None
    # Each block of a message has a line of its own, and hooks are told the last one that is a text.
    texts, time = texts_of(number, blocks_of(number, message.get("content")), ("text",)), time_of(number, line)
    stop = message.get("stop_reason")
    is_final = None if stop is None else stop in FINAL
    return Turn(Speaker.AGENT, "\n".join(texts), time, id_of(line), is_final) if texts else None


def _queued(number: int, line: Line) -> Turn | None:
    """Return a prompt that the user sent while the agent was at work: it has no other line."""
    attachment = line.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return None
    if attachment.get("commandMode", "prompt") != "prompt" or not is_of_user(attachment):
        return None
    texts = texts_of(number, blocks_of(number, attachment.get("prompt")), ("text",))
    return Turn(Speaker.QUEUE, "\n".join(texts), time_of(number, line), id_of(line))
