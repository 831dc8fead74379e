"""What is new, while several processes write to the same file."""

from pathlib import Path

from forked import Forked
from memory_files import CHILD, SETTINGS
from vector_memory.domain import Page, Scope
from vector_memory.store import SessionMemoryStore

WRITERS, MEMORIES = 4, 40

WRITER = """
agent = sys.argv[2]
with SessionMemoryStore(path, settings) as store:
    sys.stdin.readline()
    for number in range(int(sys.argv[3])):
        text = f"{agent} {number} " + "some words " * (number % 30)
        store.store_memory("report" if number % 3 else "working_memory", text, agent_id=agent, session_id="s")
"""


def writer(path: Path, agent: str) -> Forked:
    return Forked("-c", CHILD + WRITER, path, agent, MEMORIES, text=True)


def test_a_reader_who_goes_from_cursor_to_cursor_misses_nothing_of_what_several_processes_write(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, SETTINGS) as store:
        writers = [writer(path, f"agent-{number}") for number in range(WRITERS)]
        for one in writers:
            one.stdin.write("go\n")
            one.stdin.flush()
        read: list[tuple[int, str]] = []
        looks, cursor, at_work = 0, None, True
        while at_work:
            at_work = any(one.poll() is None for one in writers)
            answer = store.search_changes(
                Scope(session_id="s", own_agent_id="agent-0"), since=cursor, page=Page(limit=5)
            )
            read += [(memory.id, memory.content) for memory in answer.results]
            cursor, looks = answer.cursor, looks + 1
            at_work = at_work or answer.has_more
        for one in writers:
            assert one.communicate() == ("", "")
            assert one.returncode == 0
    expected = {(f"agent-{number}", str(at)) for number in range(1, WRITERS) for at in range(MEMORIES)}
    found = [tuple(content.split()[:2]) for _, content in read]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert [memory_id for memory_id, _ in read] == sorted(memory_id for memory_id, _ in read)
    assert looks > MEMORIES // 5
