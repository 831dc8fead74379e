"""Copilot CLI: its configuration, and its transcripts: `session-state/<session>/events.jsonl` below `~/.copilot`.

The events of sub-agents are among those of the session and name their agent.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vector_memory.clients.client import Client, ClientHome, CommandHooks, entry_with, last_answer, sessions_below
from vector_memory.clients.reading.conversation import Message, Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import FormatError, Line, field_of, heard, read_lines, time_of

FAMILIES = re.compile(
    "agent|assistant|auto_mode_switch|capabilities|commands?|elicitation|exit_plan_mode|external_tool|hook"
    "|human_response|mcp|mcp_app|model|pending_messages|permission|sampling|sandbox|session|session_limits_exhausted"
    "|skill|subagent|system|tool|tool_search|ui|user|user_input|workflow"
)
"""The first words of the types in the client's own schema."""

REWOUND = "session.snapshot_rewind"


def copilot_session(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is empty. Raises FormatError, OSError."""
    reading = _EventReading()
    unread = heard(_kept(list(read_lines(path))), reading.hear, reading.main.miss)
    if not reading.project:
        if unread:
            raise unread[0]
        return None
    said = (*reading.main.result(), *reading.reports)
    return Transcript(path, reading.session_id, reading.project, said, tuple(unread), tuple(reading.unknown))


def _kept(lines: list[tuple[int, Line | FormatError]]) -> list[tuple[int, Line | FormatError]]:
    """Return the events without those that the user went back from."""
    left: set[object] = set()
    ids = [None if isinstance(line, FormatError) else _id_of(line) for _, line in lines]
    for place, (_, line) in enumerate(lines):
        if not isinstance(line, FormatError) and line["type"] == REWOUND and isinstance(line.get("data"), dict):
            first = line["data"].get("upToEventId")
            listed = line["data"].get("eventIds")
            named = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
            left |= set(named or (ids[ids.index(first) : place] if first in ids else ()))
    return [one for one, event_id in zip(lines, ids, strict=True) if event_id is None or event_id not in left]


def _id_of(line: Line) -> str | None:
    return line["id"] if isinstance(line.get("id"), str) else None


class _EventReading:
    """What the events have said so far, in the session and to its sub-agents."""

    def __init__(self) -> None:
        self.session_id = self.project = ""
        self.main = TranscriptConversation("copilot-cli")
        self.reports: list[Message] = []
        self.unknown: list[str] = []
        self._agents: dict[str, tuple[TranscriptConversation, object]] = {}

    def hear(self, number: int, line: Line) -> None:
        """Note what an event says. Raises FormatError."""
        kind, agent_id = line["type"], line.get("agentId")
        if not isinstance(agent_id, str | None):
            raise FormatError(number, "a string as `agentId`")
        if not FAMILIES.fullmatch(kind.partition(".")[0]):
            self.unknown.append(kind)
            return
        if kind in ("session.start", "session.resume"):
            self._begin(number, line)
        if kind == "subagent.started":
            data = field_of(number, line, "data", dict)
            agent = TranscriptConversation(field_of(number, data, "agentName", str))
            self._agents[str(agent_id)] = agent, data.get("agentDescription")
        elif agent_id in self._agents:
            self._of_agent(number, line, *self._agents[str(agent_id)])
        elif agent_id is None:
            _note_event(self.main, number, line)

    def _begin(self, number: int, line: Line) -> None:
        data = field_of(number, line, "data", dict)
        if context := data.get("context"):
            self.project = field_of(number, context, "cwd", str)
        self.session_id = self.session_id or field_of(number, data, "sessionId", str)

    def _of_agent(self, number: int, line: Line, agent: TranscriptConversation, title: object) -> None:
        if line["type"] in ("subagent.completed", "subagent.failed"):
            self.reports += agent.result(is_report=True, title=title)
        else:
            _note_event(agent, number, line)


def _note_event(conversation: TranscriptConversation, number: int, line: Line) -> None:
    """Note what was said in one conversation. Raises FormatError."""
    kind = line["type"]
    if kind not in ("user.message", "assistant.message", "session.compaction_complete"):
        return
    data = field_of(number, line, "data", dict)
    if kind == "user.message" and not data.get("source"):
        conversation.prompt(field_of(number, data, "content", str), time_of(number, line), line_id=_id_of(line))
    elif kind == "assistant.message" and (text := field_of(number, data, "content", str)):
        is_final = not data.get("toolRequests")
        conversation.answer(text, time_of(number, line), line_id=_id_of(line), is_final=is_final)
    elif kind == "session.compaction_complete" and isinstance(data.get("summaryContent"), str):
        conversation.summary(data["summaryContent"], time_of(number, line), line_id=_id_of(line))


def copilot_answer(reported: Mapping[str, Any]) -> dict[str, str]:
    """Return the answer of a session. What hooks report of a sub-agent is its response; its task is no prompt."""
    if "parentAgentId" in reported:
        return {"prompt": ""}
    return last_answer(copilot_session, reported.get("transcriptPath"))


def copilot_hooks(commands: Mapping[str, str]) -> dict[str, str]:
    """Return the file with these hooks."""
    hooks = {event: [{"type": "command", "bash": command, "timeoutSec": 5}] for event, command in commands.items()}
    return {"vector-memory.json": json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"}


HOME = ClientHome(".copilot", "COPILOT_HOME")

CLIENT = Client(
    title="Copilot CLI",
    files=HOME.file("mcp-config.json"),
    entry=entry_with(type="local", tools=["*"]),  # without `tools` there are none
    commands=("copilot",),
    instructions="AGENTS.md",
    sessions=sessions_below(HOME, copilot_session, "session-state/*/events.jsonl"),
    hooks=HOME.file("hooks"),
    command_hooks=CommandHooks(
        "copilot-cli",
        events={
            "start": "sessionStart",
            "prompt": "userPromptSubmitted",
            "answer": "agentStop",
            "subagent": "subagentStop",
        },
        fields={
            "session_id": "sessionId",
            "prompt": "prompt",
            "last_assistant_message": "response",
            "agent_type": "agentType",
        },
        find=copilot_answer,
        answer=lambda _, context: json.dumps({"additionalContext": context}),
        texts=copilot_hooks,
    ),
    longest_answer="20,480 bytes, then a file and 500 characters",
    traps="shows no instructions of servers; in trusted folders it also starts the servers of `.mcp.json`",
    seen="1.0.102",
)
