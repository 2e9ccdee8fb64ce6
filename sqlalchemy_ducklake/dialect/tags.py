"""What a :class:`Table` declares, as the tags that keep it in a lake."""

# What SQLAlchemy asks of a constraint before it creates one is private.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from sqlalchemy import exc, schema
from sqlalchemy import types as sqltypes
from sqlalchemy.sql import operators
from sqlalchemy.sql.compiler import DDLCompiler
from sqlalchemy.sql.elements import UnaryExpression

from sqlalchemy_ducklake.errors import ReservedComment
from sqlalchemy_ducklake.keys import (
    Check,
    Constraints,
    ForeignKey,
    Index,
    PrimaryKey,
    Unique,
    constraints_tag,
    join_comment,
    key_tags,
)

_IDENTITY_OPTIONS = ("always", "start", "increment", "minvalue", "maxvalue", "cycle", "cache")
_FOREIGN_KEY_OPTIONS = ("ondelete", "onupdate", "deferrable", "initially")


def primary_key_of(table: schema.Table, compiler: DDLCompiler) -> PrimaryKey:
    """Return the key that a table declares; it has no columns if there is none."""
    columns = tuple(column.name for column in table.primary_key.columns)
    return PrimaryKey(columns, name_of(table.primary_key, compiler))


def constraints_of(
    table: schema.Table, compiler: DDLCompiler, *, without: Container[schema.SchemaItem] = ()
) -> Constraints:
    """Return what a table declares besides its key, except for some constraints or indexes."""
    kept = [one for one in _declared(table, compiler) if one not in without]
    indexes = [index for index in table.indexes if index not in without]
    return Constraints(
        unique=_sorted(_unique(one, compiler) for one in _only(schema.UniqueConstraint, kept)),
        foreign_keys=_sorted(
            _foreign_key(one, compiler) for one in _only(schema.ForeignKeyConstraint, kept)
        ),
        checks=_sorted(_check(one, compiler) for one in _only(schema.CheckConstraint, kept)),
        indexes=_sorted(_index(index, compiler) for index in indexes),
        identity={
            column.name: _options(column.identity, _IDENTITY_OPTIONS)
            for column in table.columns
            if column.identity is not None
        },
        computed={
            column.name: _plain(column.computed.sqltext, compiler)
            for column in table.columns
            if column.computed is not None
        },
        types=_types(table, compiler),
    )


def table_comment(
    table: schema.Table, compiler: DDLCompiler, *, without: Container[schema.SchemaItem] = ()
) -> str | None:
    """Return the comment of a table with its tag."""
    tag = constraints_tag(constraints_of(table, compiler, without=without))
    return _joined(table.comment, tag, f"table {table.description!r}")


def column_comments(table: schema.Table, compiler: DDLCompiler) -> Mapping[str, str | None]:
    """Return the comment of each column of a table with its tag."""
    tags = key_tags(primary_key_of(table, compiler))
    return {
        column.name: _joined(
            column.comment,
            tags.get(column.name),
            f"column {column.name!r} of table {table.description!r}",
        )
        for column in table.columns
    }


def name_of(item: schema.Constraint | schema.Index, compiler: DDLCompiler) -> str | None:
    """Return the name of a constraint, by naming convention if it has none of its own."""
    if item.name is None:
        return None
    # The flag turns quoting off; it is how Alembic asks for a plain name.
    name: str | None = compiler.preparer.format_constraint(item, _alembic_quote=False)
    return None if name is None else str(name)


def schema_of(table: schema.Table, compiler: DDLCompiler) -> str | None:
    """Return the schema of a table, after translation."""
    translated = getattr(compiler, "schema_translate_map", None) or {}
    found = translated.get(table.schema, table.schema)
    return None if found is None else str(found)


def _joined(comment: str | None, tag: str | None, place: str) -> str | None:
    try:
        return join_comment(comment, tag)
    except ReservedComment as error:
        raise exc.CompileError(f"(in {place}): {error}") from error


def checks_of(table: schema.Table, compiler: DDLCompiler) -> list[schema.CheckConstraint]:
    """Return the CHECK constraints of a table, those of its columns among them."""
    return list(_only(schema.CheckConstraint, _declared(table, compiler)))


def _declared(table: schema.Table, compiler: DDLCompiler) -> list[schema.Constraint]:
    # A CHECK that was given to a column is known to the column only.
    everywhere = [*table.constraints, *(one for c in table.columns for one in c.constraints)]
    return [each for each in dict.fromkeys(everywhere) if _is_wanted(each, compiler)]


