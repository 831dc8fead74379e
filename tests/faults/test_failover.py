"""A standby that lacks what was stored last takes over while agents store: processes that go on answer rightly."""

import signal
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster, running_cluster, running_standby
from faults.agents import SESSION, Agents, content
from faults.effort import effort
from faults.test_postgres import memories, serving
from waiting import eventually

SERVERS = 2
WRITERS = effort(quick=2, long=8)
MORE = effort(quick=10, long=200)
"""Memories that are stored before the standby falls behind, while it is, and after it has taken over."""


def receives(standby: Cluster) -> bool:
    with psycopg.connect(standby.url()) as connection:
        return bool(connection.execute("select from pg_stat_wal_receiver").fetchall())


def cut_off(standby: Cluster) -> None:
    """Let the standby receive nothing from now on."""
    eventually(lambda: receives(standby))
    standby.set("primary_conninfo", "")
    eventually(lambda: not receives(standby))


def first_found(agents: Agents, text: str) -> list[tuple[int, str]]:
    """Return the best match of a text that each server names, as id and text."""
    query = {"query": text, "session_id": SESSION, "limit": 1}
    answers = [server.call("search_reports_full_documents", **query) or {} for server in agents.servers]
    return [(hit["id"], hit["content"]) for answer in answers for hit in answer["results"]]


@pytest.mark.timeout(900)
def test_after_a_failover_that_loses_stores_no_id_is_given_again_no_answer_is_wrong_and_no_cursor_skips_anything(
    tmp_path: Path,
) -> None:
    with running_cluster() as primary:
        primary.create_database("team")
        with running_standby(primary) as standby:
            url = f"postgresql://postgres@/team?host={primary.folder},{standby.folder}&target_session_attrs=read-write"
            with serving(tmp_path, [url] * SERVERS) as agents:
                with agents.at_work(WRITERS):
                    assert agents.store_more(MORE)
                    cut_off(standby)
                    assert agents.store_more(MORE)
                    latest = max(agents.stored, key=agents.stored.__getitem__)
                    assert first_found(agents, content(latest)) == [(agents.stored[latest], content(latest))] * SERVERS
                    primary.stop(signal.SIGKILL)
                    standby.promote()
                    assert agents.store_more(MORE)
                kept = memories(standby.url("team"))
                lost = [number for number, key in agents.stored.items() if key not in kept]
                found = {number: first_found(agents, content(number)) for number in agents.stored}
            wrong = [hit for hits in found.values() for hit in hits if kept.get(hit[0]) != hit[1]]
            missed = [
                number
                for number, key in agents.stored.items()
                if key in kept and dict(found[number]) != {key: content(number)}
            ]
            given = list(agents.stored.values())
            skipped = sorted(kept.keys() - set(agents.seen))
    print(f"{len(given)} acknowledged, {len(lost)} lost, {len(wrong)} wrong answers, {len(missed)} texts not found,")
    print(f"{len(given) - len(set(given))} ids given again, {len(skipped)} changes skipped")
    print(b"".join(line for server in agents.servers for line in server.log if b" ERROR " in line).decode())
    assert len(lost) >= MORE
    assert (wrong, missed, skipped, agents.unexpected) == ([], [], [], [])
    assert len(set(given)) == len(given)
    assert [server.starts for server in agents.servers] == [1] * SERVERS
