"""The command that copies a memory to another place, of the same engine or another."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.flags import AsJson, Switch, creatable, existing, given_path
from vector_memory.cli.terminal import progress, resumable, tell
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError
from vector_memory.maintenance.copying import Copied, copying
from vector_memory.settings import DEFAULT_DIM, DatabaseLocation, MemoryAddress
from vector_memory.storage.opening import open_storage

SCHEMES = ("postgresql://", "postgres://")


def copy(
    source: Annotated[str, Parameter(help="Memory to copy: a file, or postgresql://USER@HOST/DATABASE.")],
    target: Annotated[str, Parameter(help="Empty memory to copy it to: a file or a URL, created if necessary.")],
    /,
    *,
    database_unencrypted: Annotated[
        bool,
        Switch(help="Accept connections without TLS to a database on another machine, in a network that you trust."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy a memory with its ids, times and vectors, from a file to PostgreSQL or back.

    Everything written is read back and compared. Can be interrupted and repeated.

    Servers can use the source meanwhile: the next run copies what they have stored.

    No process may use the target before the copy is complete.
    """
    source_at = existing(place_of(source, unencrypted=database_unencrypted))
    target_at = creatable(place_of(target, unencrypted=database_unencrypted))
    if is_same(source_at, target_at):
        raise ConfigurationError(f"{target_at} is the source itself: choose another target.")
    with resumable():
        copied = copy_all(source_at, target_at)
    before = copied.memories - copied.written
    known = f", {before:,} of them in an earlier run," if before else ""
    nuls = copied.nul_characters
    replaced = f"Replaced {counted(nuls, 'NUL character')} by U+FFFD.\n" if nuls else ""
    tell(
        {"success": True, **copied._asdict(), "source": str(source_at), "target": str(target_at)},
        f"{replaced}Copied {counted(copied.memories, 'memory', 'memories')}{known} to {target_at}",
        as_json=as_json,
    )


def place_of(address: str, *, unencrypted: bool) -> DatabaseLocation:
    """Return the place that an argument names."""
    if address.startswith(SCHEMES):
        return DatabaseLocation(database_url=address, database_unencrypted=unencrypted)
    return DatabaseLocation(database_path=given_path(Path(address)))


def is_same(source_at: MemoryAddress, target_at: MemoryAddress) -> bool:
    """Return whether two addresses are of one memory, also if a link or another spelling leads to its file."""
    if isinstance(source_at, Path) and isinstance(target_at, Path):
        return target_at.exists() and source_at.samefile(target_at)
    return source_at == target_at


def copy_all(source_at: MemoryAddress, target_at: MemoryAddress) -> Copied:
    """Copy a memory; the target gets vectors of the same length."""
    with closing(open_storage(source_at, dimensions=DEFAULT_DIM, read_only=True)) as source:
        with source.read() as reader:
            fingerprint = reader.fingerprint()
        dimensions = DEFAULT_DIM if fingerprint is None else fingerprint.dimensions
        with closing(open_storage(target_at, dimensions=dimensions)) as target, copying(source, target) as running:
            with progress("Memories") as update:
                copied = running.copy_memories(update)
            with progress("Words") as update:
                running.complete(update)
    return copied
