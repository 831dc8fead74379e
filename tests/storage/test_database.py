"""One file, several threads and processes: who writes when, and that deleted text leaves the file and the log."""

import fcntl
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from faults.workload import memory, open_store
from memory_files import change, create_file, doctor, examine
from other_process import OtherProcess
from vector_memory.domain import MemoryKind, Scope
from vector_memory.errors import (
    CancelledCallError,
    ClosedMemoryError,
    ConfigurationError,
    DatabaseError,
    DatabaseLockError,
    ValidationError,
)
from vector_memory.extras.teams.registry import Registry
from vector_memory.storage import write_lock
from vector_memory.storage.cancellation import Call, current_call, give_way
from vector_memory.storage.disk import drafts
from vector_memory.storage.disk.filesystem import flush_to_disk
from vector_memory.storage.records import LastIds, ListPosition
from vector_memory.storage.sqlite import connecting as checkpointer
from vector_memory.storage.sqlite import copying, migrations
from vector_memory.storage.sqlite import database as module
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.inspection import FileKind, file_kind
from vector_memory.storage.sqlite.rows import fetch, fetch_value
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.storage.write_lock import WriteLock
from waiting import PATIENCE, at_once, eventually

ADD = """
insert into session_memories (memory_type, agent_id, content, content_hash, created_at, updated_at, accessed_at)
values ('report', ?, 'text', 'hash', '2026', '2026', '2026')
"""
COUNT = "select count(*) from session_memories"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "store.db"


@pytest.fixture
def database(path: Path):
    with closing(Database(path, dimensions=16)) as database:
        database.create()
        yield database


@pytest.fixture
def pair(path: Path) -> Iterator[tuple[Database, Database]]:
    """Two handles of one file, as two processes have them."""
    with closing(Database(path, dimensions=16)) as first, closing(Database(path, dimensions=16)) as second:
        yield first, second


def count(database: Database) -> int:
    with database.read() as connection:
        return int(fetch_value(connection, COUNT))


def test_the_file_is_in_wal_mode_with_full_durability_foreign_keys_and_secure_delete(database: Database) -> None:
    with database.write() as connection:
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "busy_timeout")
        assert [connection.pragma(name) for name in pragmas] == ["wal", 2, 1, 1, 30_000]


def test_sql_cannot_load_extensions(database: Database) -> None:
    with pytest.raises(DatabaseError) as caught, database.read() as connection:
        connection.execute("select load_extension('anything')")
    assert "not authorized" in str(caught.value.__cause__)


def test_a_reading_connection_cannot_write(database: Database) -> None:
    with pytest.raises(DatabaseError), database.read() as connection:
        connection.execute(ADD, ("a",))


def test_many_threads_write_and_read_without_losing_a_row(database: Database) -> None:
    def work(agent: str) -> None:
        for _ in range(10):
            add(database, agent)
            count(database)

    at_once(*(partial(work, str(number)) for number in range(12)))
    assert count(database) == 120


