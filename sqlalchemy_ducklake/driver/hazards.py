"""Statements that DuckLake 1.5.5 takes, and that ruin what they are about (all measured).

- Buckets of a table with rows: it finds no row from before by ``=``, ``IN`` or a join.
- RESET PARTITIONED BY, then a write of that table in the same transaction: a fatal error,
  which ends the whole instance.
- TIME_NS columns: a fatal error at the first write to a file.  HUGEINT and UHUGEINT columns:
  files hold them as DOUBLE, which loses digits.
- A column gets another type, and nothing is written: the engine keeps statistics of the old
  type, and the next filter by the column is a fatal error, in any process that has read it.

All but the last are refused before the engine sees them.  After that one row is written
anew, as it is.  (CREATE TABLE … AS SELECT sum(…) makes a HUGEINT column, and may: sums below
2 ** 53 are exact in a DOUBLE.)  Names are compared without their schema, so a little too much
is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import duckdb

from sqlalchemy_ducklake.driver.renames import definition, dotted_name, words_of
from sqlalchemy_ducklake.errors import RowsWouldHide, TypeSpoiled, WriteAfterReset

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.connection import Connection

_Kind = duckdb.StatementType
_WRITING = frozenset({_Kind.INSERT, _Kind.UPDATE, _Kind.MERGE_INTO, _Kind.COPY})


_BEFORE_COLUMN = frozenset({"column", "to", "add", "exists", "rename", "drop", "alter"})
# What a lake spoils, and what holds it exactly.
_SPOILED = {
    "time_ns": "TIME",
    "hugeint": "DECIMAL(38, 0)",
    "int128": "DECIMAL(38, 0)",
    "uhugeint": "DECIMAL(38, 0)",
    "uint128": "DECIMAL(38, 0)",
}


@dataclass(slots=True)
class Hazards:
    """What a transaction does to partitions: by names of tables, folded, without schemas.

    ``reset`` are those that lost their partitions; of the ``rewritten`` ones somebody
    promises to write all rows anew.
    """

    reset: set[str] = field(default_factory=set)
    rewritten: set[str] = field(default_factory=set)

    def check_write(self, name: str | None, what: str) -> None:
        """Raise WriteAfterReset if a table that is to be written was reset."""
        if name is not None and name in self.reset:
            raise WriteAfterReset(name, what)


@dataclass(frozen=True, slots=True)
class Alteration:
    """What an ALTER TABLE does that may be a hazard.

    ``action`` is ``partition``, ``reset`` or ``retype``; ``table`` and ``column`` are as the
    statement writes them, ``name`` is that of the table, folded and without its schema.
    """

    action: str
    table: str
    name: str
    buckets: bool = False
    column: str = ""


def alteration(query: str) -> Alteration | None:
    """Read an ALTER TABLE by the engine's own lexer; None if it is of another kind."""
    words = list(words_of(query))
    verbs = [word for word, _ in words]
    if verbs[:2] != ["alter", "table"]:
        return None
    start = words[4 if verbs[2:4] == ["if", "exists"] else 2][1]
    parts, end = dotted_name(query, start)
    table, rest = query[start:end].strip(), [each for each in words if each[1] >= end]
    said = [word for word, _ in rest]
    if said[:2] == ["reset", "partitioned"]:
        return Alteration("reset", table, parts[-1])
    if said[:2] == ["set", "partitioned"]:
        return Alteration("partition", table, parts[-1], buckets=_has_bucket(query, rest))
    column = _retyped(query, rest) if said[:1] == ["alter"] else None
    return None if column is None else Alteration("retype", table, parts[-1], column=column)


def _has_bucket(query: str, words: list[tuple[str, int]]) -> bool:
    """Tell whether the function is called; a column may have its name."""
    return any(
        word == "bucket" and query[start] == "(" for (word, _), (_, start) in pairwise(words)
    )


