"""The servers that the tests start end with the process of the tests."""

from pathlib import Path

import psycopg
import pytest

from forked import Forked
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
