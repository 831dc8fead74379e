"""Upgrades a file of the original server: every memory keeps its id and its text.

That server has plural kinds, `v1` iterations, knowledge in the session `global`, chunks without offsets that begin with
words of their own, and one vector per chunk. Chunks and vectors are recomputed from the text: the chunks when the
upgraded file is opened by a process that can cut documents, the vectors by the backfill.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import apsw

from vector_memory.domain import TRAITS, Chunk, MemoryKind, utc_now
from vector_memory.domain.validation import parse_iteration
from vector_memory.errors import ValidationError
from vector_memory.storage.records import Derived
from vector_memory.storage.sqlite.rows import as_dict, fetch, fetch_column

logger = logging.getLogger(__name__)

Cut = Callable[[str], Sequence[Chunk]]
"""Returns the chunks of a document."""

KINDS = {
    "reports": MemoryKind.REPORT,
    "report_observations": MemoryKind.REPORT_OBSERVATION,
    "session_contexts": MemoryKind.SESSION_CONTEXT,
    "input_prompts": MemoryKind.INPUT_PROMPT,
    "system_memories": MemoryKind.SYSTEM_MEMORY,
    "working_memories": MemoryKind.WORKING_MEMORY,
}
CHUNKED = {str(kind) for kind, traits in TRAITS.items() if traits.chunked}

# Indexes answer this without reading a text, so it costs nothing where there are no such documents.
UNCUT = """
select m.id from session_memories m indexed by idx_embedding_model
where m.embedding_model_id is null and m.auto_chunk
    and not exists (select 1 from keyword_memories where memory_id = m.id)
    and not exists (select 1 from memory_chunks where parent_id = m.id)
order by m.id
"""


def is_original(connection: apsw.Connection) -> bool:
    """Return whether the file has the original server's tables and has not been upgraded yet."""
    tables = set(fetch_column(connection, "select name from sqlite_schema where type = 'table'"))
    return {"session_memories", "memory_chunks"} <= tables and not {"schema_migrations", "memory_passages"} & tables


def rename_tables(connection: apsw.Connection) -> None:
    """Rename the original server's text tables, and drop everything that can be rebuilt from the text."""
    for kind in ("trigger", "view", "index"):
        names = fetch_column(connection, "select name from sqlite_schema where type = ? and sql is not null", (kind,))
        for name in names:
            connection.execute(f"drop {kind} {quoted(name)}")
    virtual = "select name from sqlite_schema where type = 'table' and sql like 'create virtual table%'"
    for name in fetch_column(connection, virtual):
        connection.execute(f"drop table {quoted(name)}")
    connection.execute("alter table session_memories rename to original_memories")
    connection.execute("alter table memory_chunks rename to original_chunks")


def move_rows(connection: apsw.Connection) -> None:
    """Copy the memories of the renamed table into the new one, one at a time, and drop the renamed tables."""
    for memory_id in fetch_column(connection, "select id from original_memories order by id"):
        (row,) = fetch(connection, as_dict, "select * from original_memories where id = ?", (memory_id,))
        moved = moved_memory(row)
        columns = f"({', '.join(moved)}, chunk_count) values (:{', :'.join(moved)}, 0)"
        connection.execute(f"insert into session_memories {columns}", moved)
    carry_over_sequences(connection)
    connection.execute("drop table original_chunks")
    connection.execute("drop table original_memories")


def cut_documents(connection: apsw.Connection, cut: Cut) -> None:
    """Cut the documents that have no chunks, and index the words of their chunks.

    One that cannot be cut must not keep the file from being opened.
    """
    # They import numpy, and are rarely needed.
    from vector_memory.storage.postings import words_of  # noqa: PLC0415
    from vector_memory.storage.sqlite.transactions import SqliteWriter  # noqa: PLC0415

    writer = SqliteWriter(connection)
    for memory_id in fetch_column(connection, UNCUT):
        memory = writer.memories.get(memory_id)
        try:
            chunks = cut(memory.content)
            words = words_of(memory.title, memory.content, chunks, chunked=True)
        except Exception as error:
            # The error's message is not logged, because it may quote the text.
            logger.warning("Memory %d could not be cut into chunks: %s", memory_id, type(error).__name__)
        else:
            writer.add_chunks(memory, Derived(chunks=chunks, words=words))


def carry_over_sequences(connection: apsw.Connection) -> None:
    """Carry over the largest ids ever assigned, so that an old id never means another memory or chunk."""
    connection.execute(
        """
        delete from sqlite_sequence where name in ('session_memories', 'memory_chunks');
        update sqlite_sequence set name = 'session_memories' where name = 'original_memories';
        update sqlite_sequence set name = 'memory_chunks' where name = 'original_chunks';
        """
    )


def moved_memory(row: dict[str, Any]) -> dict[str, Any]:
    """Return the column values of a new row for one of the original server's rows."""
    row = {name: as_text(value) if isinstance(value, bytes) else value for name, value in row.items()}
    kind = str(KINDS.get(row["memory_type"], row["memory_type"]))
    content = str(row["content"] or "")
    created = normal_time(row.get("created_at"))
    session = row.get("session_id")
    count = row.get("access_count")
    return {
        "id": row["id"],
        "memory_type": kind,
        "agent_id": row.get("agent_id") or "unknown",
        "session_id": None if kind == MemoryKind.KNOWLEDGE_BASE and session == "global" else session,
        "session_iter": normal_iteration(row.get("session_iter")),
        "task_code": row.get("task_code"),
        "content": content,
        "title": row.get("title"),
        "description": row.get("description"),
        "tags": normal_tags(row.get("tags")),
        "metadata": normal_json(row.get("metadata"), {}),
        "came_from": "{}",
        "trust": 0,
        "content_hash": hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest(),
        "created_at": created,
        "updated_at": normal_time(row.get("updated_at") or created),
        "accessed_at": normal_time(row.get("accessed_at") or created),
        "access_count": count if isinstance(count, int) else 0,
        "auto_chunk": int(kind in CHUNKED),
    }


def as_text(value: object) -> str | None:
    """Return a value as text; characters that are not UTF-8 are replaced."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)


def normal_iteration(value: object) -> int:
    """Parse `v1`, `1` or 1; anything else is the first iteration."""
    try:
        return parse_iteration(value)  # type: ignore[arg-type]
    except ValidationError:
        return 1


def normal_time(value: object) -> str:
    """Return an ISO 8601 time in the one format of this store; a time without a zone is taken as UTC."""
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return utc_now()
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def normal_json(value: object, empty: list[Any] | dict[str, Any]) -> str:
    """Return `value` if it is JSON of the same type as `empty`; otherwise return `empty` as JSON."""
    try:
        parsed = json.loads(str(value))
    except ValueError:
        parsed = None
    return json.dumps(parsed if isinstance(parsed, type(empty)) else empty, ensure_ascii=False)


def normal_tags(value: object) -> str:
    """Return a JSON list of strings; items of other types become JSON text."""
    tags = json.loads(normal_json(value, []))
    return json.dumps([tag if isinstance(tag, str) else json.dumps(tag) for tag in tags], ensure_ascii=False)


def quoted(name: str) -> str:
    """Quote a table's name for SQL."""
    return '"' + name.replace('"', '""') + '"'
