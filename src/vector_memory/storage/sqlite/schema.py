"""The tables of a file. docs/schema.md is generated from one that these create."""

from functools import cache
from typing import NamedTuple

from vector_memory.domain.fields import FieldType
from vector_memory.storage.queries import tables
from vector_memory.storage.queries.passages import FIRST_MODEL

VECTOR_TABLES = ("vec_chunk_search", "vec_session_search")
"""For passages of chunks, and for passages of memories that are not chunked."""

SIGNATURE_TABLE = "vec_signatures"
"""For the signatures of all passages (`vec0`), one partition for each kind of memory."""

VEC0_TABLES = (*VECTOR_TABLES, SIGNATURE_TABLE)
"""All tables of sqlite-vec."""

PARTITION_ROWS = 16
"""Vectors per block of a vec0 table. Each session has its own blocks; small blocks waste less on small sessions, and a
single vector is found sooner in them: SQLite follows a chain of pages from their beginning."""

SIGNATURES_PER_BLOCK = 1_024
SIGNATURE_BITS = 64
"""The length of a signature is a multiple of these."""

TYPES = dict.fromkeys(FieldType, "integer") | dict.fromkeys(
    (FieldType.TEXT, FieldType.TIME, FieldType.LABELS, FieldType.OBJECT), "text"
)

SHARED = {
    "id": "integer",
    "own": "integer primary key autoincrement",
    "serial": "integer primary key",
    "single": "integer",
    "switch": "integer",
    "off": "0",
    "text": "text",
    "texts": "text",
    "bytes": "blob",
    "real": "real",
    "options": " strict",
    "keyed": " strict, without rowid",
    "rewritten": " strict",
}
"""The types of the tables that every engine has."""

ONLY_HERE = {"chunk_count": ["embedding_model_id integer references embedding_models(id)"]}
"""The columns that not every engine has, by the column that they follow."""


TEXT_TABLES = f"""
create table session_memories (
    id integer primary key autoincrement,
    {tables.columns_of_memories(TYPES, ONLY_HERE, with_defaults=True)}
) strict;
{(tables.CHUNKS + tables.KEPT).format_map(SHARED)}
insert into provenance (id, memory) values (1, lower(hex(randomblob(16))));
"""
"""Tables that cannot be derived."""

# Everything that can be rebuilt from the text. Each model has tables of sqlite-vec of its own (`tables_of`). The states
# of tokens are beside the passages rather than in them: they are much longer, and few searches read those of many
# passages.
INDEX_TABLES = f"""
{(tables.MODELS + tables.DERIVED).format_map(SHARED)}
create table memory_passages (
    id integer primary key autoincrement,
    model_id integer not null references embedding_models(id),
    memory_id integer not null references session_memories(id) on delete cascade,
    chunk_id integer references memory_chunks(id) on delete cascade,
    start_char integer not null,
    end_char integer not null
) strict;

create table index_keys (
    id integer primary key,
    name text not null unique
) strict;

create table token_states (
    passage_id integer primary key references memory_passages(id) on delete cascade,
    states blob not null
) strict;
"""

STATE_TABLES = f"""
{tables.STATE.format_map(SHARED)}
create table erasure (
    id integer primary key check (id = 1),
    deletes integer not null,
    erased integer not null
) strict;
insert into erasure values (1, 0, 0);
"""

VECTOR_TABLE = """
create virtual table {table} using vec0(
    passage_id integer primary key,
    session_key integer partition key,
    embedding float[{dimensions}],
    chunk_size={rows}
)
"""

SIGNATURES = """
create virtual table {table} using vec0(
    passage_id integer primary key,
    kind_key integer partition key,
    unit_id integer,
    signature bit[{bits}],
    chunk_size={rows}
)
"""

ABOUT_REPORT = "case when json_valid(metadata) then metadata ->> '$.parent_report_id' end"
"""The report that an observation is about. Queries must use this very expression, or SQLite ignores the index."""

