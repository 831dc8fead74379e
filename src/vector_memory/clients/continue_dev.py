"""Continue: its configuration, and its transcripts: `sessions/<session>.json` below `~/.continue`.

Messages have no times: that of the session is in `sessions.json`.
"""

import json
from functools import partial
from pathlib import Path

from vector_memory.clients.client import Client, ClientHome, entry_with, sessions_below
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import (
    FormatError,
    Line,
    block_texts,
    content_blocks,
    field_of,
    heard,
    read_object,
    time_in_ms,
)
from vector_memory.domain.user_files import read_file

INDEX = "sessions.json"


def continue_chat(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is the index. Raises FormatError, OSError."""
    if path.name == INDEX:
        return None
    content = read_object(path)
    session_id, project = field_of(1, content, "sessionId", str), field_of(1, content, "workspaceDirectory", str)
    time, conversation = _began(path.with_name(INDEX), session_id), TranscriptConversation("continue-cli-client")
    said = enumerate(field_of(1, content, "history", list), 1)
    unread = heard(said, partial(_note_item, conversation, time), conversation.miss)
    return Transcript(path, session_id, project.removeprefix("file://"), conversation.result(), tuple(unread))


def _began(index: Path, session_id: str) -> str:
    """Return when a session began. Raises FormatError, OSError."""
    try:
        sessions = json.loads(read_file(index))
        found = next(one["dateCreated"] for one in sessions if one["sessionId"] == session_id)
    except (ValueError, LookupError, TypeError, StopIteration, RecursionError):
        raise FormatError(1, f"the time of the session in `{INDEX}`") from None
    return time_in_ms(1, found)


def _note_item(conversation: TranscriptConversation, time: str, number: int, item: Line) -> None:
    message = field_of(number, item, "message", dict)
    content = message.get("content")
    texts = block_texts(number, content_blocks(number, content), ("text",)) if content else ()
    text = "\n".join(texts)
    if message.get("role") == "user" and text:
        conversation.prompt(text, time)
    elif message.get("role") == "assistant" and text:
        conversation.answer(text, time, is_final=not message.get("toolCalls"))


HOME = ClientHome(".continue", "CONTINUE_GLOBAL_DIR")

CLIENT = Client(
    title="Continue",
    files=HOME.file("config.yaml"),
    format="yaml list",
    entry=entry_with(name="vector-memory"),
    commands=("cn",),
    instructions="AGENTS.md",
    sessions=sessions_below(HOME, continue_chat, "sessions/*.json"),
    longest_answer="no limit",
    traps="shows no instructions of servers; does not start at all if a server does not answer within 2 minutes",
    seen="1.5.47",
)
