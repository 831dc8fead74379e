"""Claude Code: its configuration, and its transcripts: a file for each session, and for each of its sub-agents.

Those are in `projects/<folder>/<session>.jsonl` and `projects/<folder>/<session>/subagents/agent-<id>.jsonl` below
`~/.claude`, where `<folder>` is the path of the project with a hyphen for every other character than letters and
digits. Beside the transcript of a sub-agent, `agent-<id>.meta.json` names its type and task.
"""

import json
import re
import time as clock
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.clients.client import (
    CONNECTED,
    Client,
    ClientHome,
    InstallScope,
    OwnMemory,
    Sessions,
    home_of,
    in_project,
    typed_entry,
)
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import (
    Branches,
    FormatError,
    Line,
    block_texts,
    content_blocks,
    field_of,
    read_lines,
    time_of,
)
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import MAX_TITLE
from vector_memory.settings.locations import main_checkout, repository_of

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


KNOWN = re.compile(
    "user|assistant|attachment|system|summary|agent-color|agent-name|ai-title|api-request[a-z-]*|content-replacement"
    "|custom-title|file-history-[a-z]+|last-prompt|mode|permission-mode|pr-link|progress|prompt_snapshot"
    "|queue-operation|relocated|result|saved_hook_context|speculation-accept|tag|task-summary|worktree-state"
)
"""The types of lines of all releases that were read; only the first three and summaries say something to keep."""


class MessageInLine(NamedTuple):
    """What a line says: `note` notes it in a conversation."""

    note: Callable[[TranscriptConversation], None]
    line_id: str | None = None


def line_id_of(line: Line, name: str = "uuid") -> str | None:
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


def messages_in(number: int, line: Line) -> MessageInLine | None:
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


def _of_user(number: int, line: Line) -> MessageInLine | None:
    if line.get("isMeta"):
        return None
    blocks = content_blocks(number, field_of(number, line, "message", dict).get("content"))
    text, time = "\n".join(block_texts(number, blocks, ("text",))), time_of(number, line)
    if line.get("isCompactSummary"):
        return _in_line(line, TranscriptConversation.summary, AROUND_SUMMARY.sub("", text), time)
    return _in_line(line, TranscriptConversation.prompt, text, time) if is_prompt(line) else None


def _of_agent(number: int, line: Line) -> MessageInLine | None:
    message = field_of(number, line, "message", dict)
    if line.get("isMeta") or line.get("isApiErrorMessage") or message.get("model") == SYNTHETIC:
        return None
    # Each block of a message has a line of its own, and hooks are told the last one that is a text.
    texts, time = block_texts(number, content_blocks(number, message.get("content")), ("text",)), time_of(number, line)
    stop = message.get("stop_reason")
    is_final = None if stop is None else stop in FINAL
    return _in_line(line, TranscriptConversation.answer, "\n".join(texts), time, is_final=is_final) if texts else None


def _queued(number: int, line: Line) -> MessageInLine | None:
    """Return a prompt that the user sent while the agent was at work: it has no other line."""
    attachment = line.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return None
    if attachment.get("commandMode", "prompt") != "prompt" or not is_of_user(attachment):
        return None
    texts = block_texts(number, content_blocks(number, attachment.get("prompt")), ("text",))
    return _in_line(line, TranscriptConversation.prompt, "\n".join(texts), time_of(number, line), is_queued=True)


def _in_line(line: Line, note: Callable[..., None], text: str, time: str, **facts: bool | None) -> MessageInLine:
    line_id = line_id_of(line)
    return MessageInLine(lambda conversation: note(conversation, text, time, line_id=line_id, **facts), line_id)


AGENT = "claude-code"
"""The name that Claude Code gives itself."""

SUBAGENT = "subagent"
"""The agent of a report whose type is unknown."""

REST_SECONDS = 3_600
"""Earlier releases did not write why a message ends. After this time without a change, the agent has nothing to do."""

OTHER = re.compile(r"[^A-Za-z0-9]")

LONGEST_NAME = 200
"""The name of a longer path is cut here; a hyphen and a hash follow."""


HOME = ClientHome(".claude", "CLAUDE_CONFIG_DIR")


def claude_transcripts(project: Path | None) -> Iterator[Path]:
    """Yield the transcripts of a project and of the folders below it, or all, in the order of their paths.

    Those of other projects whose paths have the same name are among them.
    """
    name = "" if project is None else name_of(project)
    of_client = HOME.found()
    for folder in sorted((of_client / "projects").glob("*")) if of_client else ():
        if project is None or folder.name == name or folder.name.startswith(f"{name[:LONGEST_NAME]}-"):
            yield from sorted(path for path in folder.rglob("*.jsonl") if path.is_file())


