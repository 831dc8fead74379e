"""Write tests/data/original.db: a small file as the original server wrote it, vec0 tables included.

Run with `uv run scripts/make_original_database.py`. What the original's files look like is known from its schema; the
content is ours. Differences that an upgrade meets are all in here: kinds in the plural, `v1` iterations, knowledge
under the session `global`, chunks without offsets (one document whose chunks lost characters), orphaned vectors.
"""

import hashlib
import random
import struct
from pathlib import Path

import apsw
import sqlite_vec

TARGET = Path(__file__).parent.parent / "tests" / "data" / "original.db"

SCHEMA = """
create table session_memories (
    id integer primary key autoincrement, memory_type text not null, agent_id text not null, session_id text not null,
    session_iter integer default 1, task_code text, content text not null, original_content text, title text,
    description text, tags text default '[]', metadata text default '{}', content_hash text unique not null,
    embedding blob, created_at text not null, updated_at text not null, accessed_at text,
    access_count integer default 0, auto_chunk boolean default 0, chunk_count integer default 0
);
create table memory_chunks (
    id integer primary key autoincrement, parent_id integer not null, parent_title text, chunk_index integer not null,
    content text not null, chunk_type text default 'text', start_char integer, end_char integer, token_count integer,
    header_path text, level integer default 0, prev_chunk_id integer, next_chunk_id integer, content_hash text not null,
    embedding blob, created_at text not null, section_hierarchy text, granularity_level text default 'medium',
    chunk_position_ratio real default 0.5, sibling_count integer default 1, depth_level integer default 0,
    contains_code boolean default 0, contains_table boolean default 0, keywords text default '[]',
    original_content text, is_contextually_enriched boolean default 0,
    foreign key (parent_id) references session_memories(id) on delete cascade, unique (parent_id, chunk_index)
);
-- chunk_size keeps this file small; the original left it at 1,024.
create virtual table vec_chunk_search using vec0(chunk_id integer primary key, embedding float[384], chunk_size=8);
create virtual table vec_session_search using vec0(memory_id integer primary key, embedding float[384], chunk_size=8);
create index idx_agent_session on session_memories(agent_id, session_id);
create index idx_agent_session_iter on session_memories(agent_id, session_id, session_iter);
create index idx_agent_session_task on session_memories(agent_id, session_id, task_code);
create index idx_memory_type on session_memories(memory_type);
create index idx_created_at on session_memories(created_at);
create index idx_session_iter on session_memories(session_iter);
create index idx_chunk_parent on memory_chunks(parent_id);
"""

REPORT = """# Outage of 12 May

The payment service answered with status 503 for forty minutes.

## Cause

A migration held a lock on the ledger table while the nightly job waited for it.

## Remedy

The job now gives up after ten seconds, and migrations run outside its window.
"""
REPORT_CHUNKS = [
    ("# Outage of 12 May", REPORT[: REPORT.index("## Cause")].strip()),
    ("# Outage of 12 May > ## Cause", REPORT[REPORT.index("## Cause") : REPORT.index("## Remedy")].strip()),
    ("# Outage of 12 May > ## Remedy", REPORT[REPORT.index("## Remedy") :].strip()),
]
PROSE = "The cache was cold. Requests went to the disk! Why did nobody notice? The dashboard showed averages only."
LOSSY_CHUNKS = [("", part) for part in ("The cache was cold", "Requests went to the disk", "Why did nobody notice")]
KNOWLEDGE = "Gophers name errors err. Wrap them with %w so that errors.Is finds the cause."

MEMORIES = [
    ("reports", "explorer", "outage", "v1", REPORT, "Outage of 12 May", REPORT_CHUNKS),
    ("report_observations", "explorer", "outage", "v1", "The job also runs at noon.", None, []),
    ("working_memory", "explorer", "outage", "v2", PROSE, None, LOSSY_CHUNKS),
    ("session_context", "main-orchestrator", "outage", 2, "The user wants the cause of the outage.", None, []),
    ("input_prompt", "main-orchestrator", "outage", 2, "Why was checkout down on 12 May?", None, []),
    ("knowledge_base", "explorer", "global", 1, KNOWLEDGE, "Errors in Go", [("", KNOWLEDGE)]),
]


def vector(random_source: random.Random) -> bytes:
    """Return 384 floats; the original's vectors are thrown away by the upgrade, so any will do."""
    return struct.pack("384f", *(random_source.gauss(0, 0.05) for _ in range(384)))


def main() -> None:
    """Write the file again."""
    TARGET.unlink(missing_ok=True)
    source = random.Random(12)  # noqa: S311 - test data
    connection = apsw.Connection(str(TARGET))
    connection.enable_load_extension(True)  # noqa: FBT003 - apsw's own signature
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(SCHEMA)
    for number, (kind, agent, session, iteration, content, title, chunks) in enumerate(MEMORIES, start=1):
        created = f"2025-05-{12 + number}T09:30:00" + ("Z" if number % 2 else "")
        connection.execute(
            """insert into session_memories (memory_type, agent_id, session_id, session_iter, content, title, metadata,
                   content_hash, created_at, updated_at, accessed_at, auto_chunk, chunk_count)
               values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                kind, agent, session, iteration, content, title,
                '{"category": "go"}' if kind == "knowledge_base" else "{}",
                hashlib.sha256(content.encode()).hexdigest(), created, created, created, bool(chunks), len(chunks),
            ),
        )  # fmt: skip
        for index, (path, text) in enumerate(chunks):
            connection.execute(
                """insert into memory_chunks (parent_id, parent_title, chunk_index, content, header_path, level,
                       token_count, content_hash, created_at, original_content, is_contextually_enriched)
                   values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)""",
                (
                    number, title, index, f"Document: {title}\n\n{text}", path, path.count("#"), len(text) // 4,
                    hashlib.sha256(text.encode()).hexdigest(), created, text,
                ),
            )  # fmt: skip
            connection.execute(
                "insert into vec_chunk_search values (?, ?)", (connection.last_insert_rowid(), vector(source))
            )
    # The original server kept the vectors of deleted memories and did not reuse their ids.
    connection.execute("insert into vec_chunk_search values (?, ?)", (99, vector(source)))
    connection.execute("update sqlite_sequence set seq = 40 where name = 'session_memories'")
    connection.close()


if __name__ == "__main__":
    main()
