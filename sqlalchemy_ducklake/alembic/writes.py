"""Which statements write the rows of a table."""

from __future__ import annotations

import re
from typing import Any

import duckdb
from sqlalchemy import Delete, TextClause
from sqlalchemy.sql.dml import UpdateBase

_Kind = duckdb.StatementType
_WRITING = frozenset({_Kind.INSERT, _Kind.UPDATE, _Kind.MERGE_INTO, _Kind.COPY})
_word = re.compile(r"\w+")


def writes(construct: Any, schema: str, name: str, default_schema: str) -> bool:
    """Tell whether a statement inserts into a table, or updates it.

    Of a text it is enough that it writes something and names the table somewhere.
    """
    if isinstance(construct, UpdateBase) and not isinstance(construct, Delete):
        table: Any = getattr(construct, "table", None)
        place = getattr(table, "schema", None) or default_schema, getattr(table, "name", None)
        return place == (schema, name)
    if not isinstance(construct, str | TextClause):
        return False
    return any(
        statement.type in _WRITING and _names(statement.query, name)
        for statement in duckdb.extract_statements(str(construct))
    )


def _names(query: str, name: str) -> bool:
    words = [word.lower() for word in _word.findall(name)]
    there = [word.lower() for word in _word.findall(query)]
    return any(there[at : at + len(words)] == words for at in range(len(there)))