def test_writers_that_wait_for_another_process_share_one_time_limit_and_are_told_to_repeat(
    pair: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT_SECONDS", 1.0)
    first, second = pair
    failures: list[DatabaseLockError] = []

    def wait() -> None:
        with pytest.raises(DatabaseLockError, match="repeating the call is safe") as caught, second.write():
            pass
        failures.append(caught.value)

    with first.write():
        threads = [threading.Thread(target=wait, daemon=True) for _ in range(40)]
        for thread in threads:
            thread.start()
        give_up = time.monotonic() + 20
        for thread in threads:
            thread.join(max(0, give_up - time.monotonic()))
        assert len(failures) == 40


def in_call(call: Call, work: Callable[[], None]) -> threading.Thread:
    """Start a thread that works for a client's call."""

    def run() -> None:
        current_call.set(call)
        work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def add(database: Database, agent: str) -> None:
    with database.write() as connection:
        connection.execute(ADD, (agent,))


def test_a_call_does_not_wait_again_for_a_stuck_lock_after_its_timeout(pair: tuple[Database, Database]) -> None:
    first, second = pair
    late = Call(arrived_at=time.monotonic() - 60)

    def fail() -> None:
        with pytest.raises(DatabaseLockError):
            add(second, "late")
        with pytest.raises(DatabaseLockError):
            second.require_time_to_write()
        failed.set()

    failed = threading.Event()
    with first.write():
        in_call(late, fail)
        assert failed.wait(20)


def test_a_call_writes_after_its_timeout_if_the_lock_is_free(database: Database) -> None:
    in_call(Call(arrived_at=time.monotonic() - 60), lambda: add(database, "slow")).join()
    assert count(database) == 1


@pytest.mark.parametrize("same_process", [True, False], ids=["for a thread", "for a process"])
def test_a_call_that_is_cancelled_while_it_waits_writes_nothing(
    pair: tuple[Database, Database], *, same_process: bool
) -> None:
    database, holder = pair[0], pair[0 if same_process else 1]
    call = Call()
    caught: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(CancelledCallError) as error:
            add(database, "cancelled")
        caught.append(error.value)

    with holder.write():
        thread = in_call(call, wait)
        call.cancelled = True
        thread.join(20)
        assert len(caught) == 1
    assert count(database) == 0


def test_a_query_that_nobody_waits_for_any_more_is_stopped(database: Database) -> None:
    endless = "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r"
    token = current_call.set(call := Call())
    try:
        threading.Timer(0.05, lambda: setattr(call, "cancelled", True)).start()
        with pytest.raises(CancelledCallError), database.read() as connection:
            fetch_value(connection, endless)
    finally:
        current_call.reset(token)
    assert count(database) == 0


def test_a_call_that_is_cancelled_after_it_started_to_write_is_completed(database: Database) -> None:
    call = Call()

    def write_twice() -> None:
        add(database, "first")
        call.cancelled = True
        add(database, "second")

    in_call(call, write_twice).join()
    assert count(database) == 2


def test_closing_releases_writers_that_wait_for_another_process(pair: tuple[Database, Database]) -> None:
    first, second = pair
    sent_away: list[str] = []

    def wait() -> None:
        with pytest.raises(DatabaseError) as error, second.write():
            pass
        sent_away.append(str(error.value))

    with first.write():
        at_once(wait, wait, wait, second.close, seconds=20)
        assert sent_away == ["The memory store is closed: open it again."] * 3


def test_a_writer_whose_turn_comes_after_closing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lock, "LONGEST_PAUSE", 60.0)  # so that it sleeps until its turn
    lock = write_lock.WriteLock(())
    sent_away = []

    def wait() -> None:
        with pytest.raises(ClosedMemoryError), lock.turn(60):
            pass
        sent_away.append(True)

    def end() -> None:
        with lock.last_turn():
            pass

    def is_ending() -> bool:
        try:
            lock.require_time(60)
        except ClosedMemoryError:
            return True
        return False

    with lock.turn(60):
        threads = [threading.Thread(target=target, daemon=True) for target in (wait, end)]
        threads[0].start()
        time.sleep(0.05)  # nothing tells that it sleeps; if it comes too late, the test proves less
        threads[1].start()
        eventually(is_ending)
    for thread in threads:
        thread.join(20)
    assert sent_away


def test_errors_carry_no_sql(database: Database) -> None:
    with pytest.raises(DatabaseError) as caught, database.write() as connection:
        connection.execute("select secret from nowhere")
    assert not re.search("secret|nowhere", str(caught.value))


def test_the_path_of_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="not a file"):
        Database(tmp_path, dimensions=16)


REFUSED = {
    "create table songs (title text); insert into songs values ('Kashmir')": "another program",
    "create table schema_migrations (version text)": "another program",
    "create table schema_migrations (version text); insert into schema_migrations values ('1')": "another program",
    "insert into schema_migrations values (999, 'from the future', '2099')": "newer release",
    "": "not an SQLite database",
}


@pytest.mark.parametrize(("sql", "said"), REFUSED.items(), ids=[*map(str, range(len(REFUSED)))])
def test_a_file_that_is_no_memory_of_this_release_is_refused_and_unchanged(tmp_path: Path, sql: str, said: str) -> None:
    path = tmp_path / "other.db"
    if sql.startswith("insert"):
        create_file(path)
    if sql:
        change(path, sql)
    else:
        path.write_bytes(b"not a database, and longer than a header would be " * 20)
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=said):
        Database(path, dimensions=16)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("look", "nothing"), [(migrations.version_of, 0), (file_kind, FileKind.EMPTY)])
