"""SQL for SQLite: its fragments, and its parameters."""

from functools import lru_cache
from typing import Any

from vector_memory.storage.connection import UNLIMITED_FRAGMENTS, Fragment, Parameters
from vector_memory.storage.damaged import as_json
from vector_memory.storage.sqlite.schema import ABOUT_REPORT

AMONG = Fragment("in (select value from json_each(%(?)s))")

DIALECT = UNLIMITED_FRAGMENTS | {
    "among": AMONG,
    "among_texts": AMONG,
    "each": Fragment("json_each(%(?)s) each"),
    "each_pair": Fragment("(select key number, value ->> 0 first, value ->> 1 second from json_each(%(?)s))"),
    "each_tag": Fragment("json_each(?.tags) tag"),
    "has_tag": Fragment(
        "exists (select 1 from json_each(m.tags) tag, json_each(%(?)s) wanted where tag.value = wanted.value)"
    ),
    "tags": Fragment("?.tags"),
    "category": Fragment("case json_type(?.metadata, '$.category') when 'text' then ?.metadata ->> '$.category' end"),
    "project": Fragment("?.metadata ->> '$.project'"),
    "about_report": Fragment(ABOUT_REPORT.replace("metadata", "?.metadata")),
    "corrects": Fragment("json_type(?.metadata, '$.corrects') = 'true'"),
    "characters": Fragment("length(?.content)"),
    "octets": Fragment("octet_length(?.content)"),
    "indexed_by": Fragment("indexed by ?"),
    "unindexed": Fragment("+?"),
    "json_array": Fragment("json_group_array(?)"),
    "listed": Fragment("json_group_array(?)"),
    "json_object": Fragment("json_group_object(?)"),
    "json_lists": Fragment("json_group_array(json_array(?))"),
    "position": "instr",
    "like": Fragment("? like %(containing)s escape '\\'"),
    "same_place": """
        json_extract(m.metadata, '$.parent_report_id') is json_extract(%(metadata)s, '$.parent_report_id')
        and (m.memory_type <> 'knowledge_base'
            or json_extract(m.metadata, '$.category') is json_extract(%(metadata)s, '$.category'))
        and json_extract(m.metadata, '$.root') is json_extract(%(metadata)s, '$.root')
    """,
    "copied_columns": "",
    "copied_values": "",
    "states": "s.states",
    "lacks_states": "s.states is null",
    "readable_states": "iif(typeof(s.states) = 'blob', s.states, null)",
    "with_states": "left join token_states s on s.passage_id = p.id",
    "bytes": Fragment("cast(? as blob)"),
    "appended": Fragment("cast(? || excluded.? as blob)"),
    "followed": Fragment("cast(? || %(?)s as blob)"),
    "joined": Fragment("cast(coalesce(group_concat(?, ''), '') as blob)"),
    "no_bytes": "x''",
    "now": "unixepoch('subsec')",
    "utc": "%(utc)s",
    "size": "(select page_count * page_size from pragma_page_count(), pragma_page_size())",
}
"""What `storage.connection` calls fragments."""


class Names:
    """What Python's `%` operator puts in the place of a parameter: its name as SQLite writes it."""

    def __getitem__(self, name: str) -> str:
        """Return the parameter."""
        return f":{name}"


@lru_cache(maxsize=1_024)
def as_sqlite(sql: str) -> str:
    """Return a statement as SQLite reads it."""
    return sql.format_map(DIALECT) % Names()


def bound(parameters: Parameters) -> dict[str, Any]:
    """Return parameters as SQLite takes them: a list is a text of JSON."""
    return {name: as_json(value) if isinstance(value, list) else value for name, value in parameters.items()}
