"""Upgrades a file of the original server: every memory keeps its id and its text.

That server has plural kinds, `v1` iterations, knowledge in the session `global`, chunks without offsets, and one vector
per chunk. Chunks that occur literally in their document keep their ids and get offsets. All other chunks and all
vectors are recomputed from the text (`backfill`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import apsw

from vector_memory.domain import TRAITS, MemoryKind, Span, utc_now
from vector_memory.errors import ValidationError
from vector_memory.storage.sqlite.rows import as_dict, fetch, fetch_column
from vector_memory.validation import parse_iteration

KINDS = {
    "reports": MemoryKind.REPORT,
    "report_observations": MemoryKind.REPORT_OBSERVATION,
    "session_contexts": MemoryKind.SESSION_CONTEXT,
    "input_prompts": MemoryKind.INPUT_PROMPT,
    "system_memories": MemoryKind.SYSTEM_MEMORY,
    "working_memories": MemoryKind.WORKING_MEMORY,
}
CHUNKED = {str(kind) for kind, traits in TRAITS.items() if traits.chunked}

INSERT_MEMORY = """
insert into session_memories (
    id, memory_type, agent_id, session_id, session_iter, task_code, content, title, description, tags, metadata,
    content_hash, created_at, updated_at, accessed_at, access_count, auto_chunk, chunk_count
) values (
    :id, :memory_type, :agent_id, :session_id, :session_iter, :task_code, :content, :title, :description, :tags,
    :metadata, :content_hash, :created_at, :updated_at, :accessed_at, :access_count, :auto_chunk, :chunk_count
)
"""
INSERT_CHUNK = """
insert into memory_chunks (
    id, parent_id, parent_title, chunk_index, content, chunk_type, start_char, end_char, token_count, header_path,
    level, prev_chunk_id, next_chunk_id, content_hash, created_at, section_hierarchy, chunk_position_ratio,
    sibling_count, depth_level, contains_code, contains_table
) values (
    :id, :parent_id, :parent_title, :chunk_index, :content, :chunk_type, :start_char, :end_char, :token_count,
    :header_path, :level, :prev_chunk_id, :next_chunk_id, :content_hash, :created_at, :section_hierarchy,
    :chunk_position_ratio, :sibling_count, :depth_level, :contains_code, :contains_table
)
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
    """Copy the rows of the renamed tables into the new tables, and drop the renamed ones."""
    for memory in fetch(connection, as_dict, "select * from original_memories order by id"):
        chunks = fetch(
            connection,
            as_dict,
            "select * from original_chunks where parent_id = ? order by chunk_index",
            (memory["id"],),
        )
        moved = moved_memory(memory)
        located = list(located_chunks(moved, chunks)) if moved["auto_chunk"] else []
        connection.execute(INSERT_MEMORY, moved | {"chunk_count": len(located)})
        connection.executemany(INSERT_CHUNK, located)
    carry_over_sequences(connection)
    connection.execute("drop table original_chunks")
    connection.execute("drop table original_memories")


def carry_over_sequences(connection: apsw.Connection) -> None:
    """Carry over the largest ids ever assigned, so that ids of deleted memories are not reused."""
    connection.execute(
        """
        update sqlite_sequence set seq = max(seq, coalesce(
            (select old.seq from sqlite_sequence old where old.name = case sqlite_sequence.name
                when 'session_memories' then 'original_memories' when 'memory_chunks' then 'original_chunks' end), 0))
        """
    )


def moved_memory(row: dict[str, Any]) -> dict[str, Any]:
    """Return the column values of a new row for one of the original server's rows."""
    kind = str(KINDS.get(row["memory_type"], row["memory_type"]))
    content = str(row["content"] or "")
    created = normal_time(row.get("created_at"))
    session = row.get("session_id")
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
        "content_hash": hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest(),
        "created_at": created,
        "updated_at": normal_time(row.get("updated_at") or created),
        "accessed_at": normal_time(row.get("accessed_at") or created),
        "access_count": row.get("access_count") or 0,
        "auto_chunk": int(kind in CHUNKED),
    }


def located_chunks(memory: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the column values of new chunk rows; none if the old chunks do not cover the document exactly."""
    texts = [str(row.get("original_content") or row["content"]) for row in rows]
    spans = locate(memory["content"], texts)
    for index, (row, text, span) in enumerate(zip(rows, texts, spans, strict=False)):
        path = str(row.get("header_path") or "")
        yield {
            "id": row["id"],
            "parent_id": memory["id"],
            "parent_title": memory["title"],
            "chunk_index": index,
            "content": text,
            "chunk_type": row.get("chunk_type") or "text",
            "start_char": span.start,
            "end_char": span.end,
            "token_count": row.get("token_count") or 0,
            "header_path": path,
            "level": row.get("level") or 0,
            "prev_chunk_id": rows[index - 1]["id"] if index else None,
            "next_chunk_id": rows[index + 1]["id"] if index + 1 < len(rows) else None,
            "content_hash": hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
            "created_at": normal_time(row.get("created_at") or memory["created_at"]),
            "section_hierarchy": json.dumps(path.split(" > ") if path else []),
            "chunk_position_ratio": index / max(1, len(rows) - 1),
            "sibling_count": len(rows),
            "depth_level": row.get("level") or 0,
            "contains_code": int("```" in text),
            "contains_table": int(bool(row.get("contains_table"))),
        }


def locate(document: str, texts: Iterable[str]) -> list[Span]:
    """Return the spans of the chunk texts in the document, in order; [] unless they cover it all but white space."""
    spans: list[Span] = []
    start, covered = 0, 0
    for text in texts:
        found = document.find(text, start)
        if found < 0 or not text or document[covered:found].strip():
            return []
        spans.append(Span(found, found + len(text)))
        start, covered = found + 1, max(covered, found + len(text))
    return [] if document[covered:].strip() else spans


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
