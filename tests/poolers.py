"""A real pooler in front of a PostgreSQL server: pgbouncer, which is a package of Debian and of most systems."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Literal

import psycopg
import pytest

from clusters import SUPERUSER, Cluster, as_unprivileged, given_away, scratch_folder
from waiting import eventually

Mode = Literal["session", "transaction", "statement"]

PORT = 6432
PROGRAM = which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")

SETTINGS = """
[databases]
* = host={server}
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
admin_users = {user}
pool_mode = {mode}
default_pool_size = {size}
query_wait_timeout = {patience}
pidfile = {folder}/data/postmaster.pid
"""


@dataclass(frozen=True)
class Pooler:
    """A running pooler. Its settings are the defaults of pgbouncer, but for those that a test is about."""

    folder: Path

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Return the address of a database through the pooler, as `--database-url` takes it."""
        return f"postgresql://{user}@/{database}?host={self.folder}&port={PORT}"

    def server_connections(self, database: str) -> int:
        """Return how many connections to the server the pooler has for a database."""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True, prepare_threshold=None) as console:
            cursor = psycopg.ClientCursor(console)
            listed = cursor.execute("show servers")
            place = [column.name for column in listed.description or ()].index("database")
            return sum(row[place] == database for row in listed)


@contextmanager
def running_pooler(
    cluster: Cluster, mode: Mode, size: int, *, users: tuple[str, ...] = (SUPERUSER,), patience: int = 120
) -> Iterator[Pooler]:
    """Start pgbouncer in front of a server. `size`: its connections to the server for each database and user.

    `patience`: the seconds after which it gives up a client that waits for one.
    """
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed: `apt-get install pgbouncer`")
    with scratch_folder() as folder:
        (folder / "data").mkdir()
        given_away(folder / "data")  # the folder's guard ends the process that a file there names
        (folder / "users").write_text("".join(f'"{user}" ""\n' for user in users))
        named = {"server": cluster.folder, "folder": folder, "port": PORT, "user": SUPERUSER}
        (folder / "settings").write_text(SETTINGS.format(**named, mode=mode, size=size, patience=patience))
        with (folder / "log").open("wb") as log:
            program = subprocess.Popen(
                [PROGRAM, folder / "settings"], stdout=log, stderr=log, start_new_session=True, **as_unprivileged()
            )
        try:
            eventually((folder / f".s.PGSQL.{PORT}").exists)
            yield Pooler(folder)
        finally:
            program.kill()
            program.wait()
