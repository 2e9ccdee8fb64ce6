"""What a kind of statement means for its transaction, by the engine's own parser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import duckdb

_Kind = duckdb.StatementType

READING = frozenset({_Kind.SELECT, _Kind.RELATION})

# These change nothing in a lake; EXPLAIN is not among them, it may ANALYZE a DELETE.
_HARMLESS = READING | {_Kind.SET, _Kind.PREPARE}

# A transaction of these alone may leave a collision of snapshots to DuckLake's retry.
_APPENDING = _HARMLESS | {_Kind.INSERT, _Kind.COPY}

# What these write must not be inlined: a compaction of another writer, who leaves
# collisions to DuckLake's retry, would bring deleted rows back (measured on 1.5.5).
_DELETING = frozenset(
    {_Kind.DELETE, _Kind.UPDATE, _Kind.MERGE_INTO, _Kind.EXECUTE, _Kind.EXPLAIN}
)


# These define tables, views and schemas; COMMENT is an ALTER to the parser.
_DEFINING = frozenset({_Kind.CREATE, _Kind.ALTER, _Kind.DROP})

# These name tables, but make none.
_ROWS = READING | {_Kind.INSERT, _Kind.UPDATE, _Kind.DELETE, _Kind.MERGE_INTO}


# Their rows are an answer, whatever they are called.
_ANSWERING = READING | {_Kind.EXPLAIN}


def is_insert(statements: Sequence[duckdb.Statement]) -> bool:
    """Tell whether this is one INSERT."""
    return len(statements) == 1 and statements[0].type == _Kind.INSERT


def only_tells_success(statement: duckdb.Statement, description: Sequence[Any]) -> bool:
    """Tell whether what the engine answers, by its columns, is that it did something."""
    if statement.type in _ANSWERING:
        return False
    return [(column[0], str(column[1])) for column in description] == [("Success", "BOOLEAN")]


def defines(statement: duckdb.Statement) -> bool:
    """Tell whether this changes what the catalog holds besides rows."""
    return statement.type in _DEFINING


def is_guarded(statement: duckdb.Statement) -> bool:
    """Tell whether only compare-and-swap may commit what this does."""
    return statement.type not in _APPENDING


def may_change(statement: duckdb.Statement) -> bool:
    """Tell whether this may change the lake."""
    return statement.type not in _HARMLESS


def may_delete(statement: Any) -> bool:
    """Tell whether this may delete or update rows."""
    return getattr(statement, "type", None) in _DELETING


def may_make_temporary(operation: str, statements: Iterable[duckdb.Statement]) -> bool:
    """Tell whether this may make a temporary table or view: they all say so somewhere."""
    return "temp" in operation.lower() and any(one.type not in _ROWS for one in statements)


def describes_commit(statement: duckdb.Statement) -> bool:
    """Tell whether the user sets message and extra info of the commit by a CALL."""
    return statement.type == _Kind.CALL and "set_commit_message" in statement.query.lower()


class Parsed:
    """The statements of texts that are run again and again: queries, which change nothing."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, list[duckdb.Statement]] = {}

    def of(self, duck: duckdb.DuckDBPyConnection, text: str) -> list[duckdb.Statement]:
        """Give the statements of a text."""
        found = self._known.get(text)
        if found is None:
            found = duck.extract_statements(text)
            if len(found) == 1 and found[0].type in READING and len(text) <= _LONGEST_KEPT:
                if len(self._known) >= _MOST_KEPT:
                    self._known.clear()
                self._known[text] = found
        return found


# How many texts are kept with their statements, and of what length at most.
_MOST_KEPT, _LONGEST_KEPT = 200, 10_000


def token_starts(query: str) -> list[int]:
    """Give where the tokens of the engine's own lexer begin, in characters: it counts bytes."""
    starts = [start for start, _ in duckdb.tokenize(query)]
    if query.isascii():
        return starts
    text, characters, found = query.encode(), 0, []
    for before, start in pairwise([0, *starts]):
        characters += len(text[before:start].decode())
        found.append(characters)
    return found
