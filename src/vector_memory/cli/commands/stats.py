"""The command that counts memories."""

from collections.abc import Mapping
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from vector_memory.cli.commands.opening import opened, require_session
from vector_memory.cli.commands.show_output import facts_table
from vector_memory.cli.flags import AsJson, LocationFlags
from vector_memory.cli.terminal import console, moment, one_line, print_json
from vector_memory.domain.text import counted
from vector_memory.results.budget import ResponseBudget
from vector_memory.results.overview import MemoryStatsResult, SessionStatsResult
from vector_memory.sessions.overview import Overview
from vector_memory.sessions.statistics import Statistics
from vector_memory.settings import MAX_RESPONSE_TOKENS, DatabaseLocation, MemoryAddress


def stats(
    session: Annotated[str | None, Parameter(help="Only this session; default: the whole memory.")] = None,
    /,
    *,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
) -> None:
    """Count memories: all of them, or those of one session."""
    with opened(place) as storage:
        found: MemoryStatsResult | SessionStatsResult
        if session is None:
            found = Overview(storage).memory_stats()
        else:
            require_session(storage, session)
            found = Statistics(storage, ResponseBudget(MAX_RESPONSE_TOKENS)).session_stats(session)
    if as_json:
        print_json(found.model_dump())
    elif isinstance(found, SessionStatsResult):
        _print_session_stats(found)
    else:
        _print_memory_stats(found, place.address())


def _print_session_stats(found: SessionStatsResult) -> None:
    out = console()
    out.print(Text(f"session {one_line(found.session_id or '')}", style="bold"))
    if found.message:
        out.print(Text(found.message, style="yellow"))
    if found.earliest_created and found.latest_created:
        out.print(
            facts_table(
                {
                    "memories": f"{found.total_memories:,} in {counted(found.total_chunks, 'chunk')}",
                    "stored": f"{moment(found.earliest_created)} to {moment(found.latest_created)} (UTC)",
                    "kinds": _numbers(found.memory_counts),
                    "agents": _numbers(found.agent_counts),
                }
            )
        )


def _print_memory_stats(found: MemoryStatsResult, address: MemoryAddress) -> None:
    out = console()
    out.print(Text(str(address), style="bold"), soft_wrap=True)
    stored = "nothing yet"
    if found.earliest_created and found.latest_created:
        stored = f"{moment(found.earliest_created)} to {moment(found.latest_created)} (UTC)"
    facts = {
        "memories": f"{found.total_memories:,} in {counted(found.total_chunks, 'chunk')}",
        "sessions": f"{found.total_sessions:,} of {counted(found.total_agents, 'agent')}",
        "kinds": _numbers(found.memory_counts),
        "stored": stored,
        "size": f"{found.database_bytes / 1e6:,.1f} MB",
        "vectors": found.embedding_model or "none",
    }
    if found.without_vectors:
        missing = counted(found.without_vectors, "memory", "memories")
        coming = f"a server is computing {found.pending_vectors:,} of them" if found.pending_vectors else ""
        left = found.without_vectors > found.pending_vectors
        advice = ", ".join(filter(None, [coming, "run `vector-memory backfill`" if left else ""]))
        facts["to do" if left else "pending"] = f"{missing} without vectors: {advice}"
    out.print(facts_table({name: value for name, value in facts.items() if value}))


def _numbers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items(), key=lambda item: -item[1]))
