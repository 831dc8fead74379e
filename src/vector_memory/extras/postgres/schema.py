"""The tables of a memory: those of one PostgreSQL schema, as `migrations` creates them.

Every connection has this schema first in its search path, so statements name tables only. Columns that are sorted or
compared as SQLite does have the collation "C".
"""

from vector_memory.domain.fields import REVISION, FieldType
from vector_memory.storage.queries import tables

VERSION = 23 + REVISION
"""The version of these tables. Until the first release, schemas of all other versions are refused."""

# One row. Every writer locks it first, and gets its ids from it: so ids ascend in the order of commits.
NAMESPACE = """
create table namespace (
    id smallint primary key check (id = 1),
    schema_version integer not null,
    revision bigint not null default 0,
    last_memory_id bigint not null default 0,
    last_chunk_id bigint not null default 0,
    last_passage_id bigint not null default 0,
    dimensions integer not null
) with (fillfactor = 10);
"""

TYPES = dict.fromkeys(FieldType, "integer") | {
    FieldType.TEXT: 'text collate "C"',
    FieldType.TIME: 'text collate "C"',
    FieldType.LABELS: 'text[] collate "C"',
    FieldType.OBJECT: "text",
    FieldType.SWITCH: "boolean",
    FieldType.ID: "bigint",
}

SHARED = {
    "id": "bigint",
    "own": "bigint primary key",
    "serial": "bigint primary key generated always as identity",
    "single": "smallint",
    "switch": "boolean",
    "off": "false",
    "text": 'text collate "C"',
    "texts": "text[]",
    "bytes": "bytea",
    "real": "double precision",
    "options": "",
    "keyed": "",
    "rewritten": " with (fillfactor = 70)",
}
"""The types of the tables that every engine has."""

# The category, the report that an observation is about (as JSON) and the project's folder are copied from the metadata.
OTHERS = {
    "content": ["content_length integer not null", "content_bytes integer not null"],
    "metadata": ['category text collate "C"', 'about_report text collate "C"', 'project text collate "C"'],
    "chunk_count": ["embedding_model_id integer references embedding_models(id)"],
}
"""The columns that not every engine has, by the column that they follow."""


MEMORIES = f"""
create table session_memories (
    id bigint primary key,
    {tables.columns_of_memories(TYPES, OTHERS)}
) with (fillfactor = 90);
create index idx_session on session_memories(session_id, memory_type, session_iter, turn, created_at, id);
create index idx_agent on session_memories(agent_id, memory_type, session_iter, turn, created_at, id);
create index idx_task on session_memories(task_code, memory_type, session_iter, turn, created_at, id);
create index idx_kind on session_memories(memory_type, session_iter, turn, created_at, id);
create index idx_turn on session_memories(turn, created_at, id);
create index idx_created_at on session_memories(created_at, id);
create index idx_content on session_memories(content_hash, session_id);
create index idx_tags on session_memories using gin (tags);
create index idx_observed_report on session_memories(about_report) where memory_type = 'report_observation';
create index idx_without_vectors on session_memories(id) where embedding_model_id is null;
"""

# The filter columns are copied from the memory, so that a scan of a scope reads no other table. The type of the vectors
# does not have their length: while the model is changed, there are vectors of two. The states of tokens are always
# outside the rows, so that those of a scope stay on few pages. As bits, they cannot be compressed.
PASSAGES = """
create table memory_passages (
    id bigint primary key,
    model_id integer not null references embedding_models(id),
    memory_id bigint not null references session_memories(id) on delete cascade,
    chunk_id bigint references memory_chunks(id) on delete cascade,
    start_char integer not null,
    end_char integer not null,
    memory_type text collate "C" not null,
    agent_id text collate "C" not null,
    session_id text collate "C",
    session_iter integer not null,
    task_code text collate "C",
    embedding vector not null,
    states bytea
) with (toast_tuple_target = 128);
alter table memory_passages alter column embedding set storage plain;
alter table memory_passages alter column states set storage external;
create index idx_passage_memory on memory_passages(memory_id);
create index idx_passage_chunk on memory_passages(chunk_id);
create index idx_passage_session on memory_passages(session_id, memory_type);
create index idx_passage_agent on memory_passages(agent_id, memory_type);
create index idx_passage_task on memory_passages(task_code, memory_type);
"""

# Postings change with every store, so they are not compressed.
KEYWORDS = """
create index idx_keyword_block_kind on keyword_blocks(kind, id);
alter table keyword_postings alter column postings set storage external;
"""

# Memories with ids above `last_kept_id` and below `first_id` were stored on another server, and are lost.
GENERATIONS = """
create table generations (
    number integer primary key,
    system_id bigint not null,
    timeline integer not null,
    table_id bigint not null,
    began_at timestamp not null default timezone('utc', statement_timestamp()),
    last_kept_id bigint not null default 0,
    first_id bigint not null default 1
);
"""

TABLES = (
    NAMESPACE,
    tables.MODELS.format_map(SHARED),
    MEMORIES,
    (tables.CHUNKS + tables.KEPT).format_map(SHARED),
    PASSAGES,
    (tables.DERIVED + tables.STATE).format_map(SHARED),
    KEYWORDS,
    GENERATIONS,
)
"""In the order of their creation."""

SIZE = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint as bytes
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relkind = 'r'
"""
"""Of all tables of a schema, with their indexes."""
