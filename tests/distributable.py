"""Which statements a PostgreSQL server takes whose tables are spread over several, as Citus does.

`alter column ... set storage` is not among them. Tables are altered so where they are created, before they can be
spread: PostgreSQL 15 has no other way.
"""

import re

VOLATILE = re.compile(r"\b(clock_timestamp|timeofday|random|nextval|gen_random_uuid)\s*\(")
CHANGES = re.compile(r"\b(update|delete from|insert into)\b")
TEXT = re.compile(r"'(?:[^']|'')*'")
TABLES = re.compile(r"\b(session_|memory_|keyword_|pending_|canonical_|embedding_|namespace\b|generations\b)")
EMPTY_LIST = re.compile(r"\bselect\s+(from|where|order|limit|\)|$)")


def problem_of(statement: str) -> str | None:
    """Return why such a server would refuse a statement, or None."""
    sql = " ".join(TEXT.sub("''", statement).lower().split())
    if ";" in sql.rstrip("; ") and TABLES.search(sql):
        return "several commands in one text"
    if EMPTY_LIST.search(sql):
        return "an empty select list"
    if CHANGES.search(sql) and VOLATILE.search(sql):
        return "a volatile function in a change"
    if "nextval(" in sql and TABLES.search(sql):
        return "nextval in a query over tables"
    return None
