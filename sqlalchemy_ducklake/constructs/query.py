"""What DuckDB's SELECT has and SQLAlchemy's has not."""

# SQLAlchemy's elements are extended by their private parts.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import exc
from sqlalchemy import types as sqltypes
from sqlalchemy.sql import coercions, roles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement, ColumnElement, TextClause
from sqlalchemy.sql.selectable import FromClause, Join, SelectBase
from sqlalchemy.sql.visitors import InternalTraversal


class Qualify(ColumnElement[bool]):
    """A condition on what window functions give; see :func:`qualify`."""

    __visit_name__ = "ducklake_qualify"
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("condition", InternalTraversal.dp_clauseelement)
    ]
    inherit_cache = True
    type = sqltypes.Boolean()

    def __init__(self, condition: Any) -> None:
        self.condition = coercions.expect(roles.WhereHavingRole, condition)

    @property
    def _from_objects(self) -> list[FromClause]:
        return list(self.condition._from_objects)


def qualify(condition: Any) -> Any:
    """Make a QUALIFY: a condition on window functions, as HAVING is one on groups.

    It stands where a HAVING does::

        newest = func.row_number().over(partition_by=t.c.sku, order_by=t.c.day.desc())
        select(t).having(qualify(newest == 1))
    """
    return Qualify(condition)


class AsofJoin(Join):
    """A join with the nearest row; see :func:`asof_join`."""

    __visit_name__ = "ducklake_asof_join"
    inherit_cache = True


def asof_join(left: Any, right: Any, onclause: Any, *, isouter: bool = False) -> AsofJoin:
    """Join each row of ``left`` with the one row of ``right`` that is nearest.

    The condition has equalities, if any, and one inequality: ``left.c.at >= right.c.at``
    finds the newest row of ``right`` that is not newer.  With ``isouter`` a row that finds
    none is kept.
    """
    return AsofJoin(left, right, onclause, isouter=isouter)


class Star(TextClause):
    """All columns of a table but some; see :func:`star`."""

    __visit_name__ = "ducklake_star"
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("table", InternalTraversal.dp_clauseelement),
        ("excluded", InternalTraversal.dp_string_list),
        ("replaced", InternalTraversal.dp_string_clauseelement_dict),
    ]
    inherit_cache = True

    def __init__(
        self, table: FromClause, excluded: Iterable[str], replaced: Mapping[str, Any]
    ) -> None:
        super().__init__("*")
        self.table = table
        self.excluded = list(excluded)
        self.replaced = dict(replaced)

    @property
    def _from_objects(self) -> list[FromClause]:
        return [self.table]


def star(
    table: Any, *, exclude: Iterable[Any] = (), replace: Mapping[Any, Any] | None = None
) -> Star:
    """Select all columns that a table has in the lake, but some, and some replaced.

    Columns are given by name or as ``Column``.  What comes back is named as the engine
    names it and has the types of the cursor: the table may have columns that its ``Table``
    does not know.
    """
    source = coercions.expect(roles.FromClauseRole, table)
    replaced = {
        _name(column): coercions.expect(roles.ExpressionElementRole, value)
        for column, value in (replace or {}).items()
    }
    return Star(source, map(_name, exclude), replaced)


def _name(column: Any) -> str:
    return column if isinstance(column, str) else str(column.name)


class Argument(ColumnElement[Any]):
    """An argument of a function, with its name; see :func:`argument`."""

    __visit_name__ = "ducklake_argument"
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("name", InternalTraversal.dp_string),
        ("value", InternalTraversal.dp_clauseelement),
    ]
    inherit_cache = True

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = coercions.expect(roles.ExpressionElementRole, value)
        self.type = self.value.type

    @property
    def _from_objects(self) -> list[FromClause]:
        return list(self.value._from_objects)


def argument(name: str, value: Any) -> Any:
    """Name an argument of a function.

    As in ``func.read_csv("a.csv", argument("delim", ";"))`` or
    ``func.struct_pack(argument("a", t.c.a))``.
    """
    return Argument(name, value)


class Explain(Executable, ClauseElement):
    """The plan of a query; see :func:`explain`."""

    __visit_name__ = "ducklake_explain"
    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("query", InternalTraversal.dp_clauseelement),
        ("analyze", InternalTraversal.dp_boolean),
        *Executable._executable_traverse_internals,
    ]
    inherit_cache = True

    def __init__(self, query: Any, *, analyze: bool) -> None:
        self.query = query
        self.analyze = analyze


def explain(query: Any, *, analyze: bool = False) -> Explain:
    """Ask for the plan of a SELECT: rows of ``explain_key`` and ``explain_value``.

    With ``analyze`` the query runs, and the plan tells what each step took.  Raises
    ArgumentError for what is no query: a data change is several statements to the engine.
    """
    if not isinstance(query, SelectBase):
        kind = type(query).__name__
        raise exc.ArgumentError(f"explain() takes a SELECT, not {kind}")
    return Explain(query, analyze=analyze)
