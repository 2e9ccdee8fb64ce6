"""Adding, changing and dropping columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from alembic.ddl import base
from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    Insert,
    delete,
    exc,
    func,
    insert,
    literal,
    schema,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.sql import column as column_clause

from sqlalchemy_ducklake.alembic import audits, catalog, nested, widening
from sqlalchemy_ducklake.alembic.layouts import LayoutOperations
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused
from sqlalchemy_ducklake.alembic.stored import StoredTables
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.dialect import tags
from sqlalchemy_ducklake.dialect.ddl import check_key_type
from sqlalchemy_ducklake.dialect.reflection.found import FoundColumn
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, sql_type

# A value of each type, for a row that lives for a moment.
_BLANKS = {
    "BLOB": "", "CHAR": "", "DATE": "2000-01-01", "INTERVAL": "0 days", "JSON": "null",
    "TIME": "00:00:00", "TIMESTAMP": "2000-01-01", "TIMESTAMP WITH TIME ZONE": "2000-01-01",
    "TIMESTAMP_MS": "2000-01-01", "TIMESTAMP_NS": "2000-01-01", "TIMESTAMP_S": "2000-01-01",
    "UUID": "00000000-0000-0000-0000-000000000000", "VARCHAR": "",
}  # fmt: skip
# More rows than anybody lets a lake keep in its catalog.
_NOT_INLINED = 10_001


class ColumnOperations(LayoutOperations):
    """What a migration does to the columns of a table."""

    def add_column(
        self,
        table_name: str,
        column: schema.Column[Any],
        *,
        schema: str | None = None,
        if_not_exists: bool | None = None,
        **_: Any,
    ) -> None:
        """Add a column; with NOT NULL add it, fill it with its default, and set NOT NULL."""
        before = self.table(table_name, schema)
        if column.name.lower() in map(str.lower, before.columns):
            if if_not_exists:
                return
            raise MigrationRefused(
                table_name, f"there is a column {column.name!r} already", "choose another name"
            )
        self._refuse_addition(before, column)
        new = catalog.column_of_model(column, self.compiler)
        said = tags.constraints_of(column.table, self.compiler)
        after = before.with_column(new).with_constraints(said)
        try:
            self._exec(base.AddColumn(table_name, _plain(column, new), schema=schema))
        except exc.NotSupportedError as error:
            raise _no_expression(before, new.name) from error
        stored = before.with_column(replace(new, comment=None))
        audits.require_new(self.ask, before, after)
        if not new.nullable:
            self.set_not_null(stored, new.name)
        self.settle(stored, after)

    def drop_column(
        self,
        table_name: str,
        column: schema.Column[Any],
        *,
        schema: str | None = None,
        if_exists: bool | None = None,
        **_: Any,
    ) -> None:
        """Drop a column, and the constraints and indexes that it takes part in."""
        before = self.table(table_name, schema)
        if if_exists and column.name.lower() not in map(str.lower, before.columns):
            return
        found = before.column(column.name)
        self._refuse_drop(before, found.name)
        after = before.without_column(found.name)
        self._exec(base.DropColumn(table_name, column, schema=schema))
        self.settle_constraints(before.constraints, after)

    def alter_column(
        self,
        table_name: str,
        column_name: str,
        *,
        nullable: bool | None = None,
        server_default: Any = False,
        name: str | None = None,
        type_: Any = None,
        schema: str | None = None,
        comment: Any = False,
        **_: Any,
    ) -> None:
        """Change a column: its type, NOT NULL, default, comment and last its name."""
        table = self.table(table_name, schema)
        column = table.column(column_name)
        if type_ is not None:
            table = self._change_type(table, column, type_)
        if nullable is not None and nullable != column.nullable:
            table = self._change_nullable(table, column.name, nullable=nullable)
        if server_default is not False:
            self._change_default(table, column.name, server_default)
        if comment is not False:
            changed = replace(table.column(column.name), comment=comment)
            self.settle(table, table.with_column(changed))
            table = table.with_column(changed)
        if name is not None and name != column.name:
            self._rename(table, column.name, name)

    def _refuse_addition(self, table: LakeTable, column: schema.Column[Any]) -> None:
        if column.primary_key:
            raise MigrationRefused(
                table.name,
                f"column {column.name!r} would come into the primary key without values",
                "add it without primary_key, fill it, then op.create_primary_key(…)",
            )
        if column.computed is not None or column.identity is not None:
            raise MigrationRefused(
                table.name,
                f"column {column.name!r} computes its values, and the rows have none yet",
                "add it as a plain column and fill it, or make the table anew",
            )
        if column.nullable:
            return
        self.refuse_offline(table.name, f"add column {column.name!r} with NOT NULL")
        if column.server_default is None and audits.has_rows(self.lake, table):
            raise MigrationRefused(
                table.name,
                f"column {column.name!r} is NOT NULL, but the rows have no value for it",
                "give it a server_default, or add it with nullable=True, fill it with "
                "op.execute(update(…)), then op.alter_column(…, nullable=False)",
            )

    def _refuse_drop(self, table: LakeTable, column: str) -> None:
        if len(table.columns) == 1:
            raise MigrationRefused(
                table.name, f"column {column!r} is its only one", "drop the table"
            )
        self.refuse_layout_needs(table, column)
        if column in table.key.columns:
            raise MigrationRefused(
                table.name,
                f"column {column!r} is part of the primary key",
                "drop that first: op.drop_constraint(None, …, type_='primary')",
            )
        for other in self.tables():
            for key in other.referring(table.schema, table.name):
                if column in key.referred and other.name != table.name:
                    raise MigrationRefused(
                        table.name,
                        f"foreign key {key.name!r} of {other.name!r} refers to {column!r}",
                        "drop that first",
                    )

    def _change_type(self, table: LakeTable, column: FoundColumn, wanted: Any) -> LakeTable:
        """Widen the type, or only what the tag says of a text."""
        model = schema.Table("t", schema.MetaData(), schema.Column(column.name, wanted))
        new = catalog.column_of_model(model.c[column.name], self.compiler).type
        if nested.same(column.type, new):
            new = column.type
        if new != column.type and not widening.is_lossless(column.type, new):
            raise MigrationRefused(
                table.name,
                f"column {column.name!r} cannot change from {_text(column.type, self)} to "
                f"{_text(new, self)} without loss (allowed: {widening.told(column.type)})",
                "add a column of the new type, copy with op.execute(update(…)), drop the old "
                "one, and rename the new one",
            )
        if new != column.type and column.name in table.key.columns:
            check_key_type(_text(new, self))
        length = getattr(wanted, "length", None)
        if length is not None and new.name == "VARCHAR":
            audits.require_length(self.ask, table, column.name, length)
        if new != column.type:
            self.alter_type(table, column.name, wanted)
        said = tags.constraints_of(model, self.compiler).types
        after = table.with_type(replace(column, type=new), said)
        self.settle_constraints(table.constraints, after)
        return after

    def alter_type(self, table: LakeTable, column: str, wanted: Any) -> None:
        """Change a type, and write a row if nothing else of the transaction will.

        DuckLake 1.5.5 keeps the statistics that it read before an ALTER TYPE, with values of
        the old type, until somebody writes; a filter on the column then ends the whole
        instance ("SetMin or SetMax called with Value that does not match").  A revision
        always writes: its number.
        """
        self.alter(table, base.ColumnType(table.name, column, wanted, schema=table.schema))
        if not self.as_sql and not self.runs_revisions and audits.has_rows(self.lake, table):
            self._write_first_row(table, column)

    def _write_first_row(self, table: LakeTable, column: str) -> None:
        """Write one row anew, as it is."""
        target = audits.clause(table)
        row: ColumnClause[int] = column_clause("rowid")
        first = select(func.min(row)).select_from(target).scalar_subquery()
        self._exec(update(target).where(row == first).values({column: target.c[column]}))

    def _change_nullable(self, table: LakeTable, column: str, *, nullable: bool) -> LakeTable:
        if nullable and column in table.key.columns:
            raise MigrationRefused(
                table.name, f"column {column!r} is part of the primary key", "drop that first"
            )
        if nullable:
            self._exec(base.ColumnNullable(table.name, column, True, schema=table.schema))
        else:
            self.refuse_offline(table.name, f"set NOT NULL on column {column!r}")
            self.set_not_null(table, column)
        after = table.with_column(replace(table.column(column), nullable=nullable))
        self.remember(after)
        return after

    def _change_default(self, table: LakeTable, column: str, default: Any) -> None:
        if isinstance(default, schema.Computed | schema.Identity):
            raise MigrationRefused(
                table.name,
                f"column {column!r} cannot become computed or an identity",
                "make the table anew and copy the rows",
            )
        try:
            self._exec(base.ColumnDefault(table.name, column, default, schema=table.schema))
        except exc.NotSupportedError as error:
            raise _no_expression(table, column) from error

    def _rename(self, table: LakeTable, old: str, new: str) -> None:
        after = table.with_column_renamed(old, new)
        parent = table.schema, table.name
        after = after.with_parent_column_renamed(parent, old, new)
        layout = self.layout(table)
        others = [one for one in self.tables() if one.referring(*parent)]
        self._exec(base.ColumnName(table.name, old, new, schema=table.schema))
        self.remember_layout(after, layout.with_column_renamed(old, new))
        self.settle_constraints(table.constraints, after)
        for other in others:
            if (other.schema, other.name) != parent:
                self.settle(other, other.with_parent_column_renamed(parent, old, new))

    def set_not_null(self, table: LakeTable, column: str) -> None:
        """Set NOT NULL on a column that has no NULL.

        The engine wants statistics of the column.  A column that was added later has
        none until one row of it is written; an empty table has none until it had a row.
        """
        audits.require_no_null(self.ask, table, column)
        target = audits.clause(table)
        filled = audits.has_rows(self.lake, table)
        if filled:
            self._write_first_row(table, column)
        else:
            self._exec(self._blank_rows(table, column))
        self._exec(base.ColumnNullable(table.name, column, False, schema=table.schema))
        if not filled:
            self._exec(delete(target))

    def _blank_rows(self, table: LakeTable, column: str) -> Insert:
        """Insert rows that will be deleted at once, too many to be inlined in the catalog.

        DuckLake 1.5.5 ends the instance over inlined rows of one transaction that were
        inserted before and after an ADD COLUMN ("Missing stats when merging").
        """
        nested = [one.name for one in table.columns.values() if one.type.inside]
        if nested:
            # The next ADD COLUMN of the transaction would end the instance.
            raise MigrationRefused(
                table.name,
                f"the lake sets NOT NULL on {column!r} only if there are rows, and column "
                f"{nested[0]!r} has fields, for which none can be made up",
                "make the table anew: it is empty",
            )
        wanted = [
            one for one in table.columns.values() if one.name == column or not one.nullable
        ]
        blanks: list[ColumnElement[Any]] = [
            sql_cast(literal(_BLANKS.get(one.type.name, "0")), sql_type(one.type))
            for one in wanted
        ]
        many = func.range(_NOT_INLINED).table_valued("range")
        rows = select(*blanks).select_from(many)
        return insert(audits.clause(table)).from_select([one.name for one in wanted], rows)


def _plain(column: schema.Column[Any], new: FoundColumn) -> schema.Column[Any]:
    """Return a column as the engine can add it; all else is done afterwards."""
    default: Any = column.server_default
    if new.type.name == "BOOLEAN" and str(new.default).lower() in {"true", "false"}:
        # The engine takes these words for expressions, which cannot be added.
        default = str(new.default).lower()
    return schema.Column(column.name, column.type, server_default=default)


def _no_expression(table: LakeTable, column: str) -> MigrationRefused:
    return MigrationRefused(
        table.name,
        f"the lake takes an expression as the default of column {column!r} only if the column "
        "was made with its table",
        "use a literal, or a default of the model, or make the table anew",
    )


def _text(kind: TypeName, of: StoredTables) -> str:
    return of.dialect.type_compiler_instance.process(sql_type(kind))
