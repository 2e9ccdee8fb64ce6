"""A rename that would ruin the lake.

DuckLake 1.5.5 writes two live rows into its catalog for a table that was altered and then
renamed in one transaction; from the commit on no table of the lake can be read ("Column
with name id already exists!"; measured with ADD COLUMN, RENAME COLUMN, COMMENT and SET
PARTITIONED BY; a view that is commented on and renamed lives on under both names).  To
rename first is harmless.  So the driver remembers what a transaction altered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy_ducklake.driver.statements import token_starts

_PART = re.compile(r'\s*("(?:[^"]|"")*"|[^\s."]+)')
_DOT = re.compile(r"\s*\.")


def altered_name(query: str) -> tuple[str, bool] | None:
    """Give the table or view that an ALTER or COMMENT is about, and whether it renames it.

    The name is folded as the engine folds names, without its schema.  None if the statement
    is about something else, or cannot be read.
    """
    words = list(words_of(query))
    verbs = [word for word, _ in words]
    if verbs[:2] in (["alter", "table"], ["alter", "view"]):
        place = 4 if verbs[2:4] == ["if", "exists"] else 2
        name, end = dotted_name(query, words[place][1])
        rest = [word for word, start in words if start >= end]
        return name[-1], rest[:2] == ["rename", "to"]
    if verbs[:2] == ["comment", "on"] and verbs[2:3] in (["table"], ["view"], ["column"]):
        name, _ = dotted_name(query, words[3][1])
        return name[-2 if verbs[2] == "column" else -1], False
    return None


def defined_name(query: str) -> str | None:
    """Give the table or view that a CREATE or DROP is about, folded, without its schema."""
    found = definition(query)
    return found.name[-1] if found is not None and found.verb in {"create", "drop"} else None


class Definition(NamedTuple):
    """What a CREATE, ALTER or DROP of a table or view is about: its name, and its end."""

    verb: str
    kind: str
    temporary: bool
    name: list[str]
    end: int


def definition(query: str) -> Definition | None:
    """Read the beginning of a statement; None if it is of another kind."""
    words = [*words_of(query), ("", len(query))]
    said = [word for word, _ in words]
    verb = said[0]
    if verb not in {"create", "alter", "drop"}:
        return None
    after = next(place for place in range(1, len(said)) if said[place] not in _BEFORE_KIND)
    temporary = not {"temp", "temporary"}.isdisjoint(said[1:after])
    if said[after] not in {"table", "view"}:
        return None
    kind, rest = said[after], range(after + 1, len(said))
    start = next(place for place in rest if said[place] not in {"if", "not", "exists"})
    return Definition(verb, kind, temporary, *dotted_name(query, words[start][1]))


_BEFORE_KIND = frozenset({"or", "replace", "temp", "temporary"})


def words_of(query: str) -> Iterator[tuple[str, int]]:
    """Give the tokens of the engine's own lexer, as far as they are words, with places."""
    for start in token_starts(query):
        found = re.match(r"\w*", query[start:])
        yield (found.group().lower() if found else ""), start


def dotted_name(query: str, start: int) -> tuple[list[str], int]:
    """Read a dotted name; give its parts and the place behind it."""
    parts: list[str] = []
    while found := _PART.match(query, start):
        text = found.group(1)
        quoted = text.startswith('"')
        parts.append((text[1:-1].replace('""', '"') if quoted else text).lower())
        start = found.end()
        dot = _DOT.match(query, start)
        if dot is None:
            break
        start = dot.end()
    return parts, start