# The newest memories of a scope are found without reading and sorting all of them: times are stored after the text,
# which can be many pages long.
INDEXES = f"""
create index idx_agent_session on session_memories(agent_id, session_id);
create index idx_agent_session_iter on session_memories(agent_id, session_id, session_iter);
create index idx_agent_session_task on session_memories(agent_id, session_id, task_code);
create index idx_session on session_memories(session_id, memory_type, session_iter, turn, created_at, agent_id);
create index idx_turn on session_memories(turn, created_at);
create index idx_memory_type on session_memories(memory_type);
create index idx_created_at on session_memories(created_at, agent_id);
create index idx_task_code on session_memories(task_code);
create index idx_session_iter on session_memories(session_iter);
create index idx_content_hash on session_memories(content_hash);
create index idx_embedding_model on session_memories(embedding_model_id);
create index idx_chunk_parent on memory_chunks(parent_id);
create index idx_passage_memory on memory_passages(memory_id);
create index idx_passage_chunk on memory_passages(chunk_id);
create index idx_kind_newest on session_memories(memory_type, session_iter, turn, created_at);
create index idx_agent_newest on session_memories(agent_id, memory_type, session_iter, turn, created_at);
create index idx_task_newest on session_memories(task_code, memory_type, session_iter, turn, created_at);
create index idx_observed_report on session_memories({ABOUT_REPORT}) where memory_type = 'report_observation';
create index idx_keyword_block_kind on keyword_blocks(kind);
"""

# Virtual tables do not support foreign keys; triggers update them in the same transaction as the text.
VECTOR_TRIGGER = """
create trigger removed_from_{table} after delete on memory_passages when old.model_id = {model_id}{condition} begin
    delete from {table} where passage_id = old.id;
end
"""
CONDITIONS = (" and old.chunk_id is not null", " and old.chunk_id is null", "")

TRIGGERS = """
create trigger names_removed after delete on session_memories begin
    delete from index_keys where name = old.session_id
        and not exists (select 1 from session_memories where session_id = name)
        and not exists (select 1 from session_memories where memory_type = name);
end;
create trigger keyword_block_removed after delete on keyword_blocks begin
    delete from keyword_postings where id >= old.id * 256 and id < (old.id + 1) * 256;
end;
create trigger memory_deleted after delete on session_memories begin
    update erasure set deletes = deletes + 1;
end;
"""


def bits_of_signature(dimensions: int) -> int:
    """Return the length of the signatures of vectors."""
    return -(-dimensions // SIGNATURE_BITS) * SIGNATURE_BITS


class ModelTables(NamedTuple):
    """The names of the tables of sqlite-vec that have the vectors of a model.

    `chunks`: for passages of chunks; `memories`: for passages of memories that are not chunked; `signatures`: for the
    signatures of all passages (`vec0`), one partition for each kind of memory.
    """

    chunks: str
    memories: str
    signatures: str


@cache
def tables_of(model_id: int) -> ModelTables:
    """Return the tables of a model. Those of a new file exist before its first model is known."""
    return ModelTables(*(table if model_id == FIRST_MODEL else f"{table}_{model_id}" for table in VEC0_TABLES))


def vector_tables(dimensions: int, model_id: int = FIRST_MODEL) -> dict[str, str]:
    """Return the statements that create the tables of sqlite-vec of a model, by their names."""
    *names, signatures = tables_of(model_id)
    vectors = {table: VECTOR_TABLE.format(table=table, dimensions=dimensions, rows=PARTITION_ROWS) for table in names}
    bits = bits_of_signature(dimensions)
    return vectors | {signatures: SIGNATURES.format(table=signatures, bits=bits, rows=SIGNATURES_PER_BLOCK)}


def vector_triggers(model_id: int = FIRST_MODEL) -> list[str]:
    """Return the statements that create the triggers which delete the vectors of a model."""
    return [
        VECTOR_TRIGGER.format(table=table, model_id=model_id, condition=condition)
        for table, condition in zip(tables_of(model_id), CONDITIONS, strict=True)
    ]


SCRIPTS = (TEXT_TABLES, INDEX_TABLES, STATE_TABLES, INDEXES, TRIGGERS)
"""Create everything but the vec0 tables, in this order."""
