"""Data definition: what DuckLake refuses is kept in comments.

DuckLake has NOT NULL and DEFAULT, and nothing else of what a table may declare.  Keys and
constraints become tags (see :mod:`sqlalchemy_ducklake.keys`) in the same script, which the
driver runs in one transaction.  Temporary tables live in DuckDB itself, which has keys.
"""

# The visit methods take what SQLAlchemy hands to every one of them.
# ruff: noqa: ARG002

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import cast, exc, func, literal, literal_column, schema, select
from sqlalchemy import types as sqltypes
from sqlalchemy.sql.compiler import DDLCompiler, IdentifierPreparer

from sqlalchemy_ducklake.dialect import tags
from sqlalchemy_ducklake.dialect.lateoptions import TableOptions
from sqlalchemy_ducklake.dialect.layout import Layout, layout_of
from sqlalchemy_ducklake.driver.script import Role, Script, Step
from sqlalchemy_ducklake.errors import NameTooLong
from sqlalchemy_ducklake.keys import constraints_tag, key_tags

# A key is compared for equality, and these types have none that means the same for every
# reader of the Parquet files.
_NO_KEY = {
    "FLOAT": "equality of floats is not exact; use Numeric",
    "DOUBLE": "equality of floats is not exact; use Numeric",
    "JSON": "equal JSON may be written in many ways; use a column for each part",
    "VARIANT": "values of many types cannot be compared; use a column of one type",
    "GEOMETRY": "equal shapes may be written in many ways; use an identifier",
    "INTERVAL": "30 days and one month are equal to the engine; use a number",
}
#: What a script counts: whether the table that it makes was missing.
MISSING = "missing"
_NESTED_KEY = "a nested value cannot be a key; use a column for each part"


# The most bytes that a file system takes for the name of a folder.
_LONGEST = 255
# Names of these letters alone become those of folders.
_names_folder = re.compile(r"[A-Za-z0-9_-]+").fullmatch


