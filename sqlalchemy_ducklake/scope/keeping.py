"""Rows kept in Python: which keys there are is read once, what they became is logged late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sqlalchemy_ducklake.driver import Connection
from sqlalchemy_ducklake.driver.batch import column_of
from sqlalchemy_ducklake.driver.script import Parameter
from sqlalchemy_ducklake.driver.source import known_as
from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.merge.staging import own_name
from sqlalchemy_ducklake.scope.intents import Intent, upsert
from sqlalchemy_ducklake.scope.kept import (
    Act,
    Drained,
    KeptRows,
    Key,
    Named,
    OwnRows,
    Plain,
    Values,
)
from sqlalchemy_ducklake.scope.keyvalues import NORMAL, exact_values, key_columns, squeezed
from sqlalchemy_ducklake.scope.log import (
    FIRST_OWN_ROW,
    GONE,
    ROW,
    LakeColumn,
    Log,
    staged_versions,
    versions,
)
from sqlalchemy_ducklake.scope.savepoints import Savepoints
from sqlalchemy_ducklake.scope.straight import ROW_OF, Straight, named_batch
from sqlalchemy_ducklake.scope.writing import Run, one_row

# The names under which the engine knows keys and rows of Python, and a stage of versions.
_KEYS, _ROWS, _NEXT = map(own_name, ("asked keys", "kept rows", "kept next"))
# A small table with no more rows than this is asked for all of its keys at once.
_FEW = 1000
# No more own rows than this are handed to each query; more are logged, once and for all.
_RECENT = 1000


@dataclass(slots=True)
class _Recent:
    """Rows that the engine reads anew with each query, so that it is told of them once."""

    rows: Any  # a pa.Table

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.rows.__arrow_c_stream__(requested_schema)


@dataclass(slots=True)
class Keeper:
    """The rows of one table in Python, and the way from there to its log."""

    connection: Connection
    run: Run
    make: Callable[[], None]
    log_shown: Callable[[], None]
    log: Log
    kept: KeptRows
    _looked: bool = False
    _ambiguous: bool = False
    _recent: _Recent | None = None
    _types: dict[str, Parameter] = field(default_factory=dict)
    _fitting: dict[Plain, bool] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        connection: Connection,
        run: Run,
        make: Callable[[], None],
        log_shown: Callable[[], None],
        log: Log,
    ) -> Keeper:
        """Begin with what the log holds.

        ``make`` makes it and its views, ``log_shown`` lets them show what is kept.
        """
        following = FIRST_OWN_ROW
        if log.made:
            (last,) = one_row(run(f"SELECT max({_ROW}) FROM {log.name}"))
            following = max(following, (last or 0) + 1)
        kept = KeptRows([each.name for each in log.columns], following)
        return cls(connection, run, make, log_shown, log, kept)

    def intent(self, plain: Plain, sets: Sequence[Sequence[Any]]) -> Intent | None:
        """Look whether a statement can be kept; None if the engine has to run its script.

        That knows the right error for whatever is wrong.
        """
        if not self._fits(plain):
            return None
        columns = exact_values(plain.stored, sets, plain.required)
        keys = self._keys(plain, sets)
        if columns is None or keys is None or not self._know(plain, keys):
            return None
        if plain.act is not Act.INSERT:
            ordered = [columns[each.label] for each in plain.stored]
            return Intent(self.kept, plain, keys, keys, list(zip(*ordered, strict=True)))
        if plain.counted is not None:
            columns[plain.counted.label] = [number for (number,) in keys]
        ordered = [columns.get(name, [None] * len(sets)) for name in self.kept.names]
        rows = list(zip(*ordered, strict=True))
        if plain.assigned is not None:
            return upsert(self.kept, plain, keys, rows, self._read(plain, keys))
        # Numbers that are counted up are new anyway.
        new = plain.counted is not None or self.kept.are_new(keys)
        return Intent(self.kept, plain, keys, keys, rows) if new else None

    def show(self) -> bool:
        """Let queries see what is kept; False where it has to be logged for that."""
        kept = self.kept
        if kept.number > _RECENT:
            return False
        if kept.stale:
            self._register_recent(kept.own_rows())
            kept.stale = False
        return True

    def hide(self) -> None:
        """Let queries see no more than what is logged."""
        if self._recent is not None:
            self.connection.detach_live()
            self._recent.rows = self._recent.rows.slice(0, 0)

    def log_kept(self, savepoints: Savepoints) -> bool:
        """Log what is kept; tells whether rows of the lake are among it.

        Versions that a savepoint may bring back are closed.
        """
        drained = self.kept.drain()
        if drained.own.rows or drained.own.gone:
            self._log_own(drained, savepoints)
        for names, rows in drained.patches.items():
            self._log_named(rows, names, savepoints)
        if drained.removed:
            self._log_named(drained.removed, None, savepoints)
        self.hide()
        return bool(drained.patches or drained.removed)

    def goes_straight(self) -> bool:
        """Tell whether what is kept can be written without a log."""
        kept = self.kept.waiting()
        taken = any(self.kept.known.get(each.key) is not None for each in kept.removed)
        return not (self.log.made or taken or len(kept.patches) > 1)

    def straight(self) -> Straight:
        """Give what is kept, to be written without a log."""
        kept = self.kept.waiting()
        ((assigned, changed),) = kept.patches.items() or [((), ())]
        return Straight(
            self.log,
            named_batch(kept.removed, {}),
            self._changed(changed, assigned),
            assigned,
            self._batch(kept.own),
            [each.key for each in (*kept.removed, *changed)],
        )

    def _changed(self, rows: Sequence[Named], assigned: Sequence[str]) -> pa.Table:
        """Build a batch of rows of the lake, with new values."""
        given = {
            name: self._array(name, [each.values[name] for each in rows]) for name in assigned
        }
        return named_batch(rows, given)

    def _register_recent(self, own: OwnRows) -> None:
        rows = self._batch(own)
        self.connection.detach_live()
        if self._recent is not None and self._recent.rows.schema == rows.schema:
            self._recent.rows = rows
            return
        self._recent = _Recent(rows)
        self.connection.duck.register(self.log.recent_name, self._recent)

    def _batch(self, own: OwnRows) -> pa.Table:
        """Build a batch of own rows; those that are gone have no values."""
        columns = list(zip(*own.rows.values(), strict=True)) or [()] * len(self.kept.names)
        absent = [None] * len(own.gone)
        arrays = [
            self._array(name, [*values, *absent])
            for name, values in zip(self.kept.names, columns, strict=True)
        ]
        gone = [False] * len(own.rows) + [True] * len(own.gone)
        arrays += [pa.array([*own.rows, *own.gone], pa.int64()), pa.array(gone, pa.bool_())]
        return pa.Table.from_arrays(arrays, [*self.kept.names, ROW, GONE])

    def _log_own(self, drained: Drained, savepoints: Savepoints) -> None:
        """Log own rows with all their values."""
        log, rows = self.log.name, identifier(_ROWS)
        names = ", ".join(map(identifier, self.kept.names))
        with known_as(self.connection, _ROWS, self._batch(drained.own)):
            if drained.logged:
                self._close(f"SELECT {_ROW} FROM {rows}", savepoints)
            self.run(
                f"INSERT INTO {log} SELECT {names}, {_ROW}, {savepoints.mark}, NULL, false "
                f"FROM {rows} WHERE NOT {_GONE}"
            )

    def _log_named(
        self, rows: Sequence[Named], names: Sequence[str] | None, savepoints: Savepoints
    ) -> None:
        """Log rows by their identity: with other values of some columns, or as gone."""
        key, assigned = self.log.key, names or ()
        values = ", ".join(
            f"asked.v{place} AS {identifier(name)}" for place, name in enumerate(assigned)
        )
        shown = f"base.* REPLACE ({values})" if values else "base.*"
        first = [each.key[0] for each in rows]
        stage = identifier(_NEXT)
        with known_as(self.connection, _KEYS, self._changed(rows, assigned)):
            self.run(
                f"CREATE OR REPLACE TEMP TABLE {stage} AS SELECT {shown} "
                f"{self._asked(key)} AND base.rowid = asked.{ROW_OF}",
                (min(first), max(first)),
            )
        self._close(f"SELECT rowid FROM {stage}", savepoints)
        self.run(staged_versions(self.log.name, stage, gone=names is None))
        self.run(f"DROP TABLE {stage}")

    def _close(self, rows: str, savepoints: Savepoints) -> None:
        # Written out it is faster than the variable.
        replaced, closed = versions(self.log.name, rows, str(savepoints.mark))
        self.run(replaced)
        if savepoints:
            self.run(closed)

    def _array(self, name: str, values: Sequence[Any]) -> Any:
        known = self._types.get(name)
        return pa.nulls(len(values)) if known is None else column_of(known, values)

    def _asked(self, key: Sequence[str]) -> str:
        """FROM <view>, joined with the keys that are asked for.

        Bounds of the first column spare files.  The keys come as text: their types are few.
        """
        types = {each.name: each.type for each in self.log.columns}
        same = " AND ".join(
            f"base.{identifier(name)} = CAST(asked.k{place} AS {types[name]})"
            for place, name in enumerate(key)
        )
        return (
            f"FROM {self.log.overlay} AS base JOIN {identifier(_KEYS)} AS asked ON {same} "
            f"WHERE base.{identifier(key[0])} BETWEEN $1 AND $2"
        )

    def _fits(self, plain: Plain) -> bool:
        """Tell whether the table is what the statement takes it for."""
        found = self._fitting.get(plain)
        if found is None:
            found = self._fitting[plain] = self._compare(plain)
            self._types.update((each.label, each) for each in plain.parameters if found)
        return found

    def _compare(self, plain: Plain) -> bool:
        columns = {each.name: each for each in self.log.columns}
        given = {each.label: each for each in plain.parameters}
        if given.keys() - columns.keys() or plain.key_names != tuple(self.log.key):
            return False
        if any(squeezed(given[name].type_name) != columns[name].type for name in given):
            return False
        if any(each.type_name not in NORMAL for each in plain.key):
            return False
        return all(_may_be(each, plain, each.name in given) for each in self.log.columns)

    def _keys(self, plain: Plain, sets: Sequence[Sequence[Any]]) -> list[Key] | None:
        """Give the key that each set names; None for values that may equal others."""
        if plain.counted is not None:
            return self._numbers(plain.counted, plain.last, len(sets))
        columns = []
        for each in plain.key:
            normal = NORMAL[each.type_name]
            column = [normal(one[each.index]) for one in sets]
            if None in column:
                return None
            columns.append(column)
        return list(zip(*columns, strict=True))

    def _numbers(self, counted: Parameter, last: int, amount: int) -> list[Key] | None:
        """Give the next numbers of an integer key; None if they would not fit."""
        if self.kept.top is None:
            self._look()
            self.log_shown()
            column = identifier(counted.label)
            (top,) = one_row(self.run(f"SELECT max({column}) FROM {self.log.overlay}"))
            self.kept.top = max(top or 0, 0)
        first = self.kept.top + 1
        if first + amount - 1 > last:
            return None
        return [(number,) for number in range(first, first + amount)]

    def _know(self, plain: Plain, keys: Sequence[Key]) -> bool:
        """Find out which of the keys are there; False if one may be there twice."""
        if plain.counted is not None or not plain.key:
            return True
        kept = self.kept
        unknown = kept.unknown(keys)
        if unknown:
            self._look()
            found = self._few(plain.key) if self.log.copied else None
            kept.complete = found is not None
            asked = () if kept.complete else unknown
            rows = self._probe(plain.key, unknown) if found is None else found
            self._ambiguous = self._ambiguous or not kept.learn(rows, asked)
        return not self._ambiguous

    def _look(self) -> None:
        """Make the log before a second look: a small table is copied then."""
        if self._looked and not self.log.made:
            self.make()
        self._looked = True

    def _few(self, key: Sequence[Parameter]) -> list[Any] | None:
        """Read all keys of a table that has few rows, but those that are known already."""
        names = ", ".join(identifier(each.label) for each in key)
        text = f"SELECT {names}, rowid FROM {self.log.overlay} LIMIT {_FEW + 1}"
        found = self.run(text).fetchall()
        if len(found) > _FEW:
            return None
        return [row for row in found if tuple(row[:-1]) not in self.kept.known]

    def _probe(
        self, key: Sequence[Parameter], asked: Sequence[Key], more: Sequence[str] = ("rowid",)
    ) -> list[Any]:
        """Look which keys are there, and read some columns of their rows."""
        labels = [each.label for each in key]
        names = [f"base.{identifier(label)}" for label in labels]
        shown = ", ".join([*names, *(f"base.{identifier(name)}" for name in more)])
        if len(asked) == 1:
            same = " AND ".join(f"{name} = ${at}" for at, name in enumerate(names, 1))
            query = f"SELECT {shown} FROM {self.log.overlay} AS base WHERE {same}"
            return self.run(query, asked[0]).fetchall()
        first = [one[0] for one in asked]
        with known_as(self.connection, _KEYS, pa.table(key_columns(asked))):
            query = f"SELECT {shown} {self._asked(labels)}"
            return self.run(query, (min(first), max(first))).fetchall()

    def _read(self, plain: Plain, keys: Sequence[Key]) -> dict[Key, Values]:
        """Read rows that an upsert is to change and of which Python has not all values."""
        kept = self.kept
        asked = [key for key in keys if kept.known.get(key) is not None]
        asked = [key for key in asked if kept.own_row(key) is None]
        if not asked:
            return {}
        self.log_shown()
        width = len(plain.key)
        found = self._probe(plain.key, asked, self.kept.names)
        rows = {tuple(row[:width]): tuple(row[width:]) for row in found}
        for key, values in rows.items():
            known = zip(self.kept.names, values, strict=True)
            if all(value is None or name in self._types for name, value in known):
                kept.adopt(key, values)
        return rows


_ROW, _GONE = identifier(ROW), identifier(GONE)


def _may_be(column: LakeColumn, plain: Plain, given: bool) -> bool:
    """Tell whether a statement says all that the engine would find out about a column."""
    if given:
        return column.nullable or column.name in plain.required
    return plain.act is not Act.INSERT or (column.nullable and column.default is None)