def test_a_memory_that_another_process_creates_meanwhile_is_not_taken_for_another_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[apsw.Connection], object], nothing: object
) -> None:
    path, is_ours = tmp_path / "memory.db", migrations.is_ours

    def created_meanwhile(connection: apsw.Connection) -> bool:
        monkeypatch.setattr(migrations, "is_ours", is_ours)
        found = is_ours(connection)
        create_file(path)
        return found

    monkeypatch.setattr(migrations, "is_ours", created_meanwhile)
    with closing(apsw.Connection(str(path))) as connection:
        assert look(connection) == nothing


def test_opening_a_present_file_writes_nothing(path: Path) -> None:
    create_file(path)
    before = path.read_bytes()
    Database(path, dimensions=16).close()
    assert path.read_bytes() == before


def test_nothing_is_created_before_the_first_write(path: Path) -> None:
    """Whoever only looks leaves no folder behind, and finds nothing."""
    with closing(Database(path, dimensions=16)) as database:
        assert count(database) == 0
        assert not path.parent.exists()
        add(database, "a")
    assert path.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_another_process_creates_later_is_read_from_then_on(path: Path, read_only: bool) -> None:
    with closing(Database(path, dimensions=16, read_only=read_only)) as early:
        assert count(early) == 0
        with closing(Database(path, dimensions=16)) as other:
            add(other, "a")
        assert count(early) == 1


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseError, match="cannot be created"):
        Database(tmp_path / "file" / "x.db", dimensions=16)


OPEN = """
import sys, time
from pathlib import Path
from vector_memory.storage.sqlite.database import Database
time.sleep(max(0, float(sys.argv[2]) - time.time()))
database = Database(Path(sys.argv[1]), dimensions=16)
database.create()
database.close()
"""


def test_several_processes_may_start_on_a_new_file_at_once(path: Path) -> None:
    start = str(time.time() + 1.0)
    processes = [subprocess.Popen([sys.executable, "-c", OPEN, str(path), start]) for _ in range(6)]
    assert [process.wait(PATIENCE) for process in processes] == [0] * 6
    connection = apsw.Connection(str(path))
    assert fetch_value(connection, "select count(*) from schema_migrations") == 1
    connection.close()


def test_errors_of_the_caller_pass_through_unchanged(database: Database) -> None:
    with pytest.raises(ValidationError), database.write():
        raise ValidationError("say something else")


def test_an_sqlite_that_can_damage_shared_files_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(ConfigurationError, match=r"SQLite 3\.51\.2"):
        Database(path, dimensions=16)
    assert not path.exists()


def test_erasing_does_not_wait_for_a_reader_and_is_completed_by_the_next_write_after_it(
    database: Database, path: Path
) -> None:
    reader = apsw.Connection(str(path))
    add(database, "a")
    reader.execute("begin")
    reader.execute(COUNT).fetchall()
    with database.write() as connection:
        connection.execute("delete from session_memories")
    assert database.purge_deleted() is False

    def is_erased() -> bool:
        with database.read() as connection:
            return checkpointer.unerased(connection) is None

    with database.write():
        pass
    assert not is_erased()
    reader.close()
    with database.write():
        pass
    assert is_erased()


def test_nothing_is_written_to_a_read_only_memory(tmp_path: Path) -> None:
    """Reading continues."""
    path = tmp_path / "memory.db"
    create_file(path, 4)
    database = Database(path, dimensions=4, read_only=True)
    with pytest.raises(DatabaseError, match="reading only"), database.write():
        pass
    with pytest.raises(DatabaseError), database.read() as connection:
        connection.execute("delete from session_memories")
    assert count(database) == 0
    database.close()


def test_the_version_of_a_file_that_may_only_be_read_changes_when_others_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Database(path, dimensions=16)) as writing:
        writing.create()
        monkeypatch.setattr(module, "is_writable", lambda _: False)
        with closing(Database(path, dimensions=16, read_only=True)) as reading:
            versions = {reading.version()}
            for name in ("one", "two", "three"):
                add(writing, name)
                versions.add(reading.version())
            assert len(versions) == 4