class DuckLakeDDLCompiler(DDLCompiler):
    """Compile data definition to what DuckLake understands, constraints to comments."""

    #: What the steps of the compiled string are for, if some of them depend on others.
    script: Script | None = None
    #: What is set once the table that was compiled is committed; DuckLake takes it no earlier.
    options: TableOptions | None = None

    def visit_create_table(self, create: schema.CreateTable, **kw: Any) -> str:
        """Compile to a script: the bare table, then comments with tags, then its layout.

        With IF NOT EXISTS all that is done only if this script made the table: one that is
        there already keeps its own keys.
        """
        table = create.element
        if not _is_temporary(table):
            self._require_folder("table", str(table.name))
        base: Any = super()
        created = str(base.visit_create_table(create, **kw)).strip()
        rest = [*self._comments(table), *self._layout(table)]
        if not (create.if_not_exists and (rest or self.options)):
            return ";\n".join([created, *rest])
        self.script = Script(
            (Step(Role.COUNTS), Step(), *(Step(when=(MISSING,)) for _ in rest)),
            guarded=True,
            mode="create table",
            defines=True,
        )
        return ";\n".join([self._count_missing(table), created, *rest])

    def visit_create_schema(self, create: schema.CreateSchema, **kw: Any) -> str:
        """Compile as SQL has it; raises NameTooLong if it could hold no file."""
        self._require_folder("schema", str(create.element))
        return str(super().visit_create_schema(create, **kw))

    def _require_folder(self, kind: str, name: str) -> None:
        """Refuse what the engine would make, and could then write nothing into."""
        local = getattr(self.dialect, "has_local_files", True)
        if local and len(name) > _LONGEST and _names_folder(name):
            raise NameTooLong(kind, name, _LONGEST)

    def _layout(self, table: schema.Table) -> Iterator[str]:
        """Give the statements that lay out a table that was just created."""
        layout = layout_of(table, self)
        if layout != Layout() and _is_temporary(table):
            raise exc.CompileError(
                f"table {table.description!r} is temporary, and only tables of the lake have a "
                "layout"
            )
        if layout.options:
            place = tags.schema_of(table, self)
            self.options = TableOptions(place, str(table.name), layout.options)
        name = self.preparer.format_table(table)
        if layout.partition_by:
            yield f"ALTER TABLE {name} {partitioned_by(layout, self.preparer)}"
        if layout.sort_by:
            yield f"ALTER TABLE {name} {sorted_by(layout)}"

    def _count_missing(self, table: schema.Table) -> str:
        """SELECT 'missing', 1 if there is no such table yet, or 0."""
        columns = func.duckdb_columns().table_valued(
            "database_name", "schema_name", "table_name", name="columns"
        )
        lake = "temp" if _is_temporary(table) else func.current_database()
        place: Any = "main" if _is_temporary(table) else tags.schema_of(table, self)
        query = select(
            literal(MISSING), cast(func.count() == literal_column("0"), sqltypes.BigInteger)
        ).where(
            columns.c.database_name == lake,
            func.lower(columns.c.schema_name) == func.lower(place or func.current_schema()),
            func.lower(columns.c.table_name) == func.lower(str(table.name)),
        )
        return str(self.sql_compiler.process(query, literal_binds=True))

    def create_table_constraints(self, table: schema.Table, *args: Any, **kw: Any) -> str:
        """Leave constraints to the tags."""
        if not _is_temporary(table):
            return ""
        base: Any = super()
        return str(base.create_table_constraints(table, *args, **kw))

    def visit_create_column(self, create: Any, first_pk: bool = False, **kw: Any) -> str | None:
        """Compile a column without the constraints that were given to it."""
        column = create.element
        if column.system:
            return None
        if _is_temporary(column.table):
            base: Any = super()
            return str(base.visit_create_column(create, first_pk=first_pk, **kw))
        return self.get_column_specification(column, first_pk=first_pk)

    def get_column_specification(self, column: schema.Column[Any], **kw: Any) -> str:
        """Compile name, type, DEFAULT and NOT NULL, which is all a lake's column has."""
        if column.computed is not None and column.computed.persisted is False:
            raise exc.CompileError(
                "a lake stores what it computes; leave out persisted=False, or use a view, or "
                "column_property() in the ORM"
            )
        kind = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        if column.primary_key and not _is_temporary(column.table):
            check_key_type(kind)
        parts = [self.preparer.format_column(column), kind]
        default = self.get_column_default_string(column)
        if default is not None:
            parts += ["DEFAULT", default]
        if column.primary_key or not column.nullable:
            parts.append("NOT NULL")
        return " ".join(parts)

    def render_default_string(self, default: Any) -> str:
        """Compile a default; the text NULL as an expression, or it would be no default."""
        text = super().render_default_string(default)
        return "concat('NULL')" if text == "'NULL'" else text

    def visit_create_index(self, create: schema.CreateIndex, *args: Any, **kw: Any) -> str:
        """Write the index into the tag of its table: a lake keeps no indexes."""
        table = create.element.table
        if table is None or _is_temporary(table):
            base: Any = super()
            return str(base.visit_create_index(create, *args, **kw))
        return self._retag(table)

    def visit_drop_index(self, drop: schema.DropIndex, **kw: Any) -> str:
        """Write the tag of the table without the index."""
        index = drop.element
        if index.table is None or _is_temporary(index.table):
            base: Any = super()
            return str(base.visit_drop_index(drop, **kw))
        return self._retag(index.table, without=[index])

    def visit_add_constraint(self, create: schema.AddConstraint, **kw: Any) -> str:
        """Write the tag of the table with all its constraints."""
        self._refuse_key_change(create.element)
        return self._retag(create.element.table)

    def visit_drop_constraint(self, drop: schema.DropConstraint, **kw: Any) -> str:
        """Write the tag of the table without the constraint."""
        self._refuse_key_change(drop.element)
        return self._retag(drop.element.table, without=[drop.element])

    def visit_set_table_comment(self, create: schema.SetTableComment, **kw: Any) -> str:
        """Write the comment and keep the tag behind it."""
        return self._retag(create.element)

    def visit_drop_table_comment(self, drop: schema.DropTableComment, **kw: Any) -> str:
        """Leave nothing but the tag."""
        table = drop.element
        _refuse_unknown(table)
        tag = constraints_tag(tags.constraints_of(table, self))
        return self._comment_on_table(table, tag)

    def visit_set_column_comment(self, create: schema.SetColumnComment, **kw: Any) -> str:
        """Write the comment and keep the tag behind it."""
        column = create.element
        comment = tags.column_comments(column.table, self)[column.name]
        return self._guarded_comment(column, comment)

    def visit_drop_column_comment(self, drop: schema.DropColumnComment, **kw: Any) -> str:
        """Leave nothing but the tag."""
        column = drop.element
        tag = key_tags(tags.primary_key_of(column.table, self)).get(column.name)
        return self._guarded_comment(column, tag)

    def visit_create_sequence(self, create: Any, prefix: Any = None, **kw: Any) -> str:
        """Refuse: DuckLake has no sequences."""
        raise exc.CompileError(
            f"a lake has no sequences, so {create.element.name!r} cannot be created; integer "
            "keys without a value are given one by this package"
        )

    def visit_drop_sequence(self, drop: Any, **kw: Any) -> str:
        """Refuse: DuckLake has no sequences."""
        raise exc.CompileError(
            f"a lake has no sequences, so {drop.element.name!r} cannot be dropped"
        )

    def _comments(self, table: schema.Table) -> Iterator[str]:
        """Give the statements that comment on a table that was just created.

        Its indexes have statements of their own, which come later.
        """
        comment = tags.table_comment(table, self, without=table.indexes)
        comments = tags.column_comments(table, self)
        if comment is not None:
            yield self._comment_on_table(table, comment)
        for column in table.columns:
            if comments[column.name] is not None:
                yield self._comment_on_column(column, comments[column.name])

    def _comment_on_table(self, table: schema.Table, comment: str | None) -> str:
        name = self.preparer.format_table(table)
        return f"COMMENT ON TABLE {name} IS {self._literal(comment)}"

    def _comment_on_column(self, column: schema.Column[Any], comment: str | None) -> str:
        name = self.preparer.format_column(column, use_table=True, use_schema=True)
        return f"COMMENT ON COLUMN {name} IS {self._literal(comment)}"

    def _guarded_comment(self, column: schema.Column[Any], comment: str | None) -> str:
        """Comment on a column that may not be there any more.

        A comment on a missing column ends the whole DuckDB instance; reading the column
        first ends in a plain error.
        """
        name = self.preparer.format_column(column)
        table = self.preparer.format_table(column.table)
        return (
            f"SELECT {name} FROM {table} WHERE false;\n"
            f"{self._comment_on_column(column, comment)}"
        )

    def _retag(self, table: schema.Table, *, without: Sequence[Any] = ()) -> str:
        _refuse_unknown(table)
        return self._comment_on_table(table, tags.table_comment(table, self, without=without))

    def _literal(self, comment: str | None) -> str:
        if comment is None:
            return "NULL"
        return self.sql_compiler.render_literal_value(comment, sqltypes.String())

    def _refuse_key_change(self, constraint: schema.Constraint) -> None:
        if isinstance(constraint, schema.PrimaryKeyConstraint):
            raise exc.CompileError(
                f"the primary key of table {constraint.table.description!r} is made with the "
                "table; to change it, create the table anew and copy the rows"
            )


