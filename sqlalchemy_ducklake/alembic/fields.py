"""Changing what is inside of columns, and types in both directions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from alembic.ddl import base
from sqlalchemy import cast as sql_cast
from sqlalchemy import schema, select, text, type_coerce, update

from sqlalchemy_ducklake.alembic import audits, catalog, nested, widening
from sqlalchemy_ducklake.alembic.columns import ColumnOperations
from sqlalchemy_ducklake.alembic.elements import AlterField, TriedCast
from sqlalchemy_ducklake.alembic.nested import Path
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.dialect.reflection.found import FoundColumn
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, sql_type
from sqlalchemy_ducklake.dialect.texts import references_in

_EXAMPLES = 3
_literal = re.compile(r"'(?:[^']|'')*'|-?[0-9.]+|true|false", re.IGNORECASE)


class FieldOperations(ColumnOperations):
    """What a migration does to fields, and to types."""

    def add_field(self, name: str, path: Sequence[str], kind: Any, schema: str | None) -> None:
        """Add a field, NULL in all rows; raises MigrationRefused if it cannot be there."""
        table, column, inner = self._field(name, path, schema)
        parent = nested.at(column.type, inner[:-1])
        if parent is None or parent.name != "STRUCT":
            raise MigrationRefused(
                table.name,
                f"{_dotted(path[:-1])} is no STRUCT, so it can have no field {path[-1]!r}",
                _told(column),
            )
        if nested.at(column.type, inner) is not None:
            raise MigrationRefused(
                table.name, f"there is a field {_dotted(path)} already", "choose another name"
            )
        found = self.type_name(kind)
        self.alter(table, AlterField(table.name, schema, path, kind=found))
        self._keep(table, column, nested.with_field(column.type, inner, found))

    def drop_field(self, name: str, path: Sequence[str], schema: str | None) -> None:
        """Drop a field with its values; raises MigrationRefused if something needs it."""
        table, column, inner = self._field(name, path, schema)
        self._require_field(table, column, path)
        parent = nested.at(column.type, inner[:-1]) or column.type
        if len(parent.inside) == 1:
            # The engine sends a statement that no catalog understands (1.5.5).
            raise MigrationRefused(
                table.name,
                f"{_dotted(path)} is the only field of its STRUCT",
                "add another one first, or drop the column",
            )
        self._refuse_read_field(table, path)
        self.alter(table, AlterField(table.name, schema, path))
        self._keep(table, column, nested.without_field(column.type, inner))

    def rename_field(
        self, name: str, path: Sequence[str], new_name: str, schema: str | None
    ) -> None:
        """Rename a field; raises MigrationRefused if something reads it by its name."""
        table, column, inner = self._field(name, path, schema)
        self._require_field(table, column, path)
        other = nested.at(column.type, (*inner[:-1], new_name))
        if other is not None and new_name.lower() != path[-1].lower():
            raise MigrationRefused(
                table.name, f"there is a field {new_name!r} already", "choose another name"
            )
        self._refuse_read_field(table, path)
        self.alter(table, AlterField(table.name, schema, path, new_name=new_name))
        self._keep(table, column, nested.with_field_renamed(column.type, inner, new_name))

    def promote_type(
        self, name: str, path: Sequence[str], kind: Any, schema: str | None
    ) -> None:
        """Widen the type of a column or of what is inside of one; nothing if it is wide."""
        table, column, inner = self._field(name, path, schema, inside=False)
        if not inner:
            self.alter_column(name, column.name, type_=kind, schema=schema)
            return
        self._require_field(table, column, path)
        old, new = nested.at(column.type, inner) or column.type, self.type_name(kind)
        if old == new:
            return
        if not widening.is_lossless(old, new):
            raise MigrationRefused(
                table.name,
                f"{_dotted(path)} cannot change from {self.spelled(old)} to "
                f"{self.spelled(new)} without loss (allowed: {widening.told(old)})",
                "add a field of the new type and fill it with op.execute(update(…))",
            )
        whole = nested.with_field(column.type, inner, new)
        self.alter_type(table, column.name, sql_type(whole))
        self._keep(table, column, whole)

    def narrow_type(self, name: str, column: str, kind: Any, schema: str | None) -> None:
        """Give a column a narrower type, if every value fits: the way back of a promotion.

        A lake cannot change the type of a column so; a new column takes its values, its name
        and its place in keys and constraints, behind all other columns.
        """
        self.refuse_offline(name, f"narrow column {column!r}")
        table = self.table(name, schema)
        found, new = table.column(column), self.type_name(kind)
        if found.type == new:
            return
        self.refuse_layout_needs(table, found.name)
        self._require_fitting(table, found, new)
        self._replace_column(table, found, replace(found, type=new))

    def type_name(self, kind: Any) -> TypeName:
        """Return a type of SQLAlchemy as a lake keeps it."""
        model = schema.Table("t", schema.MetaData(), schema.Column("c", kind))
        return nested.stored(catalog.column_of_model(model.c["c"], self.compiler).type)

    def spelled(self, kind: TypeName) -> str:
        """Write a type."""
        return self.dialect.type_compiler_instance.process(sql_type(kind))

    def _field(
        self, name: str, path: Sequence[str], schema: str | None, *, inside: bool = True
    ) -> tuple[LakeTable, FoundColumn, Path]:
        """Return the table, the column, and the rest of a path."""
        table = self.table(name, schema)
        if isinstance(path, str) or not path or (inside and len(path) < 2):
            raise MigrationRefused(
                table.name,
                f"{path!r} leads to no field",
                "give a list that begins with the column, like ['place', 'lat']",
            )
        return table, table.column(path[0]), tuple(path[1:])

    def _require_field(
        self, table: LakeTable, column: FoundColumn, path: Sequence[str]
    ) -> None:
        inner = tuple(path[1:])
        parent = nested.at(column.type, inner[:-1])
        found = nested.at(column.type, inner)
        if found is None or parent is None:
            raise MigrationRefused(
                table.name, f"there is no field {_dotted(path)}", _told(column)
            )

    def _refuse_read_field(self, table: LakeTable, path: Sequence[str]) -> None:
        """Refuse to touch a field that a check, an index or the order of rows reads."""
        said = table.constraints
        texts = [*(one.sqltext for one in said.checks), *said.computed.values()]
        texts += [each for one in said.indexes for each in one.expressions]
        texts += [key.expression for key in self.layout(table).sort_by]
        wanted = path[-1].lower()
        for each in texts:
            for reference in references_in(each):
                if path[0].lower() in reference and wanted in reference:
                    raise MigrationRefused(
                        table.name, f"{_dotted(path)} is read by: {each}", "drop that first"
                    )

    def _keep(self, table: LakeTable, column: FoundColumn, kind: TypeName) -> None:
        self.remember(table.with_column(replace(column, type=kind)))

    def _require_fitting(self, table: LakeTable, column: FoundColumn, new: TypeName) -> None:
        """Raise MigrationRefused if a value would not come back from the new type."""
        kind = sql_type(column.type)
        value = type_coerce(audits.clause(table).c[column.name], kind)
        back = sql_cast(TriedCast(value, new), kind)
        query = select(value).where(back.is_distinct_from(value)).limit(_EXAMPLES)
        found = [repr(one) for (one,) in self.lake.execute(query)]
        if found:
            raise MigrationRefused(
                table.name,
                f"column {column.name!r} holds values that are no {self.spelled(new)}, for "
                f"example {', '.join(found)}",
                "change or delete them first",
            )

    def _replace_column(self, table: LakeTable, old: FoundColumn, new: FoundColumn) -> None:
        """Let a new column take the values, the name and the promises of an old one."""
        if new.default is not None and _literal.fullmatch(new.default) is None:
            raise MigrationRefused(
                table.name,
                f"column {old.name!r} has the default {new.default}, which a lake takes only "
                "for a column that is made with its table",
                "drop the default first",
            )
        made = replace(new, name=_unused(table), default=None, comment=None, nullable=True)
        target = audits.clause(table.with_column(made))
        kind = sql_type(new.type)
        self._exec(base.AddColumn(table.name, schema_column(made), schema=table.schema))
        value = sql_cast(type_coerce(target.c[old.name], sql_type(old.type)), kind)
        self._exec(update(target).values({made.name: value}))
        if not new.nullable:
            self.set_not_null(table.with_column(made), made.name)
        self._exec(base.DropColumn(table.name, schema_column(old), schema=table.schema))
        self._exec(base.ColumnName(table.name, made.name, new.name, schema=table.schema))
        if new.default is not None:
            default = text(new.default)
            self._exec(base.ColumnDefault(table.name, new.name, default, schema=table.schema))
        others = {name: one for name, one in table.columns.items() if name != old.name}
        self.settle_column(replace(table, columns={**others, new.name: new}), new.name)


def schema_column(column: FoundColumn) -> schema.Column[Any]:
    """Return a column for a statement about its name and type."""
    return schema.Column(column.name, sql_type(column.type))


def _unused(table: LakeTable) -> str:
    """Return a name that no column of a table has."""
    there = {name.lower() for name in table.columns}
    names = (f"narrowed_{number}" for number in itertools.count())
    return next(name for name in names if name not in there)


def _dotted(path: Sequence[str]) -> str:
    return ".".join(path)


def _told(column: FoundColumn) -> str:
    return f"column {column.name!r} has {', '.join(_paths(column.type)) or 'no fields'}"


def _paths(kind: TypeName) -> Iterator[str]:
    for name, one in kind.inside:
        yield name
        yield from (f"{name}.{inner}" for inner in _paths(one))
