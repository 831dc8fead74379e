"""The hooks for what agents write: answers, reports of sub-agents, and summaries of compacted conversations."""

from vector_memory.domain import MAIN_AGENT, MemoryKind
from vector_memory.server.conversation import HeardSession
from vector_memory.server.hooks import capture
from vector_memory.server.hooks.capture import Event, keep, settle
from vector_memory.server.hooks.catching_up import begin_to_catch_up
from vector_memory.transcripts.worth import answer_in, report_in, summary_in


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
