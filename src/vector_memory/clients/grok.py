"""Grok Build: its configuration, and its transcripts: `sessions/<project>/<session>/updates.jsonl` below `~/.grok`.

A sub-agent has a session of its own; `subagents/<its id>/meta.json` in the one that started it names type and task.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from vector_memory.clients.client import Client, ClientHome, CommandHooks, OwnMemory, in_project, sessions_below
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import FormatError, Line, field_of, heard, read_lines, read_object, time_in_ms
from vector_memory.domain.validation import MAX_IDENTIFIER

AGENT = "grok-shell-vector-memory"
"""The name that Grok Build gives itself."""

USER, AGENT_CHUNK = "user_message_chunk", "agent_message_chunk"

SILENT = re.compile(
    "agent_thought_chunk|tool_call|tool_call_update|plan|available_commands_update|current_mode_update"
    "|subagent_spawned|subagent_finished|session_info_update|usage_update"
)


def grok_session(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is empty. Raises FormatError, OSError."""
    summary = read_object(path.with_name("summary.json"))
    info = field_of(1, summary, "info", dict)
    session_id, project = field_of(1, info, "id", str), field_of(1, info, "cwd", str)
    is_subagent = summary.get("session_kind") == "subagent"
    meta = _about_subagent(path, session_id) if is_subagent else {}
    reading = _UpdateReading(str(meta.get("subagent_type") or "subagent")[:MAX_IDENTIFIER] if is_subagent else AGENT)
    unread = heard(read_lines(path, are_typed=False), reading.hear, reading.conversation.miss)
    reading.end_text()
    if is_subagent:
        session_id = str(meta.get("parent_session_id") or session_id)
    said = reading.conversation.result(is_report=is_subagent, title=meta.get("description"))
    return Transcript(path, session_id, project, said, tuple(unread), tuple(reading.unknown))


def _about_subagent(path: Path, session_id: str) -> Line:
    """Return what the session that started a sub-agent says of it; nothing if that is gone."""
    found = sorted(path.parents[1].glob(f"*/subagents/{session_id}/meta.json"))
    return read_object(found[0]) if found else {}


class _UpdateReading:
    """A transcript read so far. Texts come in chunks."""

    def __init__(self, agent: str) -> None:
        self.conversation = TranscriptConversation(agent)
        self.unknown: list[str] = []
        self._text, self._kind, self._time = "", "", ""

    def hear(self, number: int, line: Line) -> None:
        """Note what an update says. Raises FormatError."""
        params = field_of(number, line, "params", dict)
        update = field_of(number, params, "update", dict)
        kind = field_of(number, update, "sessionUpdate", str)
        if kind != self._kind:
            self.end_text()
        if kind in (USER, AGENT_CHUNK):
            content = field_of(number, update, "content", dict)
            if content.get("type") == "text":
                moment = params.get("_meta")
                self._time = time_in_ms(number, moment.get("agentTimestampMs") if isinstance(moment, dict) else None)
                self._text, self._kind = self._text + field_of(number, content, "text", str), kind
        elif kind == "turn_completed":
            self.conversation.end_turn()
        elif not SILENT.fullmatch(kind):
            self.unknown.append(kind)

    def end_text(self) -> None:
        """Note the text whose chunks were read."""
        if self._kind == USER:
            self.conversation.prompt(self._text, self._time)
        elif self._kind:
            self.conversation.answer(self._text, self._time)
        self._text, self._kind = "", ""


HOME = ClientHome(".grok", "GROK_HOME")


def grok_subagent(reported: Mapping[str, Any]) -> dict[str, str]:
    """Return the session of a sub-agent's report, which names its own; its task is no prompt."""
    if "subagentType" not in reported:
        return {}
    about: Line = {}
    with suppress(OSError, FormatError, IndexError):  # what it says of a task has no path
        about = _about_subagent(Path(str(reported.get("transcript_path"))), str(reported.get("session_id")))
    return {"prompt": "", "session_id": str(about.get("parent_session_id") or reported.get("session_id") or "")}


def grok_hooks(commands: Mapping[str, str]) -> dict[str, str]:
    """Return the file with these hooks."""
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]
        for event, command in commands.items()
    }
    return {"vector-memory.json": json.dumps({"hooks": hooks}, indent=2) + "\n"}


def grok_memories(_project: Path) -> Iterator[OwnMemory]:
    """Yield where it writes what it remembers of all projects; it names those of one by a hash that is unknown here."""
    if home := HOME.found():
        yield OwnMemory(home, "memory", ("MEMORY.md",))


CLIENT = Client(
    title="Grok Build",
    files={**HOME.file("config.toml"), **in_project(".grok/config.toml")},
    section="mcp_servers",
    format="toml",
    commands=("grok",),
    inherits=("claude", "cursor"),
    checked_with="grok mcp list",
    sessions=sessions_below(HOME, grok_session, "sessions/*/*/updates.jsonl"),
    hooks=HOME.file("hooks"),
    command_hooks=CommandHooks(
        AGENT,
        events={"prompt": "UserPromptSubmit", "answer": "Stop", "subagent": "SubagentStop"},
        fields={
            "session_id": "session_id",
            "prompt": "prompt",
            "last_assistant_message": "lastAssistantMessage",
            "agent_type": "subagentType",
        },
        find=grok_subagent,
        answer=None,  # it discards it, and a Stop that is answered makes it go on
        texts=grok_hooks,
    ),
    own_memories=grok_memories,
    traps="the model finds the tools with `search_tool`; also starts the servers of `~/.claude.json`, `.mcp.json` and "
    "Cursor",
    seen="1.0.41",
)
