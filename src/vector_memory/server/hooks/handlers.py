"""What each hook does: stores prompts, answers, reports of sub-agents and summaries of compacted conversations.

With a prompt, the agent is told what earlier sessions left.
"""

from anyio import fail_after
from anyio.to_thread import run_sync

from vector_memory.domain import MAIN_AGENT, MemoryKind
from vector_memory.server.conversation import HeardSession
from vector_memory.server.hooks import capture
from vector_memory.server.hooks.capture import READING_SECONDS, Event, keep, log_failure, settle
from vector_memory.server.hooks.catching_up import begin_to_catch_up
from vector_memory.server.turns import turn_of_caller
from vector_memory.sessions.recap import Told
from vector_memory.settings import Recall
from vector_memory.transcripts.conversation import answer_in, prompt_in, report_in, summary_in

LEAST_PROMPT = 20
"""Shorter prompts refer to what was just said: nothing is recalled for them."""


async def hear_prompt(event: Event) -> str | None:
    """Store a prompt. Return a recap for a session's first prompt, and memories close to later ones."""
    prompt = prompt_in(event.text("prompt"))
    kept = await keep(event, MemoryKind.INPUT_PROMPT, prompt)
    told, heard = None, await event.heard()
    if heard is not None:
        told = await told_with(event, heard, prompt) if prompt else None
        await begin_to_catch_up(event, heard, is_answered=False, patience=capture.PATIENCE_SECONDS)
    await settle(event, kept, capture.PATIENCE_SECONDS)
    return told


async def told_with(event: Event, heard: HeardSession, prompt: str) -> str | None:
    """Return the context for a prompt; nothing if the memory cannot be read."""
    try:
        with fail_after(READING_SECONDS):
            async with turn_of_caller():
                return await run_sync(recalled, event, heard, prompt, abandon_on_cancel=True)
    except Exception as error:
        log_failure("Nothing was recalled", error)
        return None


def recalled(event: Event, heard: HeardSession, prompt: str) -> str | None:
    """Return the context for a prompt. Each memory is shown once per session."""
    recall, past, known = event.store.settings.recall, event.store.past, heard.told
    is_first, heard.has_prompt = not heard.has_prompt, True
    found: Told | None = None
    if recall is not Recall.OFF and is_first and heard.latest is None:
        found = past.recap(event.conversation.project, event.session_id)
    elif recall is Recall.ALL and len(prompt) >= LEAST_PROMPT:
        found = past.near(prompt, event.session_id, known)
    if found is None:
        return None
    known |= found.ids
    return found.text


async def keep_report(event: Event) -> None:
    """Store the last message of a sub-agent as its report. A compaction ends like a sub-agent without a type."""
    if agent := event.text("agent_type"):
        await store(event, MemoryKind.REPORT, report_in(event.text("last_assistant_message")), agent)


async def keep_answer(event: Event) -> None:
    """Store a long answer as working memory, and its prompt if the server was not ready for it."""
    answer = answer_in(event.text("last_assistant_message"))
    heard = await store(event, MemoryKind.WORKING_MEMORY, answer, event.client)
    if heard is not None:
        await begin_to_catch_up(event, heard, is_answered=True, patience=capture.PATIENCE_AFTERWARDS_SECONDS)


async def keep_summary(event: Event) -> None:
    """Store the summary of a compacted conversation as the session's state."""
    await store(event, MemoryKind.SESSION_CONTEXT, summary_in(event.text("compact_summary")))


async def store(event: Event, kind: MemoryKind, content: str, agent_id: str = MAIN_AGENT) -> HeardSession | None:
    """Keep a text, and wait a moment until it is stored; return what the server knows of the session."""
    kept = await keep(event, kind, content, agent_id)
    heard = await event.heard()
    await settle(event, kept, capture.PATIENCE_AFTERWARDS_SECONDS)
    return heard
