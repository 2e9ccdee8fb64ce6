"""``executemany`` of an INSERT as text, as one statement.

The engine's own ``executemany`` runs the statement once for each parameter set, and on a
lake that is one file each.  ``INSERT INTO … VALUES (?, ?)`` with nothing but placeholders
says the same as ``INSERT INTO … SELECT`` from a table of the sets.  The engine's lexer
finds the placeholders; anything else in the text, or a column of mixed types, which Arrow
would make one type of, is left to be run set by set.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sqlalchemy_ducklake.driver.statements import token_starts

#: The name under which the rewritten statement knows the parameter sets.
SETS = f"_parameter_sets_{secrets.token_hex(4)}"


def as_one_insert(query: str, sets: Sequence[Any]) -> tuple[str, pa.Table] | None:
    """Give the statement that inserts all sets, and their table; None if there is none."""
    if not all(isinstance(one, list | tuple) for one in sets):
        return None
    head = _before_values(query)
    places = None if head is None else _placeholders(query[len(head) :])
    if head is None or places is None or any(len(one) != len(places) for one in sets):
        return None
    columns = [[one[place] for one in sets] for place in places]
    if any(len(set(map(type, column)) - {type(None)}) > 1 for column in columns):
        return None
    names = [f"p{number}" for number in range(len(columns))]
    try:
        table = pa.Table.from_arrays([pa.array(column) for column in columns], names)
    except (pa.ArrowException, OverflowError):
        return None
    return f"{head} SELECT {', '.join(names)} FROM {SETS}", table


def _before_values(query: str) -> str | None:
    """Give the text before VALUES, where a single group follows to the end."""
    starts = token_starts(query)
    found = [start for start in starts if query[start : start + 6].lower() == "values"]
    return query[: found[0]] if len(found) == 1 else None


def _placeholders(values: str) -> list[int] | None:
    """Read ``VALUES (?, ?)`` or ``VALUES ($2, $1)``; give the places in a set."""
    inner = values[6:].strip().removesuffix(";").strip()
    if not (inner.startswith("(") and inner.endswith(")")):
        return None
    items = [item.strip() for item in inner[1:-1].split(",")]
    if all(item == "?" for item in items):
        return list(range(len(items)))
    if all(item.startswith("$") and item[1:].isdecimal() for item in items):
        places = [int(item[1:]) - 1 for item in items]
        return places if sorted(places) == list(range(len(places))) else None
    return None
