"""Reads the transcripts of Claude Code: one file for each session, and one for each of its sub-agents.

They are in `projects/<folder>/<session>.jsonl` and `projects/<folder>/<session>/subagents/agent-<id>.jsonl` below
`~/.claude`, where `<folder>` is the path of the project with a hyphen for every other character than letters and
digits. Beside the transcript of a sub-agent, `agent-<id>.meta.json` names its type and task.
"""

import json
import os
import re
import time as clock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vector_memory.domain.validation import MAX_TITLE
from vector_memory.transcripts.conversation import Conversation, Transcript
from vector_memory.transcripts.lines import FormatError, Line, blocks_of, field, read_lines, texts_of, time_of

AGENT = "claude-code"
"""The name that Claude Code gives itself."""

SUBAGENT = "subagent"
"""The agent of a report whose type is unknown."""

FINAL = ("end_turn", "stop_sequence", "refusal")
"""Why a message ends when the agent has nothing more to do."""

REST_SECONDS = 3_600
"""Earlier releases did not write why a message ends. After this time without a change, the agent has nothing to do."""

OTHER = re.compile(r"[^A-Za-z0-9]")
AROUND_SUMMARY = re.compile(
    r"\AThis session is being continued.*?\n\s*Summary:\s*\n"
    r"|\n\s*(?:If you need specific details from before compaction|Please continue the conversation from where).*\Z",
    re.DOTALL,
)
"""What the client writes around the summary of a compacted conversation, for its own model."""


def home() -> Path:
    """Return the folder of Claude Code."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


def transcripts(project: Path | None) -> Iterator[Path]:
    """Yield the transcripts of a project and of the folders below it, or all, in the order of their paths."""
    name = "" if project is None else OTHER.sub("-", str(project))
    for folder in sorted((home() / "projects").glob("*")):
        if project is None or folder.name == name or folder.name.startswith(f"{name}-"):
            yield from sorted(path for path in folder.rglob("*.jsonl") if path.is_file())


def read(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if nobody has said anything.

    Raises FormatError, OSError.
    """
    is_subagent = path.name.startswith("agent-")
    meta = _meta(path) if is_subagent else {}
    conversation = Conversation(_text(meta, "agentType") or SUBAGENT if is_subagent else AGENT)
    is_at_rest = clock.time() - path.stat().st_mtime > REST_SECONDS
    session_id, project = "", ""
    for number, line in read_lines(path):
        if line["type"] not in ("user", "assistant") or "forkedFrom" in line or line.get("isMeta"):
            continue
        if line.get("isSidechain") and not is_subagent:  # earlier releases wrote sub-agents into the same file
            continue
        session_id = session_id or field(number, line, "sessionId", str)
        project = project or field(number, line, "cwd", str)
        message = field(number, line, "message", dict)
        time, blocks = time_of(number, line), blocks_of(number, message)
        if line["type"] == "user":
            _hear(conversation, number, line, blocks, time)
            continue
        # Each block of a message has a line of its own, and hooks are told the last one that is a text.
        if texts := texts_of(number, blocks, ("text",)):
            stop = message.get("stop_reason")
            is_final = is_at_rest if stop is None else stop in FINAL
            conversation.answer("\n".join(texts), time, is_final=is_final)
    if not session_id:
        return None
    if is_subagent:
        said = conversation.report(_text(meta, "description")) if "agentType" not in meta or meta["agentType"] else ()
        return Transcript(path, session_id, project, said)
    conversation.finish()
    return Transcript(path, session_id, project, tuple(conversation.said))


def _hear(conversation: Conversation, number: int, line: Line, blocks: list[Line], time: str) -> None:
    """Note a line of the user: a prompt, a summary, or results of tools, which are left out."""
    text = "\n".join(texts_of(number, blocks, ("text",)))
    if line.get("isCompactSummary"):
        conversation.summary(AROUND_SUMMARY.sub("", text), time)
    elif not any(block["type"] == "tool_result" for block in blocks):
        conversation.prompt(text, time)


def _meta(path: Path) -> dict[str, Any]:
    """Return what is known of a sub-agent; nothing for earlier releases, which wrote no such file."""
    try:
        meta = json.loads(path.with_suffix(".meta.json").read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        meta = None
    if not isinstance(meta, dict):
        raise FormatError(1, f"an object in `{path.with_suffix('.meta.json').name}`")
    return meta


def _text(meta: dict[str, Any], name: str) -> str | None:
    value = meta.get(name)
    return value.strip()[:MAX_TITLE] or None if isinstance(value, str) else None
