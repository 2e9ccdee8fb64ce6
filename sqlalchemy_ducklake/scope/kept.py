"""What single rows of one table became, kept in Python until somebody looks.

A statement that adds, changes or removes rows by their key needs nothing of the engine once
it is known which keys there are.  So such statements are only remembered here, row by row,
and reach the log all at once before anything reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy_ducklake.driver.script import Parameter
from sqlalchemy_ducklake.scope.log import FIRST_OWN_ROW

Key = tuple[Any, ...]
Values = tuple[Any, ...]


class Act(Enum):
    """What a statement does to the rows that its parameter sets name."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """A statement that inserts, updates or deletes one row for each parameter set.

    ``key`` tells where a set has the values of the primary key, ``stored`` where it has
    those that are stored; the label of each parameter is its column.  ``counted`` is the
    integer key that an INSERT counts up, ``last`` the highest number that fits it.
    ``returned`` are columns of the key that an INSERT returns, None if it returns nothing;
    ``constrained`` says that there is more to check than the key where all is enforced.
    ``required`` are columns that may not be NULL.  An INSERT with ``assigned`` gives rows
    that are there the new values of these columns; with none of them it leaves them alone.
    """

    act: Act
    key: tuple[Parameter, ...] = ()
    stored: tuple[Parameter, ...] = ()
    counted: Parameter | None = None
    last: int = 0
    returned: tuple[str, ...] | None = None
    tells_last_id: bool = False
    constrained: bool = False
    required: frozenset[str] = frozenset()
    assigned: tuple[str, ...] | None = None

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of the primary key, given or counted up."""
        key = self.key if self.counted is None else (self.counted,)
        return tuple(each.label for each in key)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The columns that it names."""
        counted = () if self.counted is None else (self.counted,)
        return (*self.key, *self.stored, *counted)


class Named(NamedTuple):
    """A row of which Python has not all values: its identity, its key, and new values."""

    row: int
    key: Key
    values: Mapping[str, Any] = MappingProxyType({})


class OwnRows(NamedTuple):
    """Rows that the transaction made, by number: as they are now, and which are gone."""

    rows: Mapping[int, Values]
    gone: Sequence[int] = ()


class Drained(NamedTuple):
    """What has to be logged: own rows, of which some are ``logged`` already, and the rest.

    Rows of which Python has not all values are changed by ``patches``, by the columns that
    they assign, or ``removed``.
    """

    own: OwnRows
    logged: bool
    patches: Mapping[tuple[str, ...], Sequence[Named]]
    removed: Sequence[Named]


@dataclass(slots=True)
class KeptRows:
    """The rows of one table, as far as statements named them.

    ``known`` gives the identity of the row of a key, None where there is none; once it is
    ``complete``, a key that it has not is not there.  ``top`` is the highest number of an
    integer key, None if nobody knows.  The next row of the transaction gets ``next``.
    """

    names: Sequence[str]
    next: int
    known: dict[Key, int | None] = field(default_factory=dict)
    complete: bool = False
    top: int | None = None
    #: Whether own rows changed since queries were shown them.
    stale: bool = False
    _full: dict[int, Values] = field(default_factory=dict)
    _dirty: dict[int, None] = field(default_factory=dict)
    _logged: set[int] = field(default_factory=set)
    _gone: list[int] = field(default_factory=list)
    _patches: dict[int, tuple[Key, dict[str, Any]]] = field(default_factory=dict)
    _removed: list[Named] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Tell whether anything has to be logged."""
        return self.number > 0

    def unknown(self, keys: Iterable[Key]) -> list[Key]:
        """Give those of the keys of which nobody knows yet whether they are there."""
        return [] if self.complete else [key for key in keys if key not in self.known]

    def learn(self, found: Iterable[Sequence[Any]], asked: Iterable[Key] = ()) -> bool:
        """Remember rows, each its key and then its identity, and which keys have none.

        Gives False where a key is there twice.
        """
        self.known.update(dict.fromkeys(asked))
        for *key, row in found:
            name = tuple(key)
            if self.known.get(name) is not None:
                return False
            self.known[name] = row
        return True

    def are_new(self, keys: Sequence[Key]) -> bool:
        """Tell whether none of the keys is there, nor twice among them."""
        known = self.known
        return len(set(keys)) == len(keys) and all(known.get(key) is None for key in keys)

    def own_row(self, key: Key) -> Values | None:
        """Give the values of a row; None if Python does not have all of them."""
        row = self.known.get(key)
        return None if row is None else self._full.get(row)

    def adopt(self, key: Key, values: Values) -> None:
        """Remember all values of a row, if the transaction made it; it is logged."""
        row = self.known.get(key)
        if row is not None and row >= FIRST_OWN_ROW:
            self._full[row] = values
            self._logged.add(row)

    def insert(self, keys: Iterable[Key], rows: Iterable[Values]) -> None:
        """Add rows; without a key no row is found again."""
        numbers = []
        for number, values in enumerate(rows, start=self.next):
            self._full[number] = values
            self._dirty[number] = None
            numbers.append(number)
        self.next += len(numbers)
        self.stale = True
        self.known.update(zip(keys, numbers, strict=False))

    def update(self, keys: Iterable[Key], names: Sequence[str], rows: Iterable[Values]) -> int:
        """Give rows other values; tells how many are there, each as often as it is named."""
        places = [self.names.index(name) for name in names]
        matched = 0
        for key, values in zip(keys, rows, strict=True):
            row = self.known.get(key)
            if row is None:
                continue
            matched += 1
            own = self._full.get(row)
            if own is None:
                _, patch = self._patches.setdefault(row, (key, {}))
                patch.update(zip(names, values, strict=True))
                continue
            changed = list(own)
            for place, value in zip(places, values, strict=True):
                changed[place] = value
            # Python's garbage collector looks at lists for ever, at such tuples once.
            self._full[row] = tuple(changed)
            self._dirty[row] = None
            self.stale = True
        return matched

    def delete(self, keys: Iterable[Key]) -> int:
        """Remove rows; tells how many were there."""
        removed = 0
        for key in keys:
            row = self.known.get(key)
            if row is not None:
                self.known[key] = None
                self._remove(row, key)
                removed += 1
        return removed

    def _remove(self, row: int, key: Key) -> None:
        if self._full.pop(row, None) is None:
            self._patches.pop(row, None)
            self._removed.append(Named(row, key))
            return
        self.stale = True
        self._dirty.pop(row, None)
        if row in self._logged:
            self._logged.discard(row)
            self._gone.append(row)

    @property
    def number(self) -> int:
        """Tell how many own rows wait; more than there can be if others wait too."""
        others = self._patches or self._removed
        return 1 << 62 if others else len(self._dirty) + len(self._gone)

    def own_rows(self) -> OwnRows:
        """Give own rows that wait, as they are now."""
        return OwnRows({row: self._full[row] for row in sorted(self._dirty)}, self._gone)

    def waiting(self) -> Drained:
        """Give what has to be logged."""
        own = self.own_rows()
        patches: dict[tuple[str, ...], list[Named]] = {}
        for row, (key, values) in self._patches.items():
            patches.setdefault(tuple(sorted(values)), []).append(Named(row, key, values))
        logged = bool(own.gone) or not self._logged.isdisjoint(own.rows)
        return Drained(own, logged, patches, self._removed)

    def drain(self) -> Drained:
        """Give what has to be logged, which from now on counts as logged."""
        drained, self.stale = self.waiting(), False
        self._logged.update(drained.own.rows)
        self._dirty, self._patches = {}, {}
        self._gone, self._removed = [], []
        if not self.known:
            # No statement finds a row without a key again.
            self._full, self._logged = {}, set()
        return drained
