"""The servers that the tests start end with the process of the tests."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from engine_memories import add, new_memory, opened
from forked import Forked
from vector_memory.errors import DatabaseError
from waiting import eventually

SERVING = """
import sys
from clusters import running_cluster
with running_cluster() as cluster:
    print(cluster.url(), cluster.folder, sep="\\n", flush=True)
    sys.stdin.read()
"""


@pytest.mark.usefixtures("cluster")  # which skips the test where there is no server
def test_a_process_of_the_tests_that_is_killed_leaves_no_server_and_no_folder_behind() -> None:
    with Forked("-c", SERVING, text=True) as process:
        url, folder = process.stdout.readline().strip(), Path(process.stdout.readline().strip())
        with psycopg.connect(url, autocommit=True) as connection:
            process.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select pg_sleep(60)")
        eventually(lambda: not folder.exists())


@pytest.fixture
def url(database: Callable[[str], str]) -> str:
    return database("postgres")


@pytest.mark.parametrize(
    ("by", "message"), [(-1, "Run `vector-memory export` with that version"), (1, "newer release")]
)
def test_a_memory_of_another_version_is_refused_with_what_to_do(url: str, by: int, message: str) -> None:
    with closing(opened(url)) as storage:
        add(storage, new_memory("a", session_id="s"))
    with psycopg.connect(url, options="-c search_path=memory,public") as connection:
        connection.execute("update namespace set schema_version = schema_version + %s", (by,))
    with pytest.raises(DatabaseError, match=message):
        opened(url)