def _retyped(query: str, words: list[tuple[str, int]]) -> str | None:
    """Give the column of ``ALTER [COLUMN] <name> [SET DATA] TYPE``, as it is written."""
    start = words[1][1]
    if words[1][0] == "column" and words[2][0] not in {"type", "set", "drop"}:
        start = words[2][1]
    _, end = dotted_name(query, start)
    said = [word for word, place in words if place >= end]
    if said[:1] != ["type"] and said[:3] != ["set", "data", "type"]:
        return None
    # A field inside a column is part of the column.
    return _first_part(query[start:end])


def _first_part(name: str) -> str:
    (_, first), *_ = ((word, start) for word, start in words_of(name))
    rest = [start for _, start in words_of(name) if name[start] == "."]
    return name[first : rest[0]] if rest else name


def spoiled_type(query: str, lake: str) -> tuple[str, str] | None:
    """Give the table of a CREATE or ALTER TABLE in a lake, and the type that would spoil it."""
    found = definition(query)
    if found is None or found.kind != "table" or found.verb == "drop" or found.temporary:
        return None
    if len(found.name) > 2 and found.name[0] != lake.lower():
        return None
    words = list(words_of(query))
    selects = any(word == "as" for word, _ in _outside_parentheses(query))
    for before, (word, place), after in zip(
        words, words[1:], [*words[2:], ("", 0)], strict=False
    ):
        if word not in _SPOILED or place < found.end or (selects and word != "time_ns"):
            continue
        if _is_type(query, before, after):
            return found.name[-1], word
    return None


def _is_type(query: str, before: tuple[str, int], after: tuple[str, int]) -> bool:
    """Tell whether a word is the name of a type and not that of a column."""
    if query[before[1]] in "(,":
        return after[0] == "" and query[after[1]] in "),["
    return query[before[1]] != "." and before[0] not in _BEFORE_COLUMN


def written_name(query: str) -> str | None:
    """Give the table that a statement inserts into, updates or merges into, folded."""
    for (word, _), (_, start) in pairwise(_outside_parentheses(query)):
        if word in {"into", "update", "copy"}:
            return dotted_name(query, start)[0][-1]
    return None


def _outside_parentheses(query: str) -> Iterator[tuple[str, int]]:
    depth = 0
    for word, start in words_of(query):
        depth += {"(": 1, ")": -1}.get(query[start], 0)
        if not depth:
            yield word, start


def refuse(connection: Connection, statement: duckdb.Statement) -> None:
    """Look at a statement that is to be executed.

    Raises RowsWouldHide, WriteAfterReset or TypeSpoiled.
    """
    hazards = connection.work.hazards
    if statement.type in (_Kind.CREATE, _Kind.ALTER):
        spoiled = spoiled_type(statement.query, connection.config.alias)
        if spoiled is not None:
            raise TypeSpoiled(*spoiled, _SPOILED[spoiled[1]], statement.query)
    if hazards.reset and statement.type in _WRITING:
        hazards.check_write(written_name(statement.query), statement.query)
    altered = alteration(statement.query) if statement.type == _Kind.ALTER else None
    if altered is None or connection.aborted:
        return
    if altered.action == "reset":
        hazards.reset.add(altered.name)
    elif altered.action == "partition":
        if altered.buckets and altered.name not in hazards.rewritten:
            _refuse_rows(connection, altered, statement.query)
        hazards.reset.discard(altered.name)


def _refuse_rows(connection: Connection, altered: Alteration, query: str) -> None:
    connection.detach_live()
    try:
        row = connection.duck.execute(f"SELECT 1 FROM {altered.table} LIMIT 1").fetchone()
    except duckdb.CatalogException:
        return  # there is no such table, as the statement itself will say
    if row is not None:
        raise RowsWouldHide(altered.name, query)


def mend(connection: Connection, statement: duckdb.Statement) -> None:
    """Write one row of a table anew whose column just got another type."""
    altered = alteration(statement.query) if statement.type == _Kind.ALTER else None
    if altered is None or altered.action != "retype":
        return
    table, column = altered.table, altered.column
    first = f"SELECT min(rowid) FROM {table}"
    update = f"UPDATE {table} SET {column} = {column} WHERE rowid = ({first})"
    (rewrite,) = connection.duck.extract_statements(update)
    connection.send(rewrite, ())
