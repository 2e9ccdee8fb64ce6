"""Partitions, the order of rows and options: changing them, and what they forbid.

What the open transaction changed is told by nobody before its commit, so it is remembered
here until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, text, update
from sqlalchemy.engine import CursorResult

from sqlalchemy_ducklake.alembic import audits
from sqlalchemy_ducklake.alembic.elements import AlterPartitioning, AlterSorting, CallLake
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused
from sqlalchemy_ducklake.alembic.stored import StoredTables
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.alembic.writes import names_in, writes
from sqlalchemy_ducklake.dialect.lateoptions import TableOptions
from sqlalchemy_ducklake.dialect.layout import (
    BUCKET,
    Layout,
    PartitionKey,
    partition_keys,
    sort_keys,
)
from sqlalchemy_ducklake.dialect.options import default_of, normal_option, sendable
from sqlalchemy_ducklake.dialect.reflection.layouts import FoundLayout
from sqlalchemy_ducklake.dialect.reflection.typenames import sql_type
from sqlalchemy_ducklake.dialect.texts import references_in

_INLINING = "ducklake_default_data_inlining_row_limit"


class LayoutOperations(StoredTables):
    """What a migration does to the layout of a table."""

    def _exec(self, construct: Any, *args: Any, **kw: Any) -> CursorResult[Any] | None:
        """Execute a statement; what writes a table must not do so right after a reset.

        After RESET PARTITIONED BY an INSERT or UPDATE in the same transaction ends the whole
        DuckDB instance ("Attempted to access index 0 within vector of size 0", 1.5.5).  So
        for the time of the statement the table has one partition, and nothing stays in the
        catalog, where it would keep the table from being reset again.
        """
        for schema, name in self.memory.unpartitioned:
            if writes(construct, schema, name, self.real_schema(None)):
                table = self.table(name, schema)
                self._partition(table, (self._one_bucket(table, construct),))
                super()._exec(text(f"SET SESSION {_INLINING} = 0"))
                result = super()._exec(construct, *args, **kw)
                super()._exec(text(f"RESET SESSION {_INLINING}"))
                self._partition(table, ())
                return result
        return super()._exec(construct, *args, **kw)

    def _partition(self, table: LakeTable, keys: tuple[PartitionKey, ...]) -> None:
        if not self.as_sql:
            # All rows are written anew, or searched by no bucket.
            raw: Any = self.lake.connection.dbapi_connection
            raw.work.hazards.rewritten.add(table.name.lower())
        element = AlterPartitioning(table.name, table.schema, Layout(partition_by=keys))
        self.alter(table, element)

    def _one_bucket(self, table: LakeTable, construct: Any) -> PartitionKey:
        """Return a key by which all rows of a table are in one partition.

        DuckLake does not find a row of an older file by the column of a bucket (1.5.5), so it
        is one that the statement says nothing of, unless that searches for nothing.
        """
        named = names_in(construct, self.dialect)
        for column in table.columns.values():
            if not column.type.inside and column.name.lower() not in named:
                return PartitionKey(column.name, BUCKET, 1)
        raise MigrationRefused(
            table.name,
            "this transaction has reset its partitions, and cannot search its rows then",
            "reset them in a revision of their own",
        )

    def layout(self, table: LakeTable) -> Layout:
        """Return the layout of a table as it is now, changed by this transaction or not."""
        there = self.memory.laid_out.get((table.schema, table.name))
        if there is not None:
            return there
        return Layout() if self.as_sql else self._committed(table).layout

    def set_partitioning(self, name: str, keys: Sequence[Any], schema: str | None) -> None:
        """Partition what a table gets from now on; without ``keys`` it is not partitioned.

        By the column of a bucket DuckLake finds nothing in files from before (1.5.5), so
        with one of these the rows that are there are written anew.
        """
        table = self.table(name, schema)
        types = {one.name: sql_type(one.type) for one in table.columns.values()}
        found = partition_keys(keys, types, self.compiler, f"table {table.name!r}")
        layout = replace(self.layout(table), partition_by=found)
        self._partition(table, found)
        self.remember_layout(table, layout)
        if found:
            self.memory.unpartitioned.discard((table.schema, table.name))
            if any(key.transform == BUCKET for key in found) and not self._is_new(table):
                self.rewrite_data(name, schema)
        else:
            self.memory.unpartitioned.add((table.schema, table.name))

    def set_sorting(self, name: str, keys: Sequence[Any], schema: str | None) -> None:
        """Sort what a table gets from now on; without ``keys`` it is not sorted."""
        table = self.table(name, schema)
        found = sort_keys(keys, table.columns, self.compiler, f"table {table.name!r}")
        layout = replace(self.layout(table), sort_by=found)
        self.alter(table, AlterSorting(table.name, schema, layout))
        self.remember_layout(table, layout)

    def set_option(self, name: str, option: str, value: Any, schema: str | None) -> None:
        """Set an option of a table; None sets it to what holds without it.

        An option of a table that this transaction made is set right after the commit, because
        DuckLake takes it no earlier.
        """
        table = self.table(name, schema)
        kept = self._without(table, option) if value is None else normal_option(option, value)
        layout = self.layout(table)
        self.remember_layout(table, replace(layout, options={**layout.options, option: kept}))
        late = TableOptions(table.schema, table.name, {option: kept})
        if self.as_sql:
            self.set_later(late) if self._is_new(table) else self._exec(set_options(late)[0])
        elif self._is_new(table):
            raw: Any = self.lake.connection.dbapi_connection
            self.dialect.late_options.add(raw, late)
        else:
            self._exec(set_options(late)[0])

    def rewrite_data(self, name: str, schema: str | None) -> None:
        """Write all rows of a table anew, so that old files follow the layout of now.

        The rows keep their row ids; their old files stay for older snapshots until they
        expire.  DuckLake sorts what is inserted or compacted, not what is updated, so rows
        come into their partitions by this, but not into another order.
        """
        table = self.table(name, schema)
        target = audits.clause(table)
        first = next(iter(target.c))
        self._exec(update(target).values({first.name: first}))

    def expire_snapshots(
        self, versions: Sequence[int] | None, older_than: datetime | timedelta | None
    ) -> None:
        """Let snapshots expire: those named, or all that are older."""
        if (versions is None) == (older_than is None):
            raise MigrationRefused(
                "(the lake)", "say versions=[…] or older_than=…", "and exactly one of them"
            )
        named: dict[str, Any] = {"versions": list(versions or ())}
        if isinstance(older_than, timedelta):
            age = func.to_microseconds(older_than // timedelta(microseconds=1))
            named = {"older_than": func.now() - age}
        elif older_than is not None:
            named = {"older_than": older_than}
        self._exec(CallLake("ducklake_expire_snapshots", (), named))

    def refuse_layout_needs(self, table: LakeTable, column: str) -> None:
        """Raise MigrationRefused if a table is partitioned or sorted by a column."""
        layout = self.layout(table)
        if column in {key.column for key in layout.partition_by}:
            raise MigrationRefused(
                table.name,
                f"it is partitioned by column {column!r}",
                "change that first: op.set_ducklake_partitioning(…) or "
                "op.reset_ducklake_partitioning(…)",
            )
        for key in layout.sort_by:
            if any(column.lower() in one for one in references_in(key.expression)):
                raise MigrationRefused(
                    table.name,
                    f"it is sorted by column {column!r}",
                    "change that first: op.set_ducklake_sorting(…) or "
                    "op.reset_ducklake_sorting(…)",
                )

    def remember_layout(self, table: LakeTable, layout: Layout) -> None:
        """Know a layout until the transaction is over."""
        self.memory.laid_out[table.schema, table.name] = layout

    def _committed(self, table: LakeTable) -> FoundLayout:
        found = self.dialect.layouts_of(self.lake, table.schema, [table.name])
        return next(iter(found.values()), FoundLayout())

    def _is_new(self, table: LakeTable) -> bool:
        """Tell whether the open transaction made a table."""
        if self.as_sql:
            return (table.schema, table.name) in self.created
        return not self.dialect.layouts_of(self.lake, table.schema, [table.name])

    def _without(self, table: LakeTable, option: str) -> str:
        outside = {} if self.as_sql else self._committed(table).outside
        kept = outside.get(option, default_of(option))
        if kept is None:
            raise MigrationRefused(
                table.name,
                f"a lake cannot unset the option {option!r}, and it has no default",
                "set it to the value that is wanted",
            )
        return kept


def set_options(late: TableOptions) -> list[CallLake]:
    """Return the calls that set options of a table."""
    where = {"schema": late.schema, "table_name": late.table}
    return [
        CallLake("ducklake_set_option", (name, sendable(name, value)), where)
        for name, value in late.options.items()
    ]
