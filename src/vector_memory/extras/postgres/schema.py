"""The tables of a memory: those of one PostgreSQL schema, as `migrations` creates them.

Every connection has this schema first in its search path, so statements name tables only. Columns that are sorted or
compared as SQLite does have the collation "C".
"""

from vector_memory.domain.fields import REVISION, FieldType
from vector_memory.storage.queries.memories import DECLARED, declarations_of

VERSION = 22 + REVISION
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

# The category, the report that an observation is about (as JSON) and the project's folder are copied from the metadata.
OTHERS = {
    "content": ["content_length integer not null", "content_bytes integer not null"],
    "metadata": ['category text collate "C"', 'about_report text collate "C"', 'project text collate "C"'],
    "chunk_count": ["embedding_model_id integer references embedding_models(id)"],
}
"""The columns that not every engine has, by the column that they follow."""


MEMORIES = """
create table session_memories (
    id bigint primary key,
    {columns}
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
""".replace(DECLARED, declarations_of(TYPES, OTHERS))

# Only for memories that expire, were superseded or are pinned.
LIFECYCLES = """
create table memory_lifecycle (
    memory_id bigint primary key references session_memories(id) on delete cascade,
    expires_at text collate "C",
    superseded_at text collate "C",
    superseded_until text collate "C",
    pinned boolean not null default false
);
create index idx_expires_at on memory_lifecycle(expires_at) where expires_at is not null;
create index idx_pinned on memory_lifecycle(memory_id) where pinned;
create index idx_superseded_at on memory_lifecycle(superseded_at) where superseded_at is not null;

create table supersessions (
    older_id bigint not null references session_memories(id) on delete cascade,
    newer_id bigint not null references session_memories(id) on delete cascade,
    primary key (older_id, newer_id)
);
create index idx_superseding on supersessions(newer_id);
"""

CHUNKS = """
create table memory_chunks (
    id bigint primary key,
    parent_id bigint not null references session_memories(id) on delete cascade,
    chunk_index integer not null,
    content text collate "C" not null,
    chunk_type text not null,
    start_char integer not null,
    end_char integer not null,
    token_count integer not null,
    section_hierarchy text not null,
    level integer not null,
    contains_code boolean not null,
    contains_table boolean not null,
    is_oversized boolean not null,
    is_contextually_enriched boolean not null,
    unique (parent_id, chunk_index)
);
"""

EMBEDDING_MODELS = """
create table embedding_models (
    id integer primary key,
    model text not null,
    dimensions integer not null,
    precision text not null,
    engine text not null,
    is_current boolean not null,
    unique (model, dimensions, precision, engine)
);
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

# Blobs of postings as in the SQLite engine: a term is a hash. They change with every store, so they are not compressed.
# `rules`: those by which the terms of a block were made.
KEYWORDS = """
create table keyword_blocks (
    id bigint primary key generated always as identity,
    kind text collate "C" not null,
    units integer not null,
    rules integer not null,
    memory_ids bytea not null,
    sizes bytea not null,
    unit_ids bytea not null,
    lengths bytea not null
);
create index idx_keyword_block_kind on keyword_blocks(kind, id);
create index idx_keyword_block_rules on keyword_blocks(rules);

create table keyword_memories (
    memory_id bigint primary key references session_memories(id),
    block_id bigint not null references keyword_blocks(id)
);
create index idx_keyword_memory_block on keyword_memories(block_id);

create table keyword_postings (
    id bigint primary key,
    postings bytea not null
) with (fillfactor = 70);
alter table keyword_postings alter column postings set storage external;
"""

LATER_LINKS = """
create table later_links (
    older_id bigint not null references session_memories(id) on delete cascade,
    newer_id bigint not null references session_memories(id) on delete cascade,
    evidence double precision not null,
    primary key (older_id, newer_id)
);
create index idx_later_newer on later_links(newer_id);
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

PENDING_VECTORS = """
create table pending_vectors (
    memory_id bigint primary key references session_memories(id) on delete cascade,
    owner text not null,
    leased_until double precision not null,
    attempts integer not null default 0,
    promised_at double precision not null default 0
);

create table upkeep (
    id smallint primary key check (id = 1),
    owner text not null,
    leased_until double precision not null
);
insert into upkeep values (1, '', 0);
"""

# One row: a random name of this memory, and up to which id it was copied from which other one.
PROVENANCE = """
create table provenance (
    id smallint primary key check (id = 1),
    memory text not null,
    source text,
    last_copied bigint not null default 0
);
"""

# Keyed hashes of deleted memories, and their random keys.
TRACES = """
create table trace_keys (
    key bytea primary key
);

create table traces (
    digest bytea not null,
    created_at text collate "C" not null,
    deleted_at text collate "C" not null,
    primary key (digest, created_at)
);
"""

CANONICAL_TAGS = """
create table canonical_tags (
    id bigint primary key generated always as identity,
    tag text collate "C" not null unique,
    embedding bytea,
    model_id integer,
    frequency integer not null default 0,
    created_at text not null
);
"""

TABLES = (
    NAMESPACE,
    EMBEDDING_MODELS,
    MEMORIES,
    LIFECYCLES,
    CHUNKS,
    PASSAGES,
    KEYWORDS,
    LATER_LINKS,
    PENDING_VECTORS,
    PROVENANCE,
    TRACES,
    CANONICAL_TAGS,
    GENERATIONS,
)
"""In the order of their creation."""

SIZE = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint as bytes
from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relkind = 'r'
"""
"""Of all tables of a schema, with their indexes."""
