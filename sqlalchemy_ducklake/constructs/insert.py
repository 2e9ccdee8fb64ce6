"""INSERT with ON CONFLICT, with the meaning that it has in SQLite.

Rows are applied in order, so one statement may name a key twice; the conflict target is
the primary key unless ``index_elements`` or ``constraint`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from sqlalchemy import Column, exc
from sqlalchemy.sql import coercions, roles
from sqlalchemy.sql.base import ColumnCollection, ReadOnlyColumnCollection, _generative
from sqlalchemy.sql.dml import Insert as StandardInsert
from sqlalchemy.sql.elements import ClauseElement, ColumnElement, KeyedColumnElement
from sqlalchemy.sql.schema import Constraint
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NULLTYPE

ColumnName = str | Column[Any] | KeyedColumnElement[Any]
Assignments = (
    Mapping[Any, Any]
    | Iterable[tuple[Any, Any]]
    | ColumnCollection[str, Any]
    | ReadOnlyColumnCollection[str, Any]
)


def insert(table: Any) -> Insert:
    """Insert rows into a table or mapped class, with :meth:`Insert.on_conflict_do_update`."""
    return Insert(table)


class Insert(StandardInsert):
    """An INSERT that can say what happens to rows whose key is there already."""

    stringify_dialect = "ducklake"
    inherit_cache = True

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        # Made once: every statement that comes of this one speaks of the same row.
        self._excluded: Any = self.table.alias("excluded")

    @property
    def excluded(self) -> Any:
        """The row that was to be inserted: its columns, for use in ``set_`` and ``where``."""
        return self._excluded.columns

    @_generative
    def on_conflict_do_update(
        self,
        index_elements: Iterable[ColumnName] | None = None,
        *,
        constraint: str | Constraint | None = None,
        set_: Assignments | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Self:
        """Update the row that holds the key already, where ``where`` is true of it.

        ``set_`` maps columns to values, which may use :attr:`excluded` and the stored row;
        without it every column that is inserted takes its new value.  Rows that ``where``
        keeps from being updated count as skipped.
        """
        self._post_values_clause = OnConflict(
            index_elements, constraint, "update", set_, where, self._excluded
        )
        return self

    @_generative
    def on_conflict_do_nothing(
        self,
        index_elements: Iterable[ColumnName] | None = None,
        *,
        constraint: str | Constraint | None = None,
    ) -> Self:
        """Leave the row that holds the key already; of several new ones the first wins."""
        self._post_values_clause = OnConflict(
            index_elements, constraint, "nothing", None, None, self._excluded
        )
        return self


class OnConflict(ClauseElement):
    """What an :class:`Insert` does where its key exists: a value in the statement.

    ``index_elements`` are column names (None: the primary key, or what ``constraint``
    names); ``assignments`` maps column names to values (None: every inserted column).
    """

    __visit_name__ = "ducklake_on_conflict"

    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("index_elements", InternalTraversal.dp_string_list),
        ("constraint", InternalTraversal.dp_string),
        ("action", InternalTraversal.dp_string),
        ("assignments", InternalTraversal.dp_dml_values),
        ("where", InternalTraversal.dp_clauseelement),
        ("excluded", InternalTraversal.dp_clauseelement),
    ]

    def __init__(
        self,
        index_elements: Iterable[ColumnName] | None,
        constraint: str | Constraint | None,
        action: str,
        assignments: Assignments | None,
        where: ColumnElement[bool] | None,
        excluded: Any,
    ) -> None:
        self.index_elements = _names(index_elements)
        self.constraint, from_constraint = _constraint(constraint)
        if self.index_elements is not None and constraint is not None:
            raise exc.ArgumentError("give index_elements or constraint, not both")
        self.index_elements = self.index_elements or from_constraint
        self.action = action
        self.assignments = None if assignments is None else _assignments(assignments)
        self.where = None if where is None else coercions.expect(roles.WhereHavingRole, where)
        self.excluded = excluded


def _names(elements: Iterable[ColumnName] | None) -> tuple[str, ...] | None:
    if elements is None:
        return None
    if isinstance(elements, str):
        raise exc.ArgumentError(
            f"index_elements is a list of columns; write index_elements=[{elements!r}]"
        )
    return tuple(
        element if isinstance(element, str) else _name(element) for element in elements
    )


def _name(element: Any) -> str:
    column = coercions.expect(roles.DDLConstraintColumnRole, element)
    return column if isinstance(column, str) else str(column.name)


def _constraint(
    constraint: str | Constraint | None,
) -> tuple[str | None, tuple[str, ...] | None]:
    if constraint is None or isinstance(constraint, str):
        return constraint, None
    columns = getattr(constraint, "columns", None)
    if columns is None:
        raise exc.ArgumentError(f"{constraint!r} has no columns to conflict on")
    return None, tuple(column.name for column in columns)


def _assignments(assignments: Assignments) -> dict[str, Any]:
    pairs = assignments.items() if hasattr(assignments, "items") else assignments
    values = {
        _key(column): coercions.expect(
            roles.ExpressionElementRole, value, type_=NULLTYPE, is_crud=True
        )
        for column, value in pairs
    }
    if not values:
        raise exc.ArgumentError("set_ is empty; use on_conflict_do_nothing()")
    return values


def _key(column: Any) -> str:
    found = coercions.expect(roles.DMLColumnRole, column)
    return found if isinstance(found, str) else str(found.key)
