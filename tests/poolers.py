"""A real pooler in front of a PostgreSQL server: pgbouncer, which is a package of Debian and of most systems."""

import os
import re
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
PROGRAM = which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")

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
{more}
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
            listed = psycopg.ClientCursor(console).execute("show servers")
            place = [column.name for column in listed.description or ()].index("database")
            return sum(row[place] == database for row in listed)


def require_names() -> None:
    """Skip the test if the pooler cannot give sessions of the server the named statements of its clients."""
    said = subprocess.run([PROGRAM or "true", "--version"], capture_output=True, text=True, check=True).stdout
    if PROGRAM is not None and tuple(map(int, re.findall(r"\d+", said)[:2])) < (1, 22):
        pytest.skip("pgbouncer is older than 1.22")


@contextmanager
def running_pooler(
    cluster: Cluster,
    mode: Mode,
    size: int,
    *,
    users: tuple[str, ...] = (SUPERUSER,),
    patience: int = 120,
    more: str = "",
) -> Iterator[Pooler]:
    """Start pgbouncer in front of a server. `size`: its connections to the server for each database and user.

    `patience`: the seconds after which it gives up a client that waits for one. `more`: further settings.
    """
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed: `apt-get install pgbouncer`")
    with scratch_folder() as folder:
        (folder / "data").mkdir()
        given_away(folder / "data")  # the folder's guard ends the process that a file there names
        (folder / "users").write_text("".join(f'"{user}" ""\n' for user in users))
        named = {"server": cluster.folder, "folder": folder, "port": PORT, "user": SUPERUSER}
        (folder / "settings").write_text(SETTINGS.format(**named, mode=mode, size=size, patience=patience, more=more))
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
