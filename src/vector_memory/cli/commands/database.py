"""The command that prepares a PostgreSQL database for servers whose roles may create nothing."""

from typing import Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.flags import DEFAULTS, AsJson, DatabaseFlags, ModelSettingsFlags
from vector_memory.cli.terminal import print_json, say
from vector_memory.errors import ConfigurationError
from vector_memory.settings import DatabaseServer
from vector_memory.storage.opening import prepare_database


def database(
    action: Annotated[Literal["prepare"], Parameter(help="What to do.")],
    /,
    *,
    serve: Annotated[
        list[str] | None, Parameter(help="Role that reads and writes memories; repeatable.", show_default=False)
    ] = None,
    read: Annotated[
        list[str] | None, Parameter(help="Role that only reads memories; repeatable.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    server: DatabaseFlags = DatabaseServer(),
    settings: ModelSettingsFlags = DEFAULTS,
) -> None:
    """Create or upgrade the tables in a PostgreSQL database, and let roles use them. Can be repeated.

    Give the URL of a role that may create tables. Servers need no such role: --serve and --read name theirs, which must
    exist. They may use the memory, all namespaces, also future ones, and nothing else; so run this after an upgrade.
    """
    del action  # there is only one
    address = server.url()
    if address is None:
        raise ConfigurationError("Name the database: --database-url, or VECTOR_MEMORY_DATABASE_URL.")
    serving, reading = serve or [], read or []
    if both := sorted(set(serving) & set(reading)):
        raise ConfigurationError(f"{both[0]} is both in --serve and in --read: choose one.")
    schemas = prepare_database(address, dimensions=settings.embedding_dim, serving=serving, reading=reading)
    if as_json:
        print_json({"success": True, "schemas": schemas, "serving": serving, "reading": reading})
        return
    say(f"Prepared {address}, schemas: {', '.join(schemas)}")
    for roles, what in ((serving, "serve"), (reading, "read")):
        for role in roles:
            say(f"The role {role} may {what}.")
