"""The tables that every engine has. Their types are fragments, `{id}`, which each engine fills in by its `TYPES`."""

from collections.abc import Mapping, Sequence

from vector_memory.domain.fields import MEMORY_COLUMNS, FieldType


def columns_of_memories(
    types: Mapping[FieldType, str], others: Mapping[str, Sequence[str]], *, with_defaults: bool = False
) -> str:
    """Return the declarations of the columns of memories, except the id.

    `others`: columns that not every engine has, by the column that they follow.
    """
    declarations = []
    for one in MEMORY_COLUMNS:
        default = "" if one.default is None or not with_defaults else f" default {one.default!r}"
        declaration = f"{one.name} {types[one.values]}{' not null' if one.required else ''}{default}"
        declarations += [declaration, *others.get(one.name, ())]
    return ",\n    ".join(declarations)


MODELS = """
create table embedding_models (
    id integer primary key,
    model text not null,
    dimensions integer not null,
    precision text not null,
    engine text not null,
    is_current {switch} not null,
    unique (model, dimensions, precision, engine)
){options};
"""

CHUNKS = """
create table memory_chunks (
    id {own},
    parent_id {id} not null references session_memories(id) on delete cascade,
    chunk_index integer not null,
    content {text} not null,
    chunk_type text not null,
    start_char integer not null,
    end_char integer not null,
    token_count integer not null,
    section_hierarchy text not null,
    level integer not null,
    contains_code {switch} not null,
    contains_table {switch} not null,
    is_oversized {switch} not null,
    is_contextually_enriched {switch} not null,
    unique (parent_id, chunk_index)
){options};
"""

# `memory_lifecycle` is only for memories that expire, were superseded, are pinned or held.
# `given_at` is an id that no memory has, taken when a person released one: cursors before it return it again.
# `provenance` has one row: a random name of this memory, and up to which id it was copied from which other one.
# `traces` has keyed hashes of deleted memories. `file_evidence` has lines of files, without their text. Deleting a
# memory does not lower the frequency of a tag. `recalls` has a row for each memory of a recap or recall; `tokens` are
# those of the whole text. A session is a hash, so that its name can be deleted.
KEPT = """
create table memory_lifecycle (
    memory_id {id} primary key references session_memories(id) on delete cascade,
    expires_at {text},
    superseded_at {text},
    superseded_until {text},
    pinned {switch} not null default {off},
    held text,
    held_at {text},
    held_for {text},
    held_until {text},
    given_at {id}
){options};
create index idx_held on memory_lifecycle(memory_id) where held is not null;
create index idx_expires_at on memory_lifecycle(expires_at) where expires_at is not null;
create index idx_given_at on memory_lifecycle(given_at) where given_at is not null;
create index idx_held_until on memory_lifecycle(held_until) where held_until is not null;
create index idx_pinned on memory_lifecycle(memory_id) where pinned;
create index idx_superseded_at on memory_lifecycle(superseded_at) where superseded_at is not null;

create table supersessions (
    older_id {id} not null references session_memories(id) on delete cascade,
    newer_id {id} not null references session_memories(id) on delete cascade,
    primary key (older_id, newer_id)
){keyed};
create index idx_superseding on supersessions(newer_id);

create table file_evidence (
    memory_id {id} not null references session_memories(id) on delete cascade,
    place {id} not null,
    path {text} not null,
    first_line {id},
    last_line {id},
    at_commit {text},
    project {text},
    lines_hash {text},
    lines_sum {id},
    file_hash {text},
    file_size {id},
    file_mtime {id},
    primary key (memory_id, place)
){keyed};

create table provenance (
    id {single} primary key check (id = 1),
    memory text not null,
    source text,
    last_copied {id} not null default 0
){options};

create table recalls (
    memory_id {id} not null references session_memories(id) on delete cascade,
    session {id} not null,
    told_at {text} not null,
    client {text} not null,
    is_recap {switch} not null,
    tokens integer not null,
    is_used {switch} not null default {off},
    primary key (memory_id, session, told_at)
){keyed};

create table trace_keys (
    key {bytes} primary key
){keyed};

create table traces (
    digest {bytes} not null,
    created_at {text} not null,
    deleted_at {text} not null,
    primary key (digest, created_at)
){keyed};

create table canonical_tags (
    id {serial},
    tag {text} not null unique,
    embedding {bytes},
    model_id integer,
    frequency integer not null default 0,
    created_at text not null
){options};
"""
"""What cannot be derived."""

# Blobs of postings (`storage.postings`): a term is a hash. `rules`: those by which the terms of a block were made. A
# memory cannot be deleted before it is removed from the keyword index.
DERIVED = """
create table keyword_blocks (
    id {serial},
    kind {text} not null,
    units integer not null,
    rules integer not null,
    memory_ids {bytes} not null,
    sizes {bytes} not null,
    unit_ids {bytes} not null,
    lengths {bytes} not null
){options};
create index idx_keyword_block_rules on keyword_blocks(rules);

create table keyword_memories (
    memory_id {id} primary key references session_memories(id),
    block_id {id} not null references keyword_blocks(id)
){options};
create index idx_keyword_memory_block on keyword_memories(block_id);

create table keyword_postings (
    id {id} primary key,
    postings {bytes} not null
){rewritten};

create table later_links (
    older_id {id} not null references session_memories(id) on delete cascade,
    newer_id {id} not null references session_memories(id) on delete cascade,
    evidence {real} not null,
    primary key (older_id, newer_id)
){keyed};
create index idx_later_newer on later_links(newer_id);
"""

# How processes coordinate: which vectors are being computed, and which process works on all memories.
STATE = """
create table pending_vectors (
    memory_id {id} primary key references session_memories(id) on delete cascade,
    owner text not null,
    leased_until {real} not null,
    attempts integer not null default 0,
    promised_at {real} not null default 0
){options};

create table upkeep (
    id {single} primary key check (id = 1),
    owner text not null,
    leased_until {real} not null
){options};
insert into upkeep values (1, '', 0);
"""
