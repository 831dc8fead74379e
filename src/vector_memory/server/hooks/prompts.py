"""The hook for prompts: stores them, and tells the agent what earlier sessions left."""

from anyio.to_thread import run_sync

from vector_memory.domain import MemoryKind
from vector_memory.server.hooks.capture import Event, do_meanwhile, keep
from vector_memory.server.hooks.catching_up import catch_up
from vector_memory.sessions.past import Told
from vector_memory.settings import Recall
from vector_memory.transcripts.worth import prompt_in

LEAST_PROMPT = 20
"""Shorter prompts are about what was just said: nothing is recalled for them."""


async def hear_prompt(event: Event) -> str | None:
    """Store a prompt. Return a recap for the first one of a session, and for others what is close to them."""
    told = None
    if prompt := prompt_in(event.text("prompt")):
        told = await run_sync(recalled, event, prompt)
        await keep(event, MemoryKind.INPUT_PROMPT, prompt)
    if not event.heard.is_caught_up:
        event.heard.is_caught_up = True
        await do_meanwhile(catch_up(event, is_answered=False), patience=0)
    return told


def recalled(event: Event, prompt: str) -> str | None:
    """Return what the agent is to be told with a prompt. Each memory is told once in a session."""
    recall, past, known = event.store.settings.recall, event.store.past, event.heard.told
    is_first, event.heard.has_prompt = not event.heard.has_prompt, True
    found: Told | None = None
    if recall is not Recall.OFF and is_first and event.heard.latest is None:
        found = past.recap(event.conversation.project, event.session_id)
    elif recall is Recall.ALL and len(prompt) >= LEAST_PROMPT:
        found = past.near(prompt, event.session_id, known)
    if found is None:
        return None
    known |= found.ids
    return found.text