def test_a_value_of_another_type_than_its_column_has_is_damage(database: Database) -> None:
    with database.read() as connection, pytest.raises(DatabaseError, match="wrong type"):
        fetch(connection, LastIds, "select 7 as memory, 'seven' as chunk")


WORD = "xylophone-4711"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Hold the present state of a file, as a search does that is under way."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("begin")
        connection.execute("select count(*) from sqlite_schema").fetchall()
        yield


def is_anywhere(path: Path) -> bool:
    """Tell whether the word is in the file or in its log.

    Another process looks: this one would drop SQLite's locks by closing a file that it has open.
    """
    command = ["grep", "--quiet", "--text", WORD, path, path.with_name(f"{path.name}-wal")]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "end", "use"),
    [
        (("delete_memory", {}), OtherProcess.kill, "write"),
        (("amend_memory", {"title": "Another"}), OtherProcess.close, "write"),
        (("delete_memory", {}), OtherProcess.close, "close"),
        (("amend_memory", {"title": "Another"}), OtherProcess.kill, "opening"),
    ],
    ids=["deleted and killed, write", "amended and ended, write", "deleted, close", "amended and killed, opening"],
)
def test_data_deleted_during_a_read_is_erased_when_another_process_next_uses_the_file(
    tmp_path: Path, change: tuple[str, dict[str, str]], end: Callable[[OtherProcess], None], use: str
) -> None:
    path = tmp_path / "memory.db"
    with ExitStack() as stack:
        store = stack.enter_context(open_store(path))
        memory_id = store.store_memory(**{**memory(0), "title": WORD}).memory_id
        idle = stack.enter_context(closing(apsw.Connection(str(path))))  # SQLite itself deletes the log of the last one
        idle.execute("select count(*) from sqlite_schema").fetchall()
        other = OtherProcess(path)
        with reading(path):
            assert other.call(change[0], memory_id, **change[1])["success"]
            end(other)
            assert is_anywhere(path)
        match use:
            case "write":
                store.store_memory(**memory(1))
            case "close":
                store.close()
            case "opening":
                stack.enter_context(open_store(path))
        assert not is_anywhere(path)


def test_the_log_is_emptied_once_after_many_deletes(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "memory.db", dimensions=4)) as database:
        for _ in range(2):
            with database.write() as connection:
                checkpointer.count_delete(connection)
            assert (tmp_path / "memory.db-wal").stat().st_size > 0
        assert database.purge_deleted()
        assert (tmp_path / "memory.db-wal").stat().st_size == 0


def test_after_the_count_of_deletes_was_lost_everything_is_erased_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    create_file(path)
    change(path, "drop table erasure")
    doctor(path).repair(examine(path))
    with closing(apsw.Connection(str(path))) as connection:
        assert fetch_value(connection, "select count(*) from erasure") == 1


def test_a_delete_that_came_after_the_log_was_emptied_is_still_to_be_erased(tmp_path: Path) -> None:
    with closing(Database(tmp_path / "memory.db", dimensions=4)) as database, database.write() as connection:
        checkpointer.count_delete(connection)
        first = checkpointer.unerased(connection)
        assert first is not None
        checkpointer.count_delete(connection)
        checkpointer.note_erased(connection, first)
        assert checkpointer.unerased(connection) == first + 1
        checkpointer.note_erased(connection, first + 1)
        assert checkpointer.unerased(connection) is None


class StillLockedError(Exception):
    """What an engine says."""