def partitioned_by(layout: Layout, preparer: IdentifierPreparer) -> str:
    """Write the partitions of a layout for ALTER TABLE."""
    if not layout.partition_by:
        return "RESET PARTITIONED BY"
    keys = ", ".join(key.sql(preparer.quote) for key in layout.partition_by)
    return f"SET PARTITIONED BY ({keys})"


def sorted_by(layout: Layout) -> str:
    """Write the order of a layout for ALTER TABLE."""
    if not layout.sort_by:
        return "RESET SORTED BY"
    return f"SET SORTED BY ({', '.join(key.sql() for key in layout.sort_by)})"


def check_key_type(kind: str) -> None:
    """Raise CompileError if columns of a type, as the engine spells it, cannot be a key."""
    nested = kind.endswith("]") or kind.startswith(("STRUCT(", "MAP("))
    reason = _NESTED_KEY if nested else _NO_KEY.get(kind)
    if reason is not None:
        raise exc.CompileError(f"a column of type {kind} cannot be a key: {reason}")


def _is_temporary(table: schema.Table) -> bool:
    prefixes = getattr(table, "_prefixes", ())
    return any(prefix.upper() in {"TEMP", "TEMPORARY"} for prefix in prefixes)


def _refuse_unknown(table: schema.Table) -> None:
    """Refuse to write the tag of a table of which only a part is known.

    All constraints of a table are in one tag, so writing it from a Table that was made up
    for one of them would drop the others.
    """
    if not table.columns or any(isinstance(c.type, sqltypes.NullType) for c in table.columns):
        raise exc.CompileError(
            f"table {table.description!r} is not known completely, and its constraints and "
            "comment are kept together; load it with autoload_with first"
        )
