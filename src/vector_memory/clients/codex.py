"""Codex: its configuration, and its transcripts.

They are in `sessions/YYYY/MM/DD/rollout-*.jsonl` and `archived_sessions/` below `~/.codex`, those of past weeks
compressed: `rollout-*.jsonl.zst`. A line is `{timestamp, type, payload}`. What was said is in
lines of type `response_item`; those of type `event_msg` repeat it for the client's own display, and only those that say
that a turn is complete, or that the user went back to an earlier one, are read.
"""

import re
from collections.abc import Iterator
from glob import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

from vector_memory.clients.client import (
    CONNECTED,
    Client,
    ClientHome,
    InstallScope,
    OwnMemory,
    Sessions,
    home_of,
    in_project,
)
from vector_memory.clients.reading.conversation import Message, Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import (
    COMPRESSED,
    FormatError,
    Line,
    block_texts,
    content_blocks,
    field_of,
    heard,
    read_lines,
    time_of,
)
from vector_memory.domain.validation import MAX_IDENTIFIER
from vector_memory.errors import ValidationError
from vector_memory.settings.locations import real_path

AGENT = "codex-mcp-client"
"""The name that Codex gives itself."""

SUBAGENT = "subagent"

FRAGMENTS = (
    "agent_message_board_notification|apps_instructions|codex_internal_context|collaboration_mode"
    "|content_filter_guidance|context_window_guidance|context_window_reminder|current_time_reminder"
    "|current_time_unavailable|environment_context|hook_prompt|image|image_resize_notice|instructions"
    "|model_instructions|model_switch|permissions instructions|personality_spec|plugins_instructions"
    "|realtime_conversation|realtime_delegation|recommended_plugins|rollout_budget|side_conversation|skill"
    "|skills_instructions|startup_context|subagent_notification|token_budget|turn_aborted|user_action"
    "|user_instructions|user_shell_command|user_verification_notice"
)
"""Tags around the texts that the client adds to the user's."""

