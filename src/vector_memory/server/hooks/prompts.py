"""The hook for prompts: stores them, and tells the agent what earlier sessions left."""

import re

from anyio.to_thread import run_sync

from vector_memory.domain import MemoryKind
from vector_memory.server.hooks.capture import Event, keep
from vector_memory.sessions.past import Told
from vector_memory.settings import Recall

NOT_THE_USERS = re.compile(
    r"<task-notification|<local-command|<command-|<bash-|<user-memory-input|\[Request interrupted by user"
    r"|Caveat: The messages below|/[A-Za-z][\w:.-]*(?=\s|$)"
)
"""How prompts begin that a user did not write: reports of background agents, and commands of the client."""

LEAST_PROMPT = 20
"""Shorter prompts are about what was just said: nothing is recalled for them."""


async def hear_prompt(event: Event) -> str | None:
    """Store a prompt. Return a recap for the first one of a session, and for others what is close to them."""
    prompt = event.text("prompt")
    if not prompt or NOT_THE_USERS.match(prompt):
        return None
    told = await run_sync(recalled, event, prompt)
    await keep(event, MemoryKind.INPUT_PROMPT, prompt)
    return told


def recalled(event: Event, prompt: str) -> str | None:
    """Return what the agent is to be told with a prompt. Each memory is told once in a session."""
    session_id, recall, past = event.session_id, event.store.settings.recall, event.store.past
    is_first = session_id not in event.conversation.told
    known = event.conversation.told.setdefault(session_id, set())
    found: Told | None = None
    if recall is not Recall.OFF and is_first and not past.has(session_id):
        found = past.recap(event.conversation.project, session_id)
    elif recall is Recall.ALL and len(prompt) >= LEAST_PROMPT:
        found = past.near(prompt, session_id, known)
    if found is None:
        return None
    known |= found.ids
    return found.text