def _is_wanted(constraint: Any, compiler: DDLCompiler) -> bool:
    """Tell whether a constraint belongs to the table on this database.

    AddConstraint and DropConstraint switch a constraint off for every later CREATE TABLE,
    because they make or remove it alone; here it is always kept with the others.
    """
    if constraint._type_bound:
        return bool(constraint._should_create_for_compiler(compiler))
    rule = constraint._ddl_if
    return rule is None or bool(rule._should_execute(constraint, constraint, None, compiler))


def _only(kind: type[Any], constraints: Iterable[schema.Constraint]) -> Iterable[Any]:
    return (one for one in constraints if isinstance(one, kind))


def _sorted(parts: Iterable[Any]) -> tuple[Any, ...]:
    """Sort, so that one table has one tag whatever the order of its sets."""
    return tuple(sorted(parts, key=lambda part: (part.name or "", repr(part))))


def _unique(constraint: schema.UniqueConstraint, compiler: DDLCompiler) -> Unique:
    columns = tuple(column.name for column in constraint.columns)
    return Unique(columns, name_of(constraint, compiler))


def _foreign_key(constraint: schema.ForeignKeyConstraint, compiler: DDLCompiler) -> ForeignKey:
    referred = constraint.referred_table
    here, there = schema_of(constraint.table, compiler), schema_of(referred, compiler)
    default = compiler.dialect.default_schema_name
    return ForeignKey(
        columns=tuple(element.parent.name for element in constraint.elements),
        table=referred.name,
        referred=tuple(element.column.name for element in constraint.elements),
        schema=None if here == there else str(there or default),
        name=name_of(constraint, compiler),
        options=_options(constraint, _FOREIGN_KEY_OPTIONS),
    )


def _check(constraint: schema.CheckConstraint, compiler: DDLCompiler) -> Check:
    text = _plain(constraint.sqltext, compiler)
    return Check(text, name_of(constraint, compiler))


def _index(index: schema.Index, compiler: DDLCompiler) -> Index:
    name = name_of(index, compiler)
    if name is None:
        raise exc.CompileError("an index must have a name to be kept in a lake")
    parts = [_sorted_column(one) for one in index.expressions]
    names = tuple(one.name if isinstance(one, schema.Column) else None for one, _ in parts)
    texts = () if all(names) else tuple(_plain(one, compiler) for one, _ in parts)
    sorting = {one.name: words for one, words in parts if words}
    included = index.dialect_options["ducklake"]["include"] or ()
    include = tuple(one if isinstance(one, str) else one.name for one in included)
    return Index(name, names, bool(index.unique), texts, sorting, include)


# How an index may sort a column, in SQLAlchemy's words.
_SORTING = {
    operators.asc_op: "asc",
    operators.desc_op: "desc",
    operators.nulls_first_op: "nulls_first",
    operators.nulls_last_op: "nulls_last",
}


def _sorted_column(expression: Any) -> tuple[Any, list[str]]:
    """Part a column from the words that sort it; any other expression is left whole."""
    words: list[str] = []
    inner = expression
    while isinstance(inner, UnaryExpression) and inner.modifier in _SORTING:
        words.insert(0, _SORTING[inner.modifier])
        inner = inner.element
    return (inner, words) if isinstance(inner, schema.Column) else (expression, [])


def _types(table: schema.Table, compiler: DDLCompiler) -> dict[str, str]:
    """Give the types of text that say more than VARCHAR, by column."""
    found = {column.name: _text_type(column.type, compiler) for column in table.columns}
    return {name: text for name, text in found.items() if text != "VARCHAR"}


def _text_type(kind: Any, compiler: DDLCompiler) -> str:
    text = kind._unwrapped_dialect_impl(compiler.dialect)
    if not isinstance(text, sqltypes.String) or isinstance(text, sqltypes.Enum):
        return "VARCHAR"
    kinds = (sqltypes.NVARCHAR, sqltypes.NCHAR, sqltypes.CHAR, sqltypes.String)
    names = ("NVARCHAR", "NCHAR", "CHAR", "VARCHAR")
    name = next(name for one, name in zip(kinds, names, strict=True) if isinstance(text, one))
    return f"{name}({text.length})" if text.length else name


def _plain(expression: Any, compiler: DDLCompiler) -> str:
    return compiler.sql_compiler.process(expression, include_table=False, literal_binds=True)


def _options(holder: Any, names: Iterable[str]) -> dict[str, Any]:
    said = ((name, getattr(holder, name, None)) for name in names)
    return {name: value for name, value in said if value is not None}
