"""What was just stored is found at once and first, with its similarity, whichever server is asked."""

from contextlib import ExitStack
from pathlib import Path

from servers import Server

SERVERS, NOTES = 4, 4


def note(server: int, number: int) -> str:
    """Return a text that nearly equals all others."""
    return f"Agent {server} found that service {number} waits for queue {server}{number}."


def test_every_server_finds_what_any_of_them_has_just_stored_first(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(tmp_path)).hello() for _ in range(SERVERS)]
        found = []
        for number in range(NOTES):
            for at, server in enumerate(servers):
                text = note(at, number)
                stored = server.call("store_working_memory", agent_id="a", session_id="s", content=text)
                for asked in (server, servers[(at + 1) % SERVERS]):
                    answer = asked.call("search_working_memory_specific_chunks", query=text, session_id="s", limit=3)
                    best = answer["results"][0]
                    found.append((best["memory_id"] == stored["memory_id"], best["similarity"] is not None))
    assert found == [(True, True)] * (2 * SERVERS * NOTES)