def test_a_writer_gives_up_on_a_stuck_lock_though_its_attempts_are_further_apart_than_the_time_of_a_stall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is in a process that gets no processor time."""
    monkeypatch.setattr(write_lock, "STALLED_SECONDS", write_lock.SHORTEST_PAUSE / 4)
    attempts = 0

    def begin() -> None:
        nonlocal attempts
        attempts += 1
        assert attempts < 20, "it does not give up"
        raise StillLockedError

    with pytest.raises(DatabaseLockError), WriteLock((StillLockedError,)).turn(write_lock.SHORTEST_PAUSE) as turn:
        turn.take(begin)


def test_a_writer_that_waits_for_another_process_lets_other_calls_work() -> None:
    ways: list[bool] = []
    before = give_way.set(lambda: ways.append(True))

    def begin() -> None:
        if not ways:
            raise StillLockedError

    try:
        with WriteLock((StillLockedError,)).turn(60) as turn:
            turn.take(begin)
    finally:
        give_way.reset(before)
    assert ways == [True]


SCOPES = {
    "kind": Scope(kind=MemoryKind.REPORT),
    "agent": Scope(kind=MemoryKind.REPORT, agent_id="a"),
    "session": Scope(kind=MemoryKind.REPORT, session_id="s"),
    "task": Scope(kind=MemoryKind.REPORT, task_code="t"),
}


def plan_of(path: Path, read: Callable[[SqliteReader], object]) -> list[str]:
    """Return the steps of the statements that something reads."""
    asked: list[tuple[str, Any]] = []

    def note(_cursor: object, statement: str, bindings: Any) -> bool:
        asked.append((statement, bindings))
        return True

    with closing(Database(path, dimensions=16)) as database, database.read() as connection:
        connection.exec_trace = note
        read(SqliteReader(connection))
        connection.exec_trace = None
        plan = [row[3] for sql, values in asked for row in connection.execute(f"explain query plan {sql}", values)]
    assert plan
    return plan


@pytest.mark.parametrize("session_id", [None, "s"])
def test_whoever_follows_a_cursor_reads_no_lifecycle_of_what_was_released_before(
    session_id: str | None, tmp_path: Path
) -> None:
    scope = Scope(session_id=session_id, since_id=40)
    plan = plan_of(
        tmp_path / "memory.db", lambda reader: (reader.memories.changes(scope, 9), reader.memories.count(scope))
    )
    lifecycles = [step for step in plan if re.search("(SEARCH|SCAN) (memory_lifecycle|g) ", step)]
    assert {re.sub(".*USING ", "", step) for step in lifecycles} == {
        "COVERING INDEX idx_given_at (given_at>?)",
        "INTEGER PRIMARY KEY (rowid=?)",
    }


@pytest.mark.parametrize("name", SCOPES)
def test_the_newest_of_a_scope_are_found_without_sorting_it(name: str, tmp_path: Path) -> None:
    places = None, ListPosition(2, 40, "2026-01-01T00:00:00+00:00", 42)
    plan = plan_of(
        tmp_path / "memory.db",
        lambda reader: [reader.memories.page(SCOPES[name], 10, after=after) for after in places],
    )
    assert not [step for step in plan if "TEMP B-TREE" in step or step.startswith("SCAN")]


F_FULLFSYNC = 51


def flushed(connection: apsw.Connection) -> list[object]:
    return [connection.pragma(name) for name in ("fullfsync", "checkpoint_fullfsync")]


def test_every_commit_and_checkpoint_reaches_the_disk_itself(tmp_path: Path) -> None:
    """Also those of a restored or repaired memory, and of a revoked token. SQLite asks for it on macOS only."""
    with closing(Database(tmp_path / "memory.db", dimensions=16)) as database, database.write() as connection:
        assert flushed(connection) == [1, 1]
    with copying.exclusive_connection(tmp_path / "memory.db") as connection:
        assert flushed(connection) == [1, 1]
    with Registry(tmp_path).tables.transaction(writes=True) as teams:
        assert flushed(teams.connection.raw) == [1, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_is_flushed_from_the_cache_of_the_disk_too_or_at_least_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    calls: list[str] = []

    def noted(_descriptor: int, command: int) -> int:
        calls.append("full" if command == F_FULLFSYNC else "other")
        if fails:
            raise OSError
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", F_FULLFSYNC, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", noted)
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        flush_to_disk(file.fileno())
    assert calls == (["full", "fsync"] if fails else ["full"])


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_folder_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bool] = []
    monkeypatch.setattr(drafts, "flush_to_disk", lambda one: flushed.append(stat.S_ISDIR(os.fstat(one).st_mode)))
    with drafts.draft_of(tmp_path / "file", drafts.Rules()) as draft:
        with draft.open() as stream:
            stream.write(b"content")
        draft.publish()
    assert flushed == [False, True]
