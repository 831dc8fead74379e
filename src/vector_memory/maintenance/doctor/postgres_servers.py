"""The servers of a memory in PostgreSQL, as the doctor sees them."""

from collections.abc import Iterator, Sequence

from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseError
from vector_memory.maintenance.doctor.place import readable_size
from vector_memory.maintenance.doctor.report import Finding, fine, problem, warning
from vector_memory.settings import MANY_NAMESPACES
from vector_memory.storage.postgres.connect_errors import FEWER
from vector_memory.storage.postgres.hosts import newest
from vector_memory.storage.postgres.survey import Surveyed, survey

MOST_USED = 0.8
"""The share of a server's connections from which on they may soon be used up."""


def servers(url: str) -> Iterator[Finding]:
    """Check each server that a URL names, and whether one of them is certain to be the primary."""
    found = list(survey(url))
    known = [each for _, each in found if isinstance(each, Surveyed)]
    latest = max((each.timeline for each in known), default=0)
    primaries = [each for each in known if each.accepts_changes and each.timeline == latest]
    for place, each in found:
        if isinstance(each, Surveyed):
            yield server(place, each, latest, primaries)
        elif len(found) > 1:
            yield warning("host", f"{place}: {each}", "Start that server, or take it out of the database URL.")
    if known:
        try:
            newest({each.state for each in known}, {each.system_id: latest for each in known}, needs_primary=False)
        except DatabaseError as error:
            yield problem("primary", f"{error}", "Stop all servers but the right one, and make them standbys again.")
    if primaries:
        yield confirmation(primaries[0])
        yield namespaces(primaries[0])


def server(place: str, found: Surveyed, latest: int, primaries: Sequence[Surveyed]) -> Finding:
    """Report what a server is, and whether it does what it should."""
    is_earlier = found.accepts_changes and found.timeline < latest
    role = "a standby" if found.is_standby else "an earlier primary" if is_earlier else "the primary"
    message = (
        f"{place} is {role} on timeline {found.timeline}, with {found.connections} of {found.most_connections} "
        "connections in use"
    )
    if found.is_standby and primaries:
        message += f", {readable_size(max(primaries[0].position - found.position, 0))} behind the primary"
    if is_earlier:
        advice = f"Stop it, and make it a standby again, as with `pg_rewind`: timeline {latest} has replaced its own."
        return problem("host", f"{message}.", advice)
    if found.is_standby and not found.is_receiving:
        return warning("host", f"{message}, and receives nothing from it.", "Look into the log of that server.")
    if found.connections > MOST_USED * found.most_connections:
        return warning("host", f"{message}.", f"Raise its `max_connections`, or {FEWER}")
    return fine("host", f"{message}.")


def confirmation(primary: Surveyed) -> Finding:
    """Check that the standbys that have to confirm each store can do so."""
    if not primary.has_to_confirm:
        return fine("confirmation", "No standby has to confirm stores, so a failover can lose the latest.")
    if not primary.sees_standbys:
        message = "Standbys have to confirm each store. The role may not see which are connected."
        return warning("confirmation", message, "Grant it `pg_read_all_stats`, or run the doctor with another role.")
    if not primary.confirming:
        return problem(
            "confirmation",
            "No standby confirms stores, although one has to, so each store waits.",
            "Start the standby, or take it out of `synchronous_standby_names`.",
        )
    return fine("confirmation", f"{counted(primary.confirming, 'standby')} connected to confirm each store.")


def namespaces(primary: Surveyed) -> Finding:
    """Check that there are not too many memories in the database for its tools."""
    message = f"The database has {counted(primary.memories, 'memory', 'memories')} with {primary.tables:,} tables"
    if primary.tables > primary.locks:
        advice = "Raise `max_locks_per_transaction`, or dump one schema at a time with `--schema`."
        return warning("namespaces", f"{message}: `pg_dump` may need more locks than the server has.", advice)
    if primary.memories >= MANY_NAMESPACES:
        return warning("namespaces", f"{message}.", "Create further namespaces in another database.")
    return fine("namespaces", f"{message}.")
