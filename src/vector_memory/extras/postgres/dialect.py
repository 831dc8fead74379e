"""SQL for PostgreSQL: its fragments."""

import re
from functools import lru_cache

from vector_memory.extras.postgres.schema import TABLES
from vector_memory.storage.connection import UNLIMITED_FRAGMENTS, Fragment

DIALECT = UNLIMITED_FRAGMENTS | {
    "among": Fragment("= any(%(?)s)"),
    "among_texts": Fragment("= any(%(?)s::text[])"),
    "each": Fragment("unnest(%(?)s::bigint[]) each(value)"),
    "each_pair": Fragment(
        "(select n as number, (%(?)s::bigint[])[n][1] as first, (%(?)s::bigint[])[n][2] as second"
        " from generate_subscripts(%(?)s::bigint[], 1) n)"
    ),
    "each_tag": Fragment("unnest(?.tags) tag(value)"),
    "has_tag": Fragment("m.tags && %(?)s::text[]"),
    "tags": Fragment("array_to_json(?.tags)::text"),
    "category": Fragment("?.category"),
    "project": Fragment("?.project"),
    "about_report": Fragment("?.about_report"),
    "corrects": Fragment("""position('"corrects": true' in ?.metadata) > 0"""),
    "characters": Fragment("?.content_length"),
    "octets": Fragment("?.content_bytes"),
    "indexed_by": Fragment(""),
    "unindexed": Fragment("?"),
    "json_array": Fragment("json_agg(?)::text"),
    "listed": Fragment("json_agg(? order by id)::text"),
    "json_object": Fragment("json_object_agg(?)::text"),
    "json_lists": Fragment("coalesce(json_agg(json_build_array(?)), '[]')::text"),
    "position": "strpos",
    "like": Fragment("lower(?) like %(containing)s"),
    "same_place": """
        m.about_report is not distinct from %(about_report)s
        and (m.memory_type <> 'knowledge_base' or m.category is not distinct from %(category)s)
        and case when %(root)s::text is null then position('"root": ' in m.metadata) = 0
            else position(%(root)s in m.metadata) > 0 end
    """,
    "copied_columns": ", content_length, content_bytes, category, about_report, project",
    "copied_values": ", %(content_length)s, %(content_bytes)s, %(category)s, %(about_report)s, %(project)s",
    "states": "p.states",
    "lacks_states": "(p.states is null or mod(length(p.states), (vector_dims(p.embedding) + 7) / 8) <> 0)",
    "readable_states": "p.states",
    "with_states": "",
    "bytes": Fragment("?"),
    "appended": Fragment("keyword_postings.? || excluded.?"),
    "followed": Fragment("? || %(?)s"),
    "joined": Fragment("coalesce(string_agg(?, ''::bytea order by id), ''::bytea)"),
    "no_bytes": "''::bytea",
    "now": "extract(epoch from statement_timestamp())::float8",
    "utc": """(to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') collate "C")""",
    "size": """(
        select sum(pg_total_relation_size(c.oid))::bigint from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = current_schema() and c.relkind = 'r'
    )""",
}
"""What `storage.connection` calls fragments."""

COLUMNS: dict[str, dict[str, str]] = {
    table: dict(re.findall(r"^ +(?!primary|unique)(\w+) (double precision|\w+)", columns, re.MULTILINE))
    for table, columns in re.findall(r"^create table (\w+) \((.*?)^\)", "".join(TABLES), re.MULTILINE | re.DOTALL)
}
"""The types of the columns of each table."""


@lru_cache(maxsize=1_024)
def as_postgres(sql: str) -> str:
    """Return a statement as psycopg reads it."""
    return sql.format_map(DIALECT)


@lru_cache
def insert_into(table: str, names: tuple[str, ...], on_conflict: str) -> str:
    """Return the statement that inserts rows into a table, of which each column is an array."""
    columns = {name: COLUMNS[table][name] for name in names}
    arrays = ", ".join(f"%({name}){'b' if kind == 'bytea' else 's'}::{kind}[]" for name, kind in columns.items())
    return as_postgres(
        f"insert into {table} ({', '.join(names)}) overriding system value select * from unnest({arrays}) {on_conflict}"
    )
