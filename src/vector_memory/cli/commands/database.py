# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The command that prepares a PostgreSQL database for servers, and creates what only large memories need."""

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.flags import DEFAULTS, DatabaseFlags, ModelSettingsFlags, OutputFlags, Switch
from vector_memory.errors import ConfigurationError
from vector_memory.settings import MANY_NAMESPACES, DatabaseServer, DatabaseUrl
from vector_memory.storage.opening import index_vectors, prepare_database


def database(
    action: Annotated[Literal["prepare", "index"], Parameter(help="Prepare tables, or create an index of vectors.")],
    /,
    *,
    serve: Annotated[
        list[str] | None, Parameter(help="Role that reads and writes memories; repeatable.", show_default=False)
    ] = None,
    read: Annotated[
        list[str] | None, Parameter(help="Role that only reads memories; repeatable.", show_default=False)
    ] = None,
    only: Annotated[bool, Switch(help="These roles may use only the memory of the URL.")] = False,
    drop: Annotated[bool, Switch(help="With `index`: drop the index instead.")] = False,
    output: OutputFlags = OutputFlags(),
    server: DatabaseFlags = DatabaseServer(),
    settings: ModelSettingsFlags = DEFAULTS,
) -> None:
    """Create or upgrade the tables in a PostgreSQL database, and let roles use them. Can be repeated.

    Pass the URL of a role that can create tables. Servers do not need such a role: --serve and --read name theirs,
    which must exist. These roles can use the memory and all namespaces, including future ones, and nothing else; run
    this again after an upgrade. With --only they can use only the memory of the URL, such as `?schema=ns_NAME`.

    `index` creates an approximate index of vectors (HNSW) while servers read and write the memory. It speeds up
    searches of more than 50,000 passages; each store then takes longer.
    """
    address = server.url()
    if address is None:
        raise ConfigurationError("Name the database with --database-url or VECTOR_MEMORY_DATABASE_URL.")
    if action == "index":
        _index(address, output, drop=drop)
    elif drop:
        raise ConfigurationError("Only an index can be dropped: `vector-memory database index --drop`.")
    elif both := sorted({*(serve or ())} & {*(read or ())}):
        raise ConfigurationError(f"{both[0]} is both in --serve and in --read: choose one.")
    else:
        schemas = prepare_database(
            address, dimensions=settings.embedding_dim, serving=serve or (), reading=read or (), only=only
        )
        _report(address, schemas, serve or [], read or [], output)


def _index(address: DatabaseUrl, output: OutputFlags, *, drop: bool) -> None:
    index_vectors(address, drop=drop)
    message = f"{'Dropped' if drop else 'Created'} the index of vectors of {address}"
    output.tell({"success": True, "dropped": drop}, message)


def _report(
    address: DatabaseUrl, schemas: Sequence[str], serving: list[str], reading: list[str], output: OutputFlags
) -> None:
    lines = [f"Prepared {address}, schemas: {', '.join(schemas)}"]
    lines += [f"The role {role} may serve." for role in serving]
    lines += [f"The role {role} may read." for role in reading]
    if len(schemas) >= MANY_NAMESPACES:
        lines.append(f"The database has {len(schemas):,} memories: create further namespaces in another database.")
    body = {"success": True, "schemas": schemas, "serving": serving, "reading": reading}
    output.tell(body, "\n".join(lines))