def name_of(project: Path) -> str:
    """Return the client's name of a path. It replaces UTF-16 units: some characters, such as emoji, have two."""
    units = unicodedata.normalize("NFC", str(project)).encode("utf-16-le", "surrogatepass")
    return OTHER.sub("-", "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2)))


def top_of(project: Path) -> Path:
    """Return the topmost folder of the repository that a project is in, in the main checkout; else the project."""
    repository = repository_of(main_checkout(project))
    return repository.work_tree if repository else main_checkout(project)


def claude_session(path: Path) -> Transcript | None:
    """Return what is worth remembering in a transcript; None if it has no messages.

    Raises FormatError if that cannot be read at all, OSError.
    """
    reading = Reading(is_subagent=path.name.startswith("agent-"))
    for number, line in read_lines(path):
        reading.hear(number, line)
    return reading.transcript(path)


class Reading:
    """The part of a transcript read so far."""

    def __init__(self, *, is_subagent: bool, agent: str = AGENT) -> None:
        self._is_subagent, self._agent = is_subagent, agent
        self._session_id, self._project = "", ""
        self._branches = Branches()
        self._said: list[MessageInLine] = []
        self._unread: list[FormatError] = []
        self._unknown: list[str] = []

    def hear(self, number: int, line: Line | FormatError) -> None:
        """Record the contents of a line, or that it cannot be read."""
        if isinstance(line, FormatError):
            self._miss(line)
        elif not line.get("isSidechain") or self._is_subagent:  # earlier releases wrote sub-agents into the same file
            try:
                self._note(number, line)
            except FormatError as error:
                self._miss(error)

    def _note(self, number: int, line: Line) -> None:
        if not KNOWN.fullmatch(line["type"]):
            self._unknown.append(line["type"])
        if line_id := line_id_of(line):
            self._branches.add(
                line_id, line_id_of(line, "parentUuid"), is_prompt=is_prompt(line), is_first=is_first(line)
            )
        if (said := messages_in(number, line)) is not None:
            session_id, project = field_of(number, line, "sessionId", str), field_of(number, line, "cwd", str)
            self._session_id, self._project = self._session_id or session_id, self._project or project
            self._said.append(said)

    def _miss(self, error: FormatError) -> None:
        self._unread.append(error)
        self._said.append(MessageInLine(TranscriptConversation.miss))

    def transcript(self, path: Path) -> Transcript | None:
        """Return the transcript; None if it has no messages. Raises FormatError, OSError."""
        if not self._session_id:
            if self._unread:
                raise self._unread[0]
            return None
        meta = self._meta(path) if self._is_subagent else {}
        agent = _text_field(meta, "agentType") or SUBAGENT if self._is_subagent else self._agent
        is_at_rest = clock.time() - path.stat().st_mtime > REST_SECONDS
        conversation, left = TranscriptConversation(agent, is_at_rest), self._branches.left()
        for said in self._said:
            if said.line_id not in left:  # the user went back from it
                said.note(conversation)
        kept = conversation.result(is_report=self._is_subagent, title=_text_field(meta, "description"))
        if not meta.get("agentType", SUBAGENT):
            kept = ()
        return Transcript(path, self._session_id, self._project, kept, tuple(self._unread), tuple(self._unknown))

    def _meta(self, path: Path) -> dict[str, Any]:
        """Return what is known of a sub-agent; nothing for earlier releases, which wrote no such file."""
        try:
            meta = json.loads(read_file(path.with_suffix(".meta.json")))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            meta = None
        if not isinstance(meta, dict):
            self._unread.append(FormatError(1, f"an object in `{path.with_suffix('.meta.json').name}`"))
            return {}
        return meta


def is_first(line: Line) -> bool:
    """Return whether a line says that none is before it."""
    return "parentUuid" in line and line["parentUuid"] is None


def _text_field(meta: dict[str, Any], name: str) -> str | None:
    value = meta.get(name)
    return value.strip()[:MAX_TITLE] or None if isinstance(value, str) else None


def claude_memories(project: Path) -> Iterator[OwnMemory]:
    """Yield where agents and sub-agents write what they remember. The folder has the name of the Git repository."""
    if of_client := HOME.found():
        yield OwnMemory(of_client, f"projects/{name_of(top_of(project))}/memory", project=True)
        yield OwnMemory(of_client, "agent-memory")
    yield OwnMemory(project, ".claude/agent-memory", project=True)
    yield OwnMemory(project, ".claude/agent-memory-local", project=True)


def settings_of(project: Path) -> Path:
    """Return the user's own settings for a project, which are not shared with others."""
    return project / ".claude" / "settings.local.json"


CLIENT = Client(
    title="Claude Code",
    by_command=frozenset({InstallScope.USER}),
    files={InstallScope.USER: lambda _: home_of("", "CLAUDE_CONFIG_DIR") / ".claude.json", **in_project(".mcp.json")},
    entry=typed_entry,
    approval={
        InstallScope.USER: CONNECTED,
        InstallScope.PROJECT: 'Start `claude` in this project and choose "Use this MCP server" when it asks about '
        '.mcp.json; another answer is preselected. Until then the server is "pending approval".',
    },
    hooks={**HOME.file("settings.json"), InstallScope.PROJECT: settings_of},
    commands=("claude",),
    hooks_since="2.1.118",
    checked_with="claude mcp list",
    sessions=Sessions(HOME, claude_transcripts, claude_session),
    own_memories=claude_memories,
    remembers="autoMemoryEnabled",
    longest_answer="50,000 characters, then only the first 2,000",
    seen="2.1.330",
)
