"""opencode, and Kilo, which is made of it: their configuration, and their sessions, which are in an SQLite file.

A session is named by a path below that of the file. A sub-agent has a session of its own, with a parent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vector_memory.clients.client import (
    Client,
    ClientHome,
    CommandHooks,
    Entry,
    FileOf,
    InstallScope,
    Sessions,
    home_of,
)
from vector_memory.clients.events import EVENTS
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.lines import FormatError, Line, field_of, heard, time_in_ms
from vector_memory.storage.sqlite.opencode_file import OpencodeSession, session_ids, session_in

PARTS = re.compile("agent|compaction|file|patch|reasoning|retry|snapshot|step-finish|step-start|subtask|text|tool")
"""The types of the parts of messages. Only texts say something to keep."""

QUOTED = re.compile(r'\A"([^"]*\s[^"]*)"\s*\Z')
"""`opencode run` adds quotes to a prompt of several words."""

unquoted = partial(QUOTED.sub, r"\1")

OF_SUBAGENT = re.compile(r"\s*\(@[^)]* subagent\)\Z")


def sessions_in_file(name: str) -> Sessions:
    """Return the sessions in the file of a client. `name`: of the client, and of its folder and file."""
    home = ClientHome(".local/share", "XDG_DATA_HOME", name)

    def transcripts(_project: Path | None) -> Iterator[Path]:
        file = (home.found() or Path()) / f"{name}.db"
        if file.is_file():
            yield from (file / session_id for session_id in session_ids(file))

    return Sessions(home, transcripts, partial(_read_session, name))


def _read_session(client: str, path: Path) -> Transcript | None:
    """Return what is worth remembering of a session; None if it is gone. Raises ValidationError, DatabaseError."""
    session = session_in(path.parent, path.name)
    if session is None:
        return None
    messages = list(_session_messages(session))
    agents = [message.get("agent") for _, message in messages if not isinstance(message, FormatError)]
    is_subagent = session.root != path.name
    conversation = TranscriptConversation(str(next(iter(agents), None) or "subagent") if is_subagent else client)
    unread = heard(messages, partial(_note_parts, conversation), conversation.miss)
    said = conversation.result(is_report=is_subagent, title=OF_SUBAGENT.sub("", session.title))
    unknown = tuple(kind for kind in session.kinds if not PARTS.fullmatch(kind))
    return Transcript(path, session.root, session.folder, said, tuple(unread), unknown)


def _session_messages(session: OpencodeSession) -> Iterator[tuple[int, Line | FormatError]]:
    """Yield the messages, each with its texts, without those that the user went back from."""
    undone = _loaded(session.revert).get("messageID")
    for number, (message_id, data, parts) in enumerate(session.messages, 1):
        if isinstance(undone, str) and message_id >= undone:
            return
        message = _loaded(data)
        texts = [_loaded(part) for part in parts]
        said = [one.get("text") for one in texts if not one.get("synthetic") and not one.get("ignored")]
        if not message:
            yield number, FormatError(number, "JSON in `message.data`")
        elif not all(isinstance(text, str) for text in said):
            yield number, FormatError(number, "a string as `text`")
        else:
            yield number, message | {"text": "\n".join(map(str, said))}


def _loaded(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _note_parts(conversation: TranscriptConversation, number: int, message: Line) -> None:
    times = field_of(number, message, "time", dict)
    time, text = time_in_ms(number, times.get("completed") or times.get("created")), message["text"]
    if message.get("role") == "user" and text:
        conversation.prompt(unquoted(text), time)
    elif message.get("role") == "assistant" and text:
        if message.get("summary") is True:
            conversation.summary(text, time)
        else:
            conversation.answer(text, time, is_final=message.get("finish") == "stop")


def local_entry(command: str, *words: str) -> Entry:
    """Return an entry whose command is a list."""
    return {"type": "local", "command": [command, *words], "enabled": True}


def either(folder: Path, *names: str) -> Path:
    """Return the file with one of these names that is there, or else the first."""
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def configuration(name: str, ending: str) -> Path:
    """Return the user's configuration of a client, with or without comments."""
    other = {".json": ".jsonc", ".jsonc": ".json"}[ending]
    return either(home_of(".config", "XDG_CONFIG_HOME") / name, f"{name}{ending}", f"{name}{other}")


PLUGIN = Path(__file__).with_name("opencode_plugin.js")


def plugin(commands: Mapping[str, str]) -> dict[str, str]:
    """Return the plugin with these commands."""
    text = PLUGIN.read_text(encoding="utf-8")
    return {"vector-memory.js": text.replace("const COMMANDS = {}", f"const COMMANDS = {json.dumps(dict(commands))}")}


def plugin_hooks(name: str) -> CommandHooks:
    """Return the hooks of opencode or Kilo, which a plugin calls: its events and their fields have our names."""
    return CommandHooks(
        name,
        events={event: event for event in ("prompt", "answer", "subagent", "compaction")},
        fields={name: name for event in EVENTS.values() for name in event.fields if name != "transcript_path"},
        answer=lambda _, context: context,
        clean=unquoted,
        texts=plugin,
    )


def plugin_folder(name: str) -> dict[InstallScope, FileOf]:
    """Return the folder with the user's plugins."""
    return {InstallScope.USER: lambda _project: home_of(".config", "XDG_CONFIG_HOME") / name / "plugin"}


CLIENT = Client(
    title="opencode",
    files={
        InstallScope.USER: lambda _project: configuration("opencode", ".json"),
        InstallScope.PROJECT: lambda project: either(project, "opencode.json", "opencode.jsonc"),
    },
    section="mcp",
    entry=local_entry,
    reads_comments=True,
    commands=("opencode",),
    checked_with="opencode mcp list",
    sessions=sessions_in_file("opencode"),
    hooks=plugin_folder("opencode"),
    command_hooks=plugin_hooks("opencode"),
    longest_answer="50 KiB or 2,000 lines, then a file",
    seen="1.18.33",
)

KILO = replace(
    CLIENT,
    title="Kilo",
    files={InstallScope.USER: lambda _project: configuration("kilo", ".jsonc")},
    commands=("kilo", "kilocode"),
    checked_with="kilo mcp list",
    sessions=sessions_in_file("kilo"),
    hooks=plugin_folder("kilo"),
    command_hooks=plugin_hooks("kilo"),
    seen="7.7.7",
)
