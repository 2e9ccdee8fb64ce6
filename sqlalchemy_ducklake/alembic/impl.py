"""What each operation of Alembic does on a lake.

Keys and constraints are in the comments of a table, all of them together, so every
operation on one reads the table, audits its rows, and writes what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from alembic.ddl import base
from sqlalchemy import schema
from sqlalchemy.types import TypeEngine

from sqlalchemy_ducklake.alembic import audits, catalog, nested
from sqlalchemy_ducklake.alembic.comparison import same_default
from sqlalchemy_ducklake.alembic.fields import FieldOperations
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused, late_rename
from sqlalchemy_ducklake.alembic.revisions import RevisionRun
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.dialect import tags
from sqlalchemy_ducklake.dialect.ddl import check_key_type
from sqlalchemy_ducklake.dialect.lateoptions import TableOptions
from sqlalchemy_ducklake.dialect.layout import layout_of
from sqlalchemy_ducklake.dialect.reflection.typenames import sql_type
from sqlalchemy_ducklake.dialect.types import MAP, STRUCT
from sqlalchemy_ducklake.keys import Constraints, PrimaryKey

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext

_PARTS: Mapping[type[schema.Constraint], tuple[str, ...]] = {
    schema.UniqueConstraint: ("unique",),
    schema.ForeignKeyConstraint: ("foreign_keys",),
    schema.CheckConstraint: ("checks",),
}
# What Alembic calls the table of an index that was named without one.
_UNSAID = "no_table"
_ANY = ("unique", "foreign_keys", "checks")


class DuckLakeImpl(RevisionRun, FieldOperations):
    """Migrations of a lake."""

    __dialect__ = "ducklake"
    transactional_ddl = True

    def create_table(self, table: schema.Table, **kw: Any) -> None:
        """Create a table, laid out as it says."""
        super().create_table(table, **kw)
        if kw.get("if_not_exists"):
            return
        made = catalog.of_model(table, self.compiler, self.real_schema(table.schema))
        layout = layout_of(table, self.compiler)
        self.remember(made)
        self.remember_layout(made, layout)
        if self.as_sql:
            self.created.add((made.schema, made.name))
            self.set_later(TableOptions(made.schema, made.name, layout.options))

    def drop_table(self, table: schema.Table, **kw: Any) -> None:
        """Drop a table, and its keys with it; refused while another one refers to it."""
        if not kw.get("if_exists"):
            self._refuse_referred(self.table(table.name, table.schema), ())
        super().drop_table(table, **kw)
        self.forget(table.name, table.schema)

    def rename_table(
        self, old_table_name: str, new_table_name: str, schema: str | None = None
    ) -> None:
        """Rename a table; foreign keys follow.

        Raises MigrationRefused after another change of the table in the same transaction.
        """
        before = self.table(old_table_name, schema)
        self._refuse_late_rename(before)
        parent = before.schema, before.name
        others = [
            one
            for one in self.tables()
            if one.referring(*parent) and (one.schema, one.name) != parent
        ]
        layout = self.layout(before)
        self._exec(base.RenameTable(old_table_name, new_table_name, schema=schema))
        self.forget(before.name, before.schema)
        after = replace(before, name=str(new_table_name))
        self.remember_layout(after, layout)
        for one in (after, *others):
            self.settle(one, one.with_parent_renamed(*parent, str(new_table_name)))

    def _refuse_late_rename(self, table: LakeTable) -> None:
        """Refuse to rename what this transaction altered; the driver would, too."""
        raw: Any = None if self.as_sql else self.lake.connection.dbapi_connection
        if raw is not None and table.name.lower() in raw.work.altered:
            raise late_rename(table.name)

    def create_table_comment(self, table: schema.Table) -> None:
        """Write the comment of a table and keep its tag."""
        before = self.table(table.name, table.schema)
        self.settle(before, replace(before, comment=table.comment))

    def drop_table_comment(self, table: schema.Table) -> None:
        """Leave nothing but the tag."""
        before = self.table(table.name, table.schema)
        self.settle(before, replace(before, comment=None))

    def add_constraint(self, const: Any, **kw: Any) -> None:
        """Audit the rows, then write the constraint into the tag."""
        del kw
        before = self.table(const.table.name, const.table.schema)
        if isinstance(const, schema.PrimaryKeyConstraint):
            self._add_primary_key(before, tags.primary_key_of(const.table, self.compiler))
        else:
            self._promise(before, self._only(const))

    def drop_constraint(self, const: schema.Constraint, **kw: Any) -> None:
        """Write the tag without the constraint; raises MigrationRefused if there is none."""
        before = self.table(const.table.name, const.table.schema)
        name = tags.name_of(const, self.compiler)
        is_key = name is not None and name == before.key.name
        if isinstance(const, schema.PrimaryKeyConstraint) or is_key:
            self._refuse_last_key(before, before.key.columns)
            self._drop_primary_key(before, name)
            return
        for unique in before.constraints.unique:
            if name is not None and unique.name == name:
                self._refuse_last_key(before, unique.columns)
        self._break(before, name, _PARTS.get(type(const), _ANY), **kw)

    def create_index(self, index: schema.Index, **kw: Any) -> None:
        """Write the index into the tag; a unique one is audited like a constraint."""
        before = self._table_of(index)
        there = {one.name for one in before.constraints.indexes}
        if not (kw.get("if_not_exists") and tags.name_of(index, self.compiler) in there):
            self._promise(before, self._only(index))

    def drop_index(self, index: schema.Index, **kw: Any) -> None:
        """Write the tag without the index; raises MigrationRefused if there is none."""
        before = self._table_of(index)
        self._break(before, tags.name_of(index, self.compiler), ("indexes",), **kw)

    def compare_server_default(
        self,
        inspector_column: schema.Column[Any],  # noqa: ARG002 - Alembic's signature
        metadata_column: schema.Column[Any],
        rendered_metadata_default: str | None,
        rendered_inspector_default: str | None,
    ) -> bool:
        """Tell whether the defaults differ, however each of them is written."""
        if rendered_metadata_default == rendered_inspector_default:
            return False
        if rendered_metadata_default is None or rendered_inspector_default is None:
            return True
        return not same_default(self.lake, rendered_inspector_default, metadata_column)

    def render_type(
        self, type_obj: TypeEngine[Any], autogen_context: AutogenContext
    ) -> str | Literal[False]:
        """Let a script import the types of this package that it names, and those inside."""
        from sqlalchemy_ducklake.alembic.rendering import type_text

        module = type(type_obj).__module__
        if module.split(".")[0] == __name__.split(".")[0]:
            autogen_context.imports.add(f"import {module}")
        if isinstance(type_obj, STRUCT):
            fields = (f"({n!r}, {type_text(k, autogen_context)})" for n, k in type_obj.fields)
            return f"{module}.STRUCT([{', '.join(fields)}])"
        if isinstance(type_obj, MAP):
            parts = (type_obj.key_type, type_obj.value_type)
            inside = ", ".join(type_text(one, autogen_context) for one in parts)
            return f"{module}.MAP({inside})"
        return False

    def compare_type(
        self, inspector_column: schema.Column[Any], metadata_column: schema.Column[Any]
    ) -> bool:
        """Tell whether the types differ; of nested ones, whatever the order of the fields."""
        old, new = self.type_name(inspector_column.type), self.type_name(metadata_column.type)
        if old.inside or new.inside:
            return not nested.same(old, new)
        return bool(super().compare_type(inspector_column, metadata_column))

    def _refuse_last_key(self, table: LakeTable, columns: tuple[str, ...]) -> None:
        """Refuse to drop the only key over columns to which a foreign key refers."""
        keys = [table.key.columns, *(one.columns for one in table.constraints.unique_keys())]
        if sum(set(key) == set(columns) for key in keys) <= 1:
            self._refuse_referred(table, columns)

    def _refuse_referred(self, table: LakeTable, columns: tuple[str, ...]) -> None:
        """Refuse to drop what foreign keys of other tables refer to."""
        for other in self.tables():
            for key in other.referring(table.schema, table.name):
                same = not columns or set(key.referred) == set(columns)
                if same and (other.schema, other.name) != (table.schema, table.name):
                    what = f"({', '.join(columns)})" if columns else "it"
                    raise MigrationRefused(
                        table.name,
                        f"foreign key {key.name!r} of table {other.name!r} refers to {what}",
                        "drop that first",
                    )

    def _only(self, wanted: schema.Constraint | schema.Index) -> Constraints:
        """Say one constraint or index as the tag says it."""
        table: Any = wanted.table
        columns = [one for column in table.columns for one in column.constraints]
        everything = [*table.constraints, *columns, *table.indexes]
        others = [one for one in everything if one is not wanted]
        said = tags.constraints_of(table, self.compiler, without=others)
        return replace(said, identity={}, computed={}, types={})

    def _table_of(self, index: schema.Index) -> LakeTable:
        table: Any = index.table
        if table.name == _UNSAID:
            for one in self.tables():
                if index.name in {each.name for each in one.constraints.indexes}:
                    return one
        return self.table(table.name, table.schema)

    def _promise(self, before: LakeTable, added: Constraints) -> None:
        after = before.with_constraints(added)
        parts: Any = (*added.unique, *added.foreign_keys, *added.indexes)
        for name in (name for one in parts for name in one.columns if name is not None):
            before.column(name)
        audits.require_new(self.ask, before, after)
        self.settle(before, after)

    def _break(
        self, before: LakeTable, name: str | None, parts: tuple[str, ...], **kw: Any
    ) -> None:
        there = [one.name for part in parts for one in getattr(before.constraints, part)]
        if kw.get("if_exists") and name not in there:
            return
        if name is None:
            raise MigrationRefused(
                before.name, "a constraint without a name cannot be found", "name it"
            )
        self.settle(before, before.without_constraint(name, parts))

    def _add_primary_key(self, before: LakeTable, key: PrimaryKey) -> None:
        if before.key.columns:
            raise MigrationRefused(
                before.name,
                f"it has the primary key ({', '.join(before.key.columns)}) already",
                "drop that first: op.drop_constraint(None, …, type_='primary')",
            )
        columns = [before.column(name) for name in key.columns]
        for column in columns:
            kind = self.dialect.type_compiler_instance.process(sql_type(column.type))
            check_key_type(kind)
            audits.require_no_null(self.ask, before, column.name)
        names = tuple(column.name for column in columns)
        audits.require_unique(self.ask, before, names)
        table = before
        for column in columns:
            if column.nullable:
                table = self._change_nullable(table, column.name, nullable=False)
        self.settle(table, replace(table, key=PrimaryKey(names, key.name)))

    def _drop_primary_key(self, before: LakeTable, name: str | None) -> None:
        if not before.key.columns or name not in (None, before.key.name):
            there = before.key.name or ", ".join(before.key.columns) or "none"
            raise MigrationRefused(
                before.name, f"it has no primary key {name!r}", f"its primary key: {there}"
            )
        self.settle(before, replace(before, key=PrimaryKey(())))
