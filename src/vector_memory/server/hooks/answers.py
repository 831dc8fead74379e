"""The hooks for what agents write: answers, reports of sub-agents, and summaries of compacted conversations."""

import re

from vector_memory.domain import MemoryKind
from vector_memory.server.hooks.capture import Event, keep

LEAST_REPORT, LEAST_ANSWER = 80, 200
"""Shorter texts say only that something is done."""

ANALYSIS = re.compile(r"<analysis>.*?(?:</analysis>|\Z)|</?summary>", re.DOTALL)
"""What the client's model writes around its summary, and before it to prepare it."""


async def keep_report(event: Event) -> None:
    """Store the last message of a sub-agent as its report. A compaction ends like a sub-agent without a type."""
    report, agent = event.text("last_assistant_message"), event.text("agent_type")
    if agent and len(report) >= LEAST_REPORT:
        await keep(event, MemoryKind.REPORT, report, agent)


async def keep_answer(event: Event) -> None:
    """Store a long answer as working memory."""
    answer = event.text("last_assistant_message")
    if len(answer) >= LEAST_ANSWER:
        await keep(event, MemoryKind.WORKING_MEMORY, answer, event.client)


async def keep_summary(event: Event) -> None:
    """Store the summary of a compacted conversation as the session's state."""
    await keep(event, MemoryKind.SESSION_CONTEXT, ANALYSIS.sub("", event.text("compact_summary")).strip())
