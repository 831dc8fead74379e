"""The tables, as created by the migrations. docs/schema.md is generated from a file that these create."""

VECTOR_TABLES = ("vec_chunk_search", "vec_session_search")
"""For passages of chunks, and for passages of memories that are not chunked."""

PARTITION_ROWS = 32
"""Vectors per block of a vec0 table. Each session has its own blocks; small blocks waste less on small sessions."""

TABLES = """
create table session_memories (
    id integer primary key autoincrement,
    memory_type text not null,
    agent_id text not null,
    session_id text,
    session_iter integer not null default 1,
    task_code text,
    content text not null,
    original_content text,
    title text,
    description text,
    tags text not null default '[]',
    metadata text not null default '{}',
    content_hash text not null,
    embedding blob,
    created_at text not null,
    updated_at text not null,
    accessed_at text not null,
    access_count integer not null default 0,
    auto_chunk integer not null default 0,
    chunk_count integer not null default 0,
    embedding_model_id integer references embedding_models(id)
);

create table memory_chunks (
    id integer primary key autoincrement,
    parent_id integer not null references session_memories(id) on delete cascade,
    parent_title text,
    chunk_index integer not null,
    content text not null,
    chunk_type text not null default 'text',
    start_char integer not null,
    end_char integer not null,
    token_count integer not null,
    header_path text not null default '',
    level integer not null default 0,
    prev_chunk_id integer,
    next_chunk_id integer,
    content_hash text not null,
    embedding blob,
    created_at text not null,
    section_hierarchy text not null default '[]',
    granularity_level text not null default 'fine',
    chunk_position_ratio real not null default 0,
    sibling_count integer not null default 1,
    depth_level integer not null default 0,
    contains_code integer not null default 0,
    contains_table integer not null default 0,
    keywords text not null default '[]',
    original_content text,
    is_contextually_enriched integer not null default 0,
    is_oversized integer not null default 0,
    unique (parent_id, chunk_index)
);
"""

# Everything that can be rebuilt from the text.
INDEX_TABLES = """
create table embedding_models (
    id integer primary key,
    model text not null,
    dimensions integer not null,
    precision text not null,
    engine text not null,
    unique (model, dimensions, precision, engine)
);

create table memory_passages (
    id integer primary key autoincrement,
    memory_id integer not null references session_memories(id) on delete cascade,
    chunk_id integer references memory_chunks(id) on delete cascade,
    start_char integer not null,
    end_char integer not null
);

create table index_keys (
    id integer primary key,
    name text not null unique
);

create view unchunked_memories as
    select id, content from session_memories where auto_chunk = 0;

create virtual table fts_chunk_search using fts5(
    content, content='memory_chunks', content_rowid='id', tokenize='porter unicode61'
);
create virtual table fts_session_search using fts5(
    content, content='unchunked_memories', content_rowid='id', tokenize='porter unicode61'
);
insert into fts_chunk_search(fts_chunk_search, rank) values ('secure-delete', 1);
insert into fts_session_search(fts_session_search, rank) values ('secure-delete', 1);
"""

VECTOR_TABLE = """
create virtual table {table} using vec0(
    passage_id integer primary key,
    session_key integer partition key,
    kind_key integer,
    agent_key integer,
    session_iter integer,
    task_key integer,
    embedding float[{dimensions}],
    chunk_size={rows}
)
"""

INDEXES = """
create index idx_agent_session on session_memories(agent_id, session_id);
create index idx_agent_session_iter on session_memories(agent_id, session_id, session_iter);
create index idx_agent_session_task on session_memories(agent_id, session_id, task_code);
create index idx_session on session_memories(session_id, memory_type, session_iter, created_at);
create index idx_memory_type on session_memories(memory_type);
create index idx_created_at on session_memories(created_at);
create index idx_task_code on session_memories(task_code);
create index idx_session_iter on session_memories(session_iter);
create index idx_content_hash on session_memories(content_hash);
create index idx_embedding_model on session_memories(embedding_model_id);
create index idx_chunk_parent on memory_chunks(parent_id);
create index idx_passage_memory on memory_passages(memory_id);
create index idx_passage_chunk on memory_passages(chunk_id);
"""

