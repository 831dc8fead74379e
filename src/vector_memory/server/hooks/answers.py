"""The hooks for what agents write: answers, reports of sub-agents, and summaries of compacted conversations."""

from vector_memory.domain import MemoryKind
from vector_memory.server.hooks.capture import PATIENCE_AFTERWARDS_SECONDS, Event, do_meanwhile, keep
from vector_memory.server.hooks.catching_up import catch_up
from vector_memory.transcripts.worth import answer_in, report_in, summary_in


async def keep_report(event: Event) -> None:
    """Store the last message of a sub-agent as its report. A compaction ends like a sub-agent without a type."""
    if agent := event.text("agent_type"):
        await keep(event, MemoryKind.REPORT, report_in(event.text("last_assistant_message")), agent)


async def keep_answer(event: Event) -> None:
    """Store a long answer as working memory, and its prompt if the server was not ready for it."""
    await keep(event, MemoryKind.WORKING_MEMORY, answer_in(event.text("last_assistant_message")), event.client)
    if not event.heard.is_caught_up:
        await do_meanwhile(catch_up(event, is_answered=True), PATIENCE_AFTERWARDS_SECONDS)


async def keep_summary(event: Event) -> None:
    """Store the summary of a compacted conversation as the session's state."""
    await keep(event, MemoryKind.SESSION_CONTEXT, summary_in(event.text("compact_summary")))
