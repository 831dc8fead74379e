"""Cline: its configuration, and its transcripts: `data/sessions/<session>/*.messages.json` below `~/.cline`.

Those of the session have its name, those of its sub-agents others; `<session>.json` names the project.
"""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from vector_memory.clients.client import Client, ClientHome, CommandHooks, InstallScope, sessions_below, typed_entry
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import (
    Line,
    block_texts,
    content_blocks,
    field_of,
    heard,
    read_object,
    time_in_ms,
)
from vector_memory.domain.validation import MAX_IDENTIFIER

TYPED = re.compile(r"<user_input\b[^>]*>(.*?)</user_input>", re.DOTALL)
"""What the user wrote, within what the client adds."""

AGENT = "@cline/core"
"""The name that Cline gives itself."""

LEAD = "lead"


def cline_session(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript. Raises FormatError, OSError."""
    content = read_object(path)
    about = read_object(path.with_name(f"{path.parent.name}.json"))
    agent = str(content.get("agent") or LEAD)
    conversation = TranscriptConversation(AGENT if agent == LEAD else agent[:MAX_IDENTIFIER])
    messages = enumerate(field_of(1, content, "messages", list), 1)
    unread = heard(messages, partial(_note_cline, conversation), conversation.miss)
    session_id, project = field_of(1, about, "session_id", str), field_of(1, about, "cwd", str)
    return Transcript(path, session_id, project, conversation.result(is_report=agent != LEAD), tuple(unread))


def _note_cline(conversation: TranscriptConversation, number: int, message: Line) -> None:
    blocks = content_blocks(number, message.get("content"))
    text = "\n".join(block_texts(number, blocks, ("text",)))
    if message.get("role") == "assistant" and text:
        is_final = not any(block["type"] == "tool_use" for block in blocks)
        conversation.answer(text, time_in_ms(number, message.get("ts")), is_final=is_final)
    elif message.get("role") == "user" and (typed := "\n".join(TYPED.findall(text))):
        conversation.prompt(typed, time_in_ms(number, message.get("ts")))


def cline_hooks(commands: Mapping[str, str]) -> dict[str, str]:
    """Return a script for each event."""
    return {f"{event}.sh": f"#!/bin/sh\n{command}\n" for event, command in commands.items()}


HOME = ClientHome(".cline", "CLINE_DIR")

CLIENT = Client(
    title="Cline",
    files=HOME.file("data/settings/cline_mcp_settings.json"),
    entry=lambda *words: {"transport": typed_entry(*words)},
    # All projects have one server, which runs in the first one.
    shared=frozenset({InstallScope.USER}),
    commands=("cline",),
    instructions="AGENTS.md",
    sessions=sessions_below(HOME, cline_session, "data/sessions/*/*.messages.json"),
    hooks=HOME.file("hooks"),
    command_hooks=CommandHooks(
        AGENT,
        events={"prompt": "UserPromptSubmit", "answer": "TaskComplete"},
        fields={
            "session_id": "sessionContext.rootSessionId",
            "prompt": "userPromptSubmit.prompt",
            "last_assistant_message": "turn.outputText",
        },
        answer=None,
        texts=cline_hooks,
    ),
    longest_answer="8,000 characters, the middle is cut",
    traps="starts one server for all projects; leaves out a server that needs more than 3 seconds; shows no "
    "instructions of servers",
    seen="3.0.65",
)