SCAFFOLDING = re.compile(
    rf"\s*(?:<({FRAGMENTS})\b[^>]*>.*</\1>\s*\Z|# AGENTS\.md instructions(?: for [^\n]*)?\n|</?image\b[^>]*>\s*\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""Texts that the client adds to the user's."""


KNOWN = ("world_state", "turn_context", "token_usage_record", "item_completed", "session_meta")
"""The types of lines that say nothing to keep."""


HOME = ClientHome(".codex", "CODEX_HOME")


def codex_transcripts(project: Path | None) -> Iterator[Path]:
    """Yield the transcripts of a project and of the folders below it, or all, in the order of their paths."""
    for path in _rollouts("*"):
        if project is None or _is_about(path, project):
            yield path


def _rollouts(name: str) -> Iterator[Path]:
    """Yield the transcripts with such a name. While the client compresses one, it is there twice."""
    of_client = HOME.found()
    for folder in (of_client / "sessions", of_client / "archived_sessions") if of_client else ():
        plain = set(folder.rglob(f"rollout-{name}.jsonl"))
        compressed = folder.rglob(f"rollout-{name}.jsonl{COMPRESSED}")
        yield from sorted(plain.union(path for path in compressed if path.with_suffix("") not in plain))


def _is_about(path: Path, project: Path) -> bool:
    """Return whether a transcript is about a project. One whose first line is not as expected is, to be reported."""
    try:
        _, meta = _meta(read_lines(path))
        return real_path(Path(field_of(1, meta, "cwd", str))).is_relative_to(real_path(project))
    except (ValidationError, OSError):
        return True


def codex_session(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is empty.

    Raises FormatError if that cannot be read at all, OSError.
    """
    lines = read_lines(path)
    number, meta = _meta(lines)
    if not number:
        return None
    session_id, project = field_of(number, meta, "id", str), field_of(number, meta, "cwd", str)
    subagent = _subagent(meta)
    conversation, unknown = TranscriptConversation(subagent or AGENT), []

    def hear(number: int, line: Line) -> None:
        if not _follow(conversation, number, line):
            unknown.append(line["type"])

    unread = heard(lines, hear, conversation.miss)
    said = conversation.result(is_report=bool(subagent))
    if not subagent:
        said = _without_copies(said, meta)
    elif isinstance(root := meta.get("session_id"), str):
        session_id = root
    return Transcript(path, session_id, project, said, tuple(unread), tuple(unknown))


def _meta(lines: Iterator[tuple[int, Line | FormatError]]) -> tuple[int, Line]:
    """Return the first line's number, and what it says of the session; 0 if there is no line. Raises FormatError."""
    number, first = next(lines, (0, {}))
    if isinstance(first, FormatError):
        raise first
    if not number:
        return 0, {}
    if first["type"] != "session_meta":
        raise FormatError(number, "a line of type `session_meta`")
    return number, field_of(number, first, "payload", dict)


def _without_copies(said: tuple[Message, ...], meta: Line) -> tuple[Message, ...]:
    """Return what was said in a session without what it has copied from the one that it was forked from."""
    source = meta.get("forked_from_id")
    path = next(_rollouts(f"*{escape(source)}"), None) if isinstance(source, str) else None
    origin = codex_session(path) if path is not None and source != meta["id"] else None
    if origin is None:
        return said
    pairs = zip(said, origin.said, strict=False)
    copies = takewhile(lambda pair: (pair[0].kind, pair[0].content) == (pair[1].kind, pair[1].content), pairs)
    return said[len(list(copies)) :]


def _follow(conversation: TranscriptConversation, number: int, line: Line) -> bool:
    """Note what a line says; return whether its type is known. Raises FormatError."""
    if line["type"] not in ("response_item", "event_msg", "compacted"):
        return line["type"] in KNOWN
    payload = field_of(number, line, "payload", dict)
    match line["type"], payload.get("type"), payload.get("role"):
        case "response_item", "message", "user":
            texts = block_texts(number, content_blocks(number, payload.get("content")), ("input_text", "text"))
            prompt = "\n\n".join(text for text in texts if not SCAFFOLDING.match(text))
            if prompt.strip():
                conversation.prompt(prompt, time_of(number, line))
        case "response_item", "message", "assistant":
            texts = block_texts(number, content_blocks(number, payload.get("content")), ("output_text", "text"))
            conversation.answer("\n\n".join(texts), time_of(number, line))
        case "event_msg", "task_complete" | "turn_complete", _:
            conversation.end_turn()
        case "event_msg", "thread_rolled_back", _:
            conversation.roll_back(field_of(number, payload, "num_turns", int))
        case "compacted", _, _:
            conversation.summary(field_of(number, payload, "message", str), time_of(number, line))
        case "response_item", kind, _ if not isinstance(kind, str):
            raise FormatError(number, "a string as `payload.type`")
    return True


def _subagent(meta: dict[str, Any]) -> str | None:
    """Return the name of the sub-agent whose transcript begins with this, or None if it is a session of a user."""
    source = meta.get("source")
    if not isinstance(source, dict) or "subagent" not in source:
        return None
    names = [meta.get("agent_role"), meta.get("agent_nickname"), source["subagent"]]
    return next((name.strip()[:MAX_IDENTIFIER] for name in names if isinstance(name, str) and name.strip()), SUBAGENT)


def codex_memories(_project: Path) -> Iterator[OwnMemory]:
    """Yield where it writes what it remembers, of all projects in one; the other files there lead to these two."""
    if of_client := HOME.found():
        yield OwnMemory(of_client, "memories", ("MEMORY.md", "memory_summary.md"))


CLIENT = Client(
    title="Codex",
    files={**HOME.file("config.toml"), **in_project(".codex/config.toml")},
    hooks={**HOME.file("hooks.json"), **in_project(".codex/hooks.json")},
    commands=("codex",),
    hooks_since="0.148.0",
    silent=frozenset({"PostCompact"}),
    trust='Codex runs no hook that you have not trusted: start `codex`, and when it says "Hooks need review",\n'
    'choose "Trust all and continue". `codex exec` does not ask.',
    trust_file=lambda: home_of(".codex", "CODEX_HOME") / "config.toml",
    section="mcp_servers",
    format="toml",
    approval={
        InstallScope.USER: CONNECTED,
        InstallScope.PROJECT: "Start `codex` in this project and trust the folder when it asks: Codex ignores the "
        "configuration of folders that are not trusted.",
    },
    checked_with="codex mcp list",
    sessions=Sessions(HOME, codex_transcripts, codex_session),
    own_memories=codex_memories,
    longest_answer="48,000 characters, the middle is cut",
    seen="0.169.0",
)
