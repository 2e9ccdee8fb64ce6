"""Which statements write the rows of a table."""

from __future__ import annotations

import re
from typing import Any

import duckdb
from sqlalchemy import Delete, Dialect, Insert, TextClause, Update
from sqlalchemy.sql.dml import UpdateBase

_Kind = duckdb.StatementType
_WRITING = frozenset({_Kind.INSERT, _Kind.UPDATE, _Kind.MERGE_INTO, _Kind.COPY})
_word = re.compile(r"\w+")


def writes(construct: Any, schema: str, name: str, default_schema: str) -> bool:
    """Tell whether a statement inserts into a table, or updates it.

    Of a text it is enough that it writes something and names the table somewhere; one with
    parameters in SQLAlchemy's form cannot be read, so it is enough that it names the table.
    """
    if isinstance(construct, UpdateBase) and not isinstance(construct, Delete):
        table: Any = getattr(construct, "table", None)
        place = getattr(table, "schema", None) or default_schema, getattr(table, "name", None)
        return place == (schema, name)
    if not isinstance(construct, str | TextClause):
        return False
    statements = statements_of(str(construct))
    if statements is None:
        return _names(str(construct), name)
    return any(one.type in _WRITING and _names(one.query, name) for one in statements)


def names_in(construct: Any, dialect: Dialect) -> frozenset[str]:
    """Return the words of a statement, in lower case, that may name what it searches by.

    An UPDATE without WHERE and an INSERT into a table without keys search for nothing.
    """
    table: Any = getattr(construct, "table", None)
    searches = getattr(construct, "whereclause", None) is not None
    if isinstance(construct, Update) and not searches:
        return frozenset()
    if isinstance(construct, Insert) and not getattr(table, "primary_key", ()):
        return frozenset()
    text = construct if isinstance(construct, str) else construct.compile(dialect=dialect)
    return frozenset(word.lower() for word in _word.findall(str(text)))


def statements_of(text: str) -> list[duckdb.Statement] | None:
    """Return the statements of a text; None if it is not the engine's SQL."""
    try:
        return duckdb.extract_statements(text)
    except duckdb.ParserException:
        return None


def _names(query: str, name: str) -> bool:
    words = [word.lower() for word in _word.findall(name)]
    there = [word.lower() for word in _word.findall(query)]
    return any(there[at : at + len(words)] == words for at in range(len(there)))
