"""Qwen Code: its configuration, and its transcripts, which are like those of Claude Code.

They are in `projects/<project>/chats/<session>.jsonl` below `~/.qwen`, those of sub-agents in
`projects/<project>/subagents/<session>/agent-*.jsonl`. Texts are in the parts of Gemini's API.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vector_memory.clients.claude import Reading, name_of
from vector_memory.clients.client import Client, ClientHome, CommandHooks, OwnMemory, in_project, sessions_below
from vector_memory.clients.events import EVENTS
from vector_memory.clients.reading.conversation import Transcript
from vector_memory.clients.reading.lines import FormatError, Line, field_of, read_lines
from vector_memory.settings.locations import repository_of

AGENT = "qwen-cli-mcp-client-vector-memory"
"""The name that Qwen Code gives itself."""

OF_HOOKS = re.compile(r"<qwen:user-prompt-submit-context>.*?</qwen:user-prompt-submit-context>", re.DOTALL)

SILENT = ("system", "tool_result")


def qwen_session(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is empty. Raises FormatError, OSError."""
    reading = Reading(is_subagent=path.name.startswith("agent-"), agent=AGENT)
    for number, line in read_lines(path):
        try:
            reading.hear(number, line if isinstance(line, FormatError) else _as_of_claude(number, line))
        except FormatError as error:
            reading.hear(number, error)
    return reading.transcript(path)


def _as_of_claude(number: int, line: Line) -> Line:
    """Return a line as Claude Code writes it. Raises FormatError."""
    if line["type"] in SILENT:
        return line | {"type": "system"}
    if line["type"] not in ("user", "assistant"):
        return line
    parts = field_of(number, field_of(number, line, "message", dict), "parts", list)
    said = [part for part in parts if isinstance(part, dict) and not part.get("thought")]
    texts = [OF_HOOKS.sub("", field_of(number, part, "text", str)).strip() for part in said if "text" in part]
    is_typed = line.get("provenance", "real_user") == "real_user"
    stop = "tool_use" if any("functionCall" in part for part in said) else "end_turn"
    content = [{"type": "text", "text": text} for text in texts if text]
    is_note = line["type"] == "user" and not is_typed
    return line | {"message": {"content": content, "stop_reason": stop}, "isMeta": is_note}


HOME = ClientHome(".qwen", "QWEN_HOME")


def qwen_memories(project: Path) -> Iterator[OwnMemory]:
    """Yield where it writes what it remembers. A checkout of its own has a folder of its own."""
    if home := HOME.found():
        repository = repository_of(project)
        yield OwnMemory(home, "memories")
        top = repository.work_tree if repository else project
        yield OwnMemory(home, f"projects/{name_of(top)}/memory", project=True)
    yield OwnMemory(project, ".qwen/team-memory", project=True)


SETTINGS = {**HOME.file("settings.json"), **in_project(".qwen/settings.json")}

CLIENT = Client(
    title="Qwen Code",
    files=SETTINGS,
    hooks=SETTINGS,
    reads_comments=True,
    commands=("qwen",),
    checked_with="qwen mcp list",
    sessions=sessions_below(HOME, qwen_session, "projects/*/chats/*.jsonl", "projects/*/subagents/*/agent-*.jsonl"),
    command_hooks=CommandHooks(
        AGENT,
        events={
            "prompt": "UserPromptSubmit",
            "answer": "Stop",
            "subagent": "SubagentStop",
            "compaction": "PostCompact",
        },
        fields={name: name for event in EVENTS.values() for name in event.fields if name != "transcript_path"},
        clean=partial(OF_HOOKS.sub, ""),
        more={"timeout": 5_000},
    ),
    own_memories=qwen_memories,
    remembers="memory.enableManagedAutoMemory",
    longest_answer="28,000 characters, then a file and 2,000",
    traps="the model finds the tools with `tool_search`",
    seen="0.24.4",
)
