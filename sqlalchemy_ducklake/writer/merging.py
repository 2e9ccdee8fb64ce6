"""A merge whose changes come one by one, or from a source that is slow.

The changes are staged in a temporary table as they come, a thousand at a time; nothing
of the lake is touched before ``commit``, which applies them as one merge.  The source
never sits in memory whole.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    delete,
    exc,
    func,
    insert,
    inspect,
    select,
)
from sqlalchemy.orm import Session

from sqlalchemy_ducklake.constructs.merge import ANY_BASE, merge
from sqlalchemy_ducklake.dialect.execution import merge_result
from sqlalchemy_ducklake.driver.expected import refuse_change
from sqlalchemy_ducklake.errors import ChangesLost, ClosedError
from sqlalchemy_ducklake.lake.changes import pinned_snapshot
from sqlalchemy_ducklake.merge.result import MergeResult
from sqlalchemy_ducklake.snapshots.asking import core_connection, driver_connection, name_of

#: Changes that are staged at once.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class Upsert:
    """A complete row to store; what it leaves out becomes NULL."""

    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """The key of a row to delete; it does not matter whether there is one."""

    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Patch:
    """A key and columns to set; the others stay, and a row that is not there is skipped."""

    row: Mapping[str, Any]


Change = Upsert | Patch | Delete


def begin_merge(
    connection: Connection | Session,
    table: Any,
    *,
    expected_base: int | None = ANY_BASE,
    **options: Any,
) -> Merging:
    """Begin to collect changes of a table or mapped class that has a primary key.

    Use it as a context manager: it commits the merge at the end, or aborts it on an
    error.  The transaction stays the connection's own.  ``options`` are those of
    :func:`sqlalchemy_ducklake.merge`.

    The merge is of the table as it is now: if somebody changes it before the end, that
    fails with StaleBase; with ``expected_base`` (a snapshot, None for "never written") also
    if it has changed since.  Changes of other tables do not matter.  A connection that
    commits by itself has no such base.
    """
    connection = core_connection(connection)
    target = inspect(table).local_table if hasattr(table, "__mapper__") else table
    if not isinstance(target, Table) or not list(target.primary_key):
        raise exc.ArgumentError(
            f"{table} has no primary key, which says what a change belongs to"
        )
    merge(target, **options)  # refuses a wrong option now, not at the end
    base = _base(connection, target, expected_base)
    return Merging(connection, target, {**options, "expected_base": base})


def _base(connection: Connection, target: Table, expected: int | None) -> int | None:
    """Give the snapshot that the merge builds on, without making the transaction read it."""
    own = driver_connection(connection)
    if own.autocommit:
        return expected
    with contextlib.closing(own.duck.cursor()) as duck:
        config = own.config
        if expected is not ANY_BASE:
            refuse_change(duck, config, name_of(connection, target), expected)
        return pinned_snapshot(duck, config)


class Merging:
    """Changes that are being collected; ``begin_merge`` makes it."""

    def __init__(
        self, connection: Connection, target: Table, options: Mapping[str, Any]
    ) -> None:
        self.target = target
        self.result: MergeResult | None = None
        self._connection = connection
        self._options = dict(options)
        self._staged = 0
        self._open = True
        suffix = secrets.token_hex(4)
        self._kind, self._place = f"_kind_{suffix}", f"_place_{suffix}"
        self._assigned, self._patches = f"_assigned_{suffix}", False
        self._stage = Table(
            f"_changes_{suffix}",
            MetaData(),
            Column(self._kind, String),
            Column(self._place, BigInteger),
            Column(self._assigned, ARRAY(String)),
            *(Column(each.name, each.type) for each in target.c),
            prefixes=["TEMPORARY"],
        )
        self._stage.create(connection)

    def write(self, changes: Iterable[Change]) -> None:
        """Stage changes; the last one to a key counts.

        Rows are copied, so the caller may use an object again.  Raises ArgumentError for
        a change with unknown, missing or excess columns.  Whatever is raised, nothing of
        this call stays staged, and what was staged before does.
        """
        self._check_open()
        before = self._staged
        try:
            self._write(changes)
        except BaseException:
            self._forget_since(before)
            raise

    def _write(self, changes: Iterable[Change]) -> None:
        batch: list[dict[str, Any]] = []
        for change in changes:
            batch.append(self._row(change, self._staged + len(batch)))
            if len(batch) == BATCH:
                self._flush(batch)
                batch = []
        self._flush(batch)

    def _forget_since(self, place: int) -> None:
        if self._staged > place:
            # In a transaction that is lost nothing can be done, nor is there need to.
            with contextlib.suppress(exc.SQLAlchemyError):
                gone = self._stage.c[self._place] >= place
                self._connection.execute(delete(self._stage).where(gone))
        self._staged = place

    def upsert(self, row: Mapping[str, Any]) -> None:
        """Stage one row to store."""
        self.write([Upsert(row)])

    def patch(self, row: Mapping[str, Any]) -> None:
        """Stage some columns to set of one row."""
        self.write([Patch(row)])

    def delete(self, key: Mapping[str, Any]) -> None:
        """Stage one key to delete."""
        self.write([Delete(key)])

    def commit(self) -> MergeResult:
        """Apply what was staged as one merge, in the transaction of the connection.

        The merge is closed in any case; without changes nothing is written.
        """
        self._check_open()
        try:
            self._check_stage()
            assigned = self._assigned if self._patches else None
            own = [self._kind, self._place, *([assigned] if assigned else [])]
            names = [*own, *(each.name for each in self.target.c)]
            source = self._stage.select().with_only_columns(
                *(self._stage.c[name] for name in names)
            )
            statement = merge(self.target, **self._options_now).changes(
                source.subquery("changes"),
                kind=self._kind,
                sequence=self._place,
                assigned=assigned,
            )
            self.result = merge_result(self._connection.execute(statement))
        except BaseException:
            self._open = False
            self._drop(quietly=True)
            raise
        self._open = False
        self._drop(quietly=False)
        return self.result

    def abort(self) -> None:
        """Forget the changes; doing it again, or after a commit, is no error."""
        if self._open:
            self._open = False
            self._drop(quietly=True)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif self._open:
            self.commit()

    def _check_open(self) -> None:
        if not self._open:
            raise ClosedError("merge")

    def _check_stage(self) -> None:
        """Make sure that what was staged is there: a rollback meanwhile took it away."""
        try:
            count = select(func.count()).select_from(self._stage)
            found = self._connection.scalar(count) or 0
        except exc.ProgrammingError as error:
            raise ChangesLost(str(self.target), self._staged, 0) from error
        if found != self._staged:
            raise ChangesLost(str(self.target), self._staged, found)

    @property
    def _options_now(self) -> dict[str, Any]:
        """Give the options; a transaction that reads an older snapshot builds on that one."""
        own, base = driver_connection(self._connection), self._options["expected_base"]
        if base is not None and base is not ANY_BASE and not own.autocommit:
            base = min(base, pinned_snapshot(*own.reading()))
        return {**self._options, "expected_base": base}

    def _row(self, change: Change, place: int) -> dict[str, Any]:
        known, key = set(self.target.c.keys()), {each.key for each in self.target.primary_key}
        assigned = None
        if isinstance(change, Upsert):
            given, kind = dict(change.row), "upsert"
            self._check_columns(given, self._required, known)
        elif isinstance(change, Patch):
            given, kind, self._patches = dict(change.row), "patch", True
            self._check_columns(given, key, known)
            assigned = [self.target.c[each].name for each in given]
        elif isinstance(change, Delete):
            given, kind = dict(change.key), "delete"
            self._check_columns(given, key, key)
        else:
            raise exc.ArgumentError(
                f"a change is an Upsert, a Patch or a Delete, not {change!r}"
            )
        named = {self.target.c[key].name: value for key, value in given.items()}
        return {
            **dict.fromkeys(each.name for each in self.target.c),
            **named,
            self._kind: kind,
            self._assigned: assigned,
            self._place: place,
        }

    @property
    def _required(self) -> set[str]:
        return {each.key for each in self.target.c if not each.nullable}

    def _check_columns(
        self, given: Mapping[str, Any], required: set[str], known: set[str]
    ) -> None:
        unknown, missing = given.keys() - known, required - given.keys()
        if unknown or missing:
            raise exc.ArgumentError(
                f"a change of {self.target} with unknown columns {sorted(unknown)} and "
                f"without {sorted(missing)}; its columns are {sorted(known)}"
            )

    def _flush(self, batch: Sequence[dict[str, Any]]) -> None:
        if batch:
            self._connection.execute(insert(self._stage), list(batch))
            self._staged += len(batch)

    def _drop(self, *, quietly: bool) -> None:
        """Drop the stage; an error of the work is told rather than one of the cleaning."""
        try:
            self._stage.drop(self._connection)
        except exc.SQLAlchemyError:
            if not quietly:
                raise