# Virtual tables do not support foreign keys; these triggers update them in the same transaction as the text.
TRIGGERS = """
create trigger chunk_added after insert on memory_chunks begin
    insert into fts_chunk_search(rowid, content) values (new.id, new.content);
end;
create trigger chunk_removed after delete on memory_chunks begin
    insert into fts_chunk_search(fts_chunk_search, rowid, content) values ('delete', old.id, old.content);
end;
create trigger memory_added after insert on session_memories when new.auto_chunk = 0 begin
    insert into fts_session_search(rowid, content) values (new.id, new.content);
end;
create trigger memory_removed after delete on session_memories when old.auto_chunk = 0 begin
    insert into fts_session_search(fts_session_search, rowid, content) values ('delete', old.id, old.content);
end;
create trigger names_removed after delete on session_memories begin
    delete from index_keys where name in (old.session_id, old.agent_id, old.task_code)
        and not exists (select 1 from session_memories where session_id = name)
        and not exists (select 1 from session_memories where agent_id = name)
        and not exists (select 1 from session_memories where task_code = name)
        and not exists (select 1 from session_memories where memory_type = name);
end;
create trigger chunk_passage_removed after delete on memory_passages when old.chunk_id is not null begin
    delete from vec_chunk_search where passage_id = old.id;
end;
create trigger memory_passage_removed after delete on memory_passages when old.chunk_id is null begin
    delete from vec_session_search where passage_id = old.id;
end;
"""

# A memory cannot be deleted before it is removed from the keyword index.
KEYWORDS = """
drop trigger chunk_added;
drop trigger chunk_removed;
drop trigger memory_added;
drop trigger memory_removed;
drop table fts_chunk_search;
drop table fts_session_search;
drop view unchunked_memories;

create table keyword_blocks (
    id integer primary key,
    session_id text,
    pieces integer not null
);

create table keyword_memories (
    memory_id integer primary key references session_memories(id),
    block_id integer not null references keyword_blocks(id),
    first_piece integer not null,
    lengths blob not null
);

create table keyword_postings (
    id integer primary key,
    postings blob not null
);

create index idx_keyword_block_session on keyword_blocks(session_id);
create index idx_keyword_memory_block on keyword_memories(block_id);

create trigger keyword_block_removed after delete on keyword_blocks begin
    delete from keyword_postings where id >= old.id * 256 and id < (old.id + 1) * 256;
end;
"""

# Find the newest memories of a scope without reading and sorting all of them: times are stored after the text, which
# can be many pages long.
NEWEST = """
create index idx_kind_newest on session_memories(memory_type, session_iter, created_at);
create index idx_agent_newest on session_memories(agent_id, memory_type, session_iter, created_at);
create index idx_task_newest on session_memories(task_code, memory_type, session_iter, created_at);
"""

# The vocabulary of the tagged memories. Deleting a memory does not lower a frequency.
CANONICAL_TAGS = """
create table canonical_tags (
    id integer primary key,
    tag text not null unique,
    embedding blob,
    frequency integer not null default 0,
    created_at text not null
);
"""

ABOUT_REPORT = "case when json_valid(metadata) then metadata ->> '$.parent_report_id' end"
"""The report that an observation is about. Queries must use this very expression, or SQLite ignores the index."""

OBSERVATIONS = f"""
create index idx_observed_report on session_memories({ABOUT_REPORT}) where memory_type = 'report_observation';
"""

WRITERS_FUNCTION = "vector_memory_schema"
"""An SQL function of each connection of this release: it returns the newest schema version that it knows."""

# Releases before this one do not check the version when they write. They lack the function, so SQLite refuses to
# prepare statements that add, index or delete a memory. Counting reads still works.
REJECT_OLD_WRITERS = "".join(
    f"""
create trigger only_knowing_writers_{event} before {change} on session_memories when {WRITERS_FUNCTION}() < 5 begin
    select raise(abort, 'written by an earlier release');
end;
"""
    for event, change in {
        "add": "insert",
        "index": "update of chunk_count, embedding_model_id",
        "delete": "delete",
    }.items()
)

# An upgrade by which units are found by other words does not index them: `storage.outdated` does, block by block.
OUTDATED_WORDS = """
create table outdated_words (
    block_id integer primary key references keyword_blocks(id) on delete cascade
);
"""

# Beside the passages rather than in them: they are much longer, and few searches read those of many passages.
STATES_OF_TOKENS = """
create table token_states (
    passage_id integer primary key references memory_passages(id) on delete cascade,
    states blob not null
);
"""

ERASURE = """
create trigger memory_deleted after delete on session_memories begin
    update erasure set deletes = deletes + 1;
end;
"""
