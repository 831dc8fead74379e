"""What hooks of commands report to a server, once one has reported: it needs the store and the clients."""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from vector_memory.clients import hook
from vector_memory.clients.registry import CLIENTS
from vector_memory.domain import Project
from vector_memory.errors import VectorMemoryError
from vector_memory.server.conversation import Conversation
from vector_memory.server.current_store import store_of_caller
from vector_memory.server.hooks import HEARD_AT, capture
from vector_memory.server.hooks.listening import Answer
from vector_memory.settings import project_of
from vector_memory.settings.locations import real_path


class Reports:
    """What hooks report to this server. Each project that shares its memory has a conversation of its own."""

    def __init__(self, memory: Path, parts: Mapping[str, Any]) -> None:
        self._memory, self._parts = real_path(memory), parts
        self._conversations: dict[str, Conversation] = {}

    async def handle(self, message: bytes, taken: Callable[[], None]) -> Answer | None:
        """Store a text, and return what the client reads."""
        try:
            *head, data = message.split(b"\0", 6)
            client, name, nanoseconds, memory, named, folder = map(os.fsdecode, head)
            hooks, reported = CLIENTS[client].command_hooks, json.loads(data)
            project = await asyncio.to_thread(self._project, memory, folder, is_named=bool(named))
            if hooks is None or name not in hooks.events or project is None or not isinstance(reported, dict):
                return None
            conversation = self._conversations.setdefault(
                project.folder, Conversation(project, may_store=True, is_over_http=False)
            )
            store = await asyncio.to_thread(store_of_caller, self._parts)
            given = await asyncio.to_thread(hooks.given, reported)
        except (ValueError, KeyError, RecursionError, VectorMemoryError) as error:
            capture.log_failure("A hook's report was not taken", error)
            return None
        given[HEARD_AT] = datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC).isoformat()
        event = replace(capture.event_in(store, conversation, hooks.agent, given), taken=taken)
        told = await getattr(capture, f"hook_{name}")(event)
        if not told or not hooks.answer:
            return Answer(b"", event.untell)
        return Answer(hooks.answer(hooks.events[name], told).encode(), event.untell, partial(event.count, told))

    def _project(self, memory: str, folder: str, *, is_named: bool) -> Project | None:
        """Return the project that a hook reports on; None if its memory is another one."""
        project = project_of(Path(folder))
        mine = real_path(Path(memory)) == self._memory and (
            is_named or real_path(project / hook.MEMORY) == self._memory
        )
        return Project.at(project, self._memory) if mine else None
