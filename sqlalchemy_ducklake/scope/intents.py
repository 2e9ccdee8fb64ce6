"""Statements of single rows, once it is known what they need: to apply one cannot fail."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy_ducklake.merge.rows import MATCHED
from sqlalchemy_ducklake.scope.kept import Act, KeptRows, Key, Plain, Values


class Answer(NamedTuple):
    """What a statement did: its counts, how many rows that is, and what it returns."""

    counts: Mapping[str, int]
    rows: list[tuple[Any, ...]] | None = None
    last_id: int | None = None

    @property
    def number(self) -> int:
        """How many rows were inserted, updated (whether they differ or not) or deleted."""
        return written(self.counts)


def written(counts: Mapping[str, int]) -> int:
    """Add up the counts of rows that a statement has, or may have, changed."""
    return sum(counts.get(name, 0) for name in ("inserted", "updated", "deleted", MATCHED))


@dataclass(slots=True)
class Intent:
    """What a statement says of rows: the key of each, and the values it stores.

    Of an INSERT these are the new ones among the keys that were ``given``; of an upsert
    ``changed`` are the rows that are there and get other values: the key, and the values of
    the columns that it assigns; ``alike`` are those that have these values already.
    """

    kept: KeptRows
    plain: Plain
    given: Sequence[Key]
    keys: Sequence[Key]
    rows: Sequence[Values]
    changed: Mapping[Key, Values] | None = None
    alike: Collection[Key] = ()

    def apply(self) -> Answer:
        """Let the rows become what the statement says."""
        kept, plain = self.kept, self.plain
        if plain.act is Act.UPDATE:
            names = [each.label for each in plain.stored]
            return Answer({MATCHED: kept.update(self.keys, names, self.rows)})
        if plain.act is Act.DELETE:
            self._lower_top()
            return Answer({"deleted": kept.delete(self.keys)})
        self._insert()
        counts = {"inserted": len(self.rows)}
        if self.changed is not None:
            kept.update(self.changed, plain.assigned or (), self.changed.values())
            counts["updated"] = len(self.changed)
            counts["unchanged" if plain.assigned else "skipped"] = len(self.alike)
        returned = None if plain.returned is None else self._returned(plain.returned)
        last = max(self.keys)[0] if plain.tells_last_id and plain.counted else None
        return Answer(counts, returned, last)

    def _insert(self) -> None:
        kept = self.kept
        kept.insert(self.keys, self.rows)
        if kept.top is not None and self.keys and len(self.keys[0]) == 1:
            kept.top = max(kept.top, *(number for (number,) in self.keys))

    def _lower_top(self) -> None:
        if self.kept.top is not None and (self.kept.top,) in self.keys:
            self.kept.top = None

    def _returned(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        places = [self.plain.key_names.index(name) for name in names]
        keys = self.given if self.plain.assigned else self.keys
        return [tuple(key[place] for place in places) for key in keys]


def upsert(
    kept: KeptRows,
    plain: Plain,
    keys: Sequence[Key],
    rows: Sequence[Values],
    read: Mapping[Key, Values],
) -> Intent | None:
    """Tell new rows from those that are there, of which some were ``read``.

    None if values cannot be compared in Python, or a row is named twice.
    """
    if len(set(keys)) < len(keys):
        return None
    places = [kept.names.index(name) for name in plain.assigned or ()]
    new: dict[Key, Values] = {}
    changed: dict[Key, Values] = {}
    for key, values in zip(keys, rows, strict=True):
        if kept.known.get(key) is None:
            new[key] = values
            continue
        there = kept.own_row(key) or read[key]
        wanted = tuple(values[place] for place in places)
        same = are_same([there[place] for place in places], wanted)
        if same is None:
            return None
        if not same:
            changed[key] = wanted
    alike = set(keys) - new.keys() - changed.keys()
    return Intent(kept, plain, keys, list(new), list(new.values()), changed, alike)


def are_same(one: Sequence[Any], other: Sequence[Any]) -> bool | None:
    """Tell whether values are what the engine calls NOT DISTINCT; None if Python cannot."""
    found = True
    for left, right in zip(one, other, strict=True):
        if left is None or right is None:
            found = found and left is right
        elif isinstance(left, uuid.UUID) and isinstance(right, str | uuid.UUID):
            found = found and left == uuid.UUID(str(right))
        elif type(left) is not type(right) or type(left) not in _COMPARABLE:
            return None
        elif left != right and not (left != left and right != right):
            found = False
    return found


# Of one and the same type these are equal in Python exactly where they are in the engine,
# but for NaN, which equals itself there.
_COMPARABLE = frozenset(
    {bool, int, float, str, bytes, decimal.Decimal, dt.date, dt.time, dt.datetime}
)
