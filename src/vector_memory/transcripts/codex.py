"""Reads the transcripts of Codex: `sessions/YYYY/MM/DD/rollout-*.jsonl` and `archived_sessions/` below `~/.codex`.

A line is `{timestamp, type, payload}`. What was said is in lines of type `response_item`; those of type `event_msg`
repeat it for the client's own display, and only the one that says that a turn is complete is read.
"""

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from vector_memory.domain.validation import MAX_IDENTIFIER
from vector_memory.errors import ValidationError
from vector_memory.transcripts.conversation import Conversation, Transcript
from vector_memory.transcripts.lines import FormatError, Line, blocks_of, field, read_lines, texts_of, time_of

AGENT = "codex-mcp-client"
"""The name that Codex gives itself."""

SUBAGENT = "subagent"

SCAFFOLDING = re.compile(r"\s*(?:<([A-Za-z_-]+)\b[^>]*>.*</\1>\s*\Z|# AGENTS\.md instructions)", re.DOTALL)
"""Texts that the client adds to the user's."""


def home() -> Path:
    """Return the folder of Codex."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def transcripts(project: Path | None) -> Iterator[Path]:
    """Yield the transcripts of a project and of the folders below it, or all, in the order of their paths."""
    for folder in ("sessions", "archived_sessions"):
        for path in sorted((home() / folder).rglob("rollout-*.jsonl")):
            if project is None or _is_about(path, project):
                yield path


def _is_about(path: Path, project: Path) -> bool:
    """Return whether a transcript is about a project. One whose first line is not as expected is, to be reported."""
    try:
        first = next(islice(read_lines(path), 1), None)
        return first is None or Path(field(first[0], first[1]["payload"], "cwd", str)).is_relative_to(project)
    except (ValidationError, OSError, KeyError, AttributeError):
        return True


def read(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is empty. Raises FormatError, OSError."""
    lines = read_lines(path)
    number, first = next(lines, (0, {}))
    if not number:
        return None
    if first["type"] != "session_meta":
        raise FormatError(number, "a line of type `session_meta`")
    meta = field(number, first, "payload", dict)
    session_id, project = field(number, meta, "id", str), field(number, meta, "cwd", str)
    subagent = _subagent(meta)
    conversation = Conversation(subagent or AGENT)
    for number, line in lines:
        if line["type"] in ("response_item", "event_msg", "compacted"):
            _follow(conversation, number, line)
    if subagent:
        root = meta.get("session_id")
        return Transcript(path, root if isinstance(root, str) else session_id, project, conversation.report(None))
    conversation.finish()
    return Transcript(path, session_id, project, tuple(conversation.said))


def _follow(conversation: Conversation, number: int, line: Line) -> None:
    """Note what a line says."""
    payload = field(number, line, "payload", dict)
    match line["type"], payload.get("type"), payload.get("role"):
        case "response_item", "message", "user":
            texts = texts_of(number, blocks_of(number, payload), ("input_text", "text"))
            prompt = "\n\n".join(text for text in texts if not SCAFFOLDING.match(text))
            if prompt.strip():
                conversation.prompt(prompt, time_of(number, line))
        case "response_item", "message", "assistant":
            texts = texts_of(number, blocks_of(number, payload), ("output_text", "text"))
            conversation.answer("\n\n".join(texts), time_of(number, line))
        case "event_msg", "task_complete" | "turn_complete", _:
            conversation.end_turn()
        case "compacted", _, _:
            conversation.summary(field(number, payload, "message", str), time_of(number, line))
        case "response_item", kind, _ if not isinstance(kind, str):
            raise FormatError(number, "a string as `payload.type`")


def _subagent(meta: dict[str, Any]) -> str | None:
    """Return the name of the sub-agent whose transcript begins with this, or None if it is a session of a user."""
    source = meta.get("source")
    if not isinstance(source, dict) or "subagent" not in source:
        return None
    names = [meta.get("agent_role"), meta.get("agent_nickname"), source["subagent"]]
    return next((name.strip()[:MAX_IDENTIFIER] for name in names if isinstance(name, str) and name.strip()), SUBAGENT)
