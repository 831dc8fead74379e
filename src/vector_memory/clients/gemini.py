"""Gemini CLI: its configuration, and its transcripts.

They are in `tmp/<project>/chats/session-*.jsonl` below `~/.gemini`, those of sub-agents in `chats/<session>/`. The file
`.project_root` beside `chats` names the project. A message is written again when it changes: its last line counts.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vector_memory.clients.client import (
    CONNECTED,
    Client,
    ClientHome,
    CommandHooks,
    InstallScope,
    OwnMemory,
    in_project,
    sessions_below,
)
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import FormatError, Line, field_of, heard, objects_in, read_lines, time_of
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import MAX_IDENTIFIER
from vector_memory.settings.locations import real_path

AGENT = "gemini-cli-mcp-client"
"""The name that Gemini CLI gives itself."""

ROOT = ".project_root"
LONGEST_ROOT = 10_000
DONE = "complete_task"
"""The call in which a sub-agent hands over its report."""

OF_CLIENT = re.compile(r"<(session_context|hook_context)>.*?</\1>", re.DOTALL)
"""What the client and its hooks add to prompts."""

SILENT = ("info", "warning", "error")


HOME = ClientHome("", "GEMINI_CLI_HOME", ".gemini")


def gemini_session(path: Path) -> Transcript | None:
    """Return what is worth remembering of a transcript; None if it is empty. Raises FormatError, OSError."""
    head, messages = _messages_in_file(path)
    root = next((folder / ROOT for folder in path.parents if (folder / ROOT).is_file()), None)
    if not messages or root is None:
        return None
    is_subagent, unknown = head.get("kind") == "subagent", []
    own_id = field_of(1, head, "sessionId", str)
    session_id = path.parent.name if is_subagent else own_id
    conversation = TranscriptConversation(_subagent_name(path, own_id) if is_subagent else AGENT)

    def hear(number: int, line: Line) -> None:
        if not _note_message(conversation, number, line):
            unknown.append(str(line.get("type")))

    unread = heard(messages, hear, conversation.miss)
    said = conversation.result(is_report=is_subagent)
    return Transcript(path, session_id, _named_in(root), said, tuple(unread), tuple(unknown))


def _subagent_name(path: Path, own_id: str) -> str:
    """Return the name of a sub-agent, as the session that started it has it."""
    for parent in path.parent.parent.glob(f"session-*-{path.parent.name[:8]}.jsonl"):
        for _, line in read_lines(parent, are_typed=False):
            for call in [] if isinstance(line, FormatError) else objects_in(line.get("toolCalls")):
                if call.get("agentId") == own_id and isinstance(call.get("args"), dict):
                    return str(call["args"].get("agent_name") or "subagent")[:MAX_IDENTIFIER]
    return "subagent"


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a value, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _messages_in_file(path: Path) -> tuple[Line, list[tuple[int, Line | FormatError]]]:
    """Return what the file says of the session, and its messages without those that the user went back from."""
    head: Line = {}
    messages: dict[str, tuple[int, Line | FormatError]] = {}
    for number, line in read_lines(path, are_typed=False):
        if isinstance(line, FormatError) or ("id" in line and "type" in line):
            key = str(number) if isinstance(line, FormatError) else str(line["id"])
            messages[key] = number, line
        elif isinstance(back_to := line.get("$rewindTo"), str):
            keys = list(messages)
            first = keys.index(back_to) if back_to in messages else 0
            for key in keys[first:]:
                del messages[key]
        elif "projectHash" in line:
            head = line
        elif "$rewindTo" in line:
            messages[str(number)] = number, FormatError(number, "a string as `$rewindTo`")
        elif "$set" not in line:
            messages[str(number)] = number, line
    return head, list(messages.values())


def _note_message(conversation: TranscriptConversation, number: int, line: Line) -> bool:
    """Note what a message says; return whether its type is known. Raises FormatError."""
    match line.get("type"):
        case "user":
            parts = [part for part in field_of(number, line, "content", list) if isinstance(part, dict)]
            text = "\n".join(field_of(number, part, "text", str) for part in parts if "text" in part)
            if prompt := OF_CLIENT.sub("", text).strip():
                conversation.prompt(prompt, time_of(number, line))
        case "gemini":
            calls = objects_in(line.get("toolCalls"))
            text = field_of(number, line, "content", str)
            reports = [call for call in calls if call.get("name") == DONE and isinstance(call.get("args"), dict)]
            if reports:
                text = "\n".join(_texts(reports[-1]["args"]))
            if text.strip():
                conversation.answer(text, time_of(number, line), is_final=not calls or bool(reports))
        case kind:
            return kind in SILENT
    return True


def gemini_memories(project: Path) -> Iterator[OwnMemory]:
    """Yield where it writes what it remembers; proposals in `.inbox` are none until the user accepts them."""
    if home := HOME.found():
        yield OwnMemory(home, "", ("GEMINI.md",))
        for root in home.glob(f"tmp/*/{ROOT}"):
            if root.is_file() and real_path(Path(_named_in(root))) == real_path(project):
                yield OwnMemory(home, f"tmp/{root.parent.name}/memory", project=True)


def _named_in(root: Path) -> str:
    return read_file(root, LONGEST_ROOT).decode(errors="replace").strip()


SETTINGS = {**HOME.file("settings.json"), **in_project(".gemini/settings.json")}

CLIENT = Client(
    title="Gemini CLI",
    files=SETTINGS,
    hooks=SETTINGS,
    reads_comments=True,
    approval={
        InstallScope.USER: CONNECTED,
        InstallScope.PROJECT: "Start `gemini` in this project and trust the folder when it asks: Gemini CLI ignores "
        "the configuration of folders that are not trusted.",
    },
    trusted={"trust": True},
    untrusted="Gemini CLI asks before each call, and `gemini -p` does not offer the tools: --trust lets it call every "
    "tool without asking.",
    commands=("gemini",),
    checked_with="gemini mcp list",
    sessions=sessions_below(HOME, gemini_session, "tmp/*/chats/**/*.jsonl"),
    command_hooks=CommandHooks(
        AGENT,
        events={"start": "SessionStart", "prompt": "BeforeAgent", "answer": "AfterAgent"},
        fields={"session_id": "session_id", "prompt": "prompt", "last_assistant_message": "prompt_response"},
        clean=partial(OF_CLIENT.sub, ""),
        more={"name": "vector-memory", "timeout": 5_000},
    ),
    own_memories=gemini_memories,
    longest_answer="40,000 characters, then 8,000 of the beginning and 32,000 of the end",
    traps="passes no environment variable whose name has KEY, TOKEN, SECRET, PASSWORD or AUTH, nor `DATABASE_URL`",
    seen="0.61.0",
)
