"""MERGE, as the SQL standard has it, with the arms that DuckDB adds.

``merge(target).using(source, on=…)`` and then arms, tried in the order in which they are
written: the first whose ``where`` is true of a row decides what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, cast

import pyarrow as pa
from sqlalchemy import and_, exc
from sqlalchemy.sql import coercions, roles
from sqlalchemy.sql.base import CompileState, _generative
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.elements import ClauseElement, ColumnElement
from sqlalchemy.sql.selectable import FromClause, HasCTE, SelectBase, TableClause
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NULLTYPE

from sqlalchemy_ducklake.constructs.source import Batch, is_rows


class _Any(int):
    """The type of :data:`ANY_BASE`, which no snapshot is."""


#: The expected base of who expects nothing; None expects that nothing was written yet.
ANY_BASE: int | None = _Any(-1)

MATCHED, NOT_MATCHED, BY_SOURCE = "matched", "not matched", "not matched by source"


def merge(
    target: Any,
    *,
    compare: Iterable[Any] | None = None,
    unconditional: bool = False,
    preserve_row_ids: bool = True,
    enforce_constraints: str | None = None,
    expected_base: int | None = ANY_BASE,
) -> Merge:
    """Merge rows into a table or mapped class; see :class:`Merge`.

    With ``compare`` these columns alone decide whether a row differs (a version, a hash of
    the row): cheaper, and right if they always change with it.  ``unconditional`` writes
    matched rows without comparing them: the cheapest, and never ``unchanged``.
    An updated row keeps DuckLake's row id, so that the change feed pairs what it was and
    what it is; without ``preserve_row_ids`` it is deleted and inserted, into fewer files.

    ``enforce_constraints`` (``"keys"``, ``"all"``, ``"none"``) and ``expected_base`` (a
    snapshot, None for "never written", since which the table must not have changed) are the
    execution options of these names.
    """
    statement = Merge(
        target, compare, unconditional=unconditional, preserve_row_ids=preserve_row_ids
    )
    if enforce_constraints is not None:
        statement = statement.execution_options(enforce_constraints=enforce_constraints)
    if expected_base is not ANY_BASE:
        statement = statement.execution_options(expected_base=expected_base)
    return statement


def upsert(target: Any, rows: Any, **options: Any) -> Merge:
    """Store complete rows by their primary key: new ones, and those that differ.

    ``rows`` is whatever :meth:`Merge.using` takes; of several for one key the last counts.
    ``options`` are those of :func:`merge`.
    """
    return merge(target, **options).changes(rows)


def delete_keys(target: Any, keys: Any, **options: Any) -> Merge:
    """Delete the rows that have these primary keys; those that are not there do not matter.

    ``keys`` is whatever :meth:`Merge.using` takes, with the columns of the key and no other.
    ``options`` are those of :func:`merge`.
    """
    statement = merge(target, **options)
    key = [str(each.name) for each in statement.table.primary_key]
    statement = statement.changes(_source(keys, key))
    statement.only = "delete"
    found = set(statement.columns_of_source())
    wanted = {column.name for column in statement.table.primary_key}
    if found != wanted:
        raise exc.ArgumentError(
            f"a key of {statement.table} has the columns {sorted(wanted)}, not {sorted(found)}"
        )
    return statement


def patch(target: Any, rows: Any, **options: Any) -> Merge:
    """Set some columns of rows by their primary key, and leave the others.

    ``rows`` is whatever :meth:`Merge.using` takes: the key and the columns to set.  Of several
    rows for one key the last counts; one that is not there is skipped.  ``options`` are those
    of :func:`merge`.
    """
    statement = merge(target, **options).changes(rows)
    statement.only = "patch"
    return statement


class Arm(ClauseElement):
    """One WHEN … THEN …: to which rows it applies, and what it does with them.

    ``values`` None means every column that source and target have both.
    """

    __visit_name__ = "ducklake_merge_arm"

    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("when", InternalTraversal.dp_string),
        ("action", InternalTraversal.dp_string),
        ("values", InternalTraversal.dp_dml_values),
        ("where", InternalTraversal.dp_clauseelement),
    ]

    def __init__(
        self,
        when: str,
        action: str,
        values: Mapping[str, ColumnElement[Any]] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> None:
        self.when = when
        self.action = action
        self.values = None if values is None else dict(values)
        self.where = where


class Merge(UpdateBase):
    """Insert, update and delete rows of a table by comparing it with a source.

    Each method gives a new statement.  A source that matches one row of the target twice
    with an arm that changes it is a CardinalityViolation, as the SQL standard says.
    """

    __visit_name__ = "ducklake_merge"
    stringify_dialect = "ducklake"
    inherit_cache = False

    _traverse_internals = [  # noqa: RUF012 - SQLAlchemy's own form
        ("table", InternalTraversal.dp_clauseelement),
        ("source", InternalTraversal.dp_clauseelement),
        ("on", InternalTraversal.dp_clauseelement),
        ("arms", InternalTraversal.dp_clauseelement_tuple),
        ("version_columns", InternalTraversal.dp_string_list),
        ("is_unconditional", InternalTraversal.dp_boolean),
        ("keeps_row_ids", InternalTraversal.dp_boolean),
        ("is_changes", InternalTraversal.dp_boolean),
        ("only", InternalTraversal.dp_string),
        ("kind_column", InternalTraversal.dp_string),
        ("sequence_column", InternalTraversal.dp_string),
        ("assigned_column", InternalTraversal.dp_string),
        ("_returning", InternalTraversal.dp_clauseelement_tuple),
        *HasCTE._has_ctes_traverse_internals,  # noqa: SLF001
    ]

    # What SQLAlchemy asks of any data change.
    _inline = False

    #: The table-like source, whose columns arms speak of as ``statement.source.c``.
    source: Any = None
    on: ColumnElement[bool] | None = None
    arms: tuple[Arm, ...] = ()
    version_columns: tuple[str, ...] | None = None
    is_unconditional = False
    keeps_row_ids = True
    is_changes = False
    #: The kind of all changes: ``delete`` or ``patch``; None if they tell it, or are rows.
    only: str | None = None
    kind_column: str | None = None
    sequence_column: str | None = None
    assigned_column: str | None = None

    def __init__(
        self,
        target: Any,
        compare: Iterable[Any] | None,
        *,
        unconditional: bool,
        preserve_row_ids: bool,
    ) -> None:
        self.table = coercions.expect(roles.DMLTableRole, target, apply_propagate_attrs=self)
        if not isinstance(self.table, TableClause):
            raise exc.ArgumentError(
                f"a merge writes into a table or mapped class, not into {target!r}"
            )
        self.version_columns = None if compare is None else _compared(self.table, compare)
        self.is_unconditional = unconditional
        self.keeps_row_ids = preserve_row_ids

    @_generative
    def using(self, source: Any, on: ColumnElement[bool] | Iterable[str] | None = None) -> Self:
        """Say where the rows come from, and which of them belong together.

        ``source`` is a table, alias, select, CTE, mapped class, ``values()``, Arrow data, a
        DataFrame or a list of dictionaries; its columns are ``statement.source.c``.
        ``on`` is a condition, or names of columns that must be equal; without it the
        primary key of the target decides.
        """
        self.source = _source(source, [each.name for each in self.table.c])
        if isinstance(on, ClauseElement):
            self.on = coercions.expect(roles.OnClauseRole, on)
        else:
            self.on = _equal(self.table, self.source, on)
        return self

    @_generative
    def when_matched_update(
        self, set_: Mapping[Any, Any] | None = None, *, where: Any = None
    ) -> Self:
        """Update the row that a source row matches; without ``set_`` all common columns."""
        return self._with(Arm(MATCHED, "update", _values(set_), _where(where)))

    @_generative
    def when_matched_delete(self, *, where: Any = None) -> Self:
        """Delete the row that a source row matches."""
        return self._with(Arm(MATCHED, "delete", None, _where(where)))

    @_generative
    def when_matched_do_nothing(self, *, where: Any = None) -> Self:
        """Leave the row that a source row matches; later arms do not see it."""
        return self._with(Arm(MATCHED, "nothing", None, _where(where)))

    @_generative
    def when_not_matched_insert(
        self, values: Mapping[Any, Any] | None = None, *, where: Any = None
    ) -> Self:
        """Insert a source row that matches nothing; without ``values`` all common columns."""
        return self._with(Arm(NOT_MATCHED, "insert", _values(values), _where(where)))

    @_generative
    def when_not_matched_do_nothing(self, *, where: Any = None) -> Self:
        """Skip a source row that matches nothing; later arms do not see it."""
        return self._with(Arm(NOT_MATCHED, "nothing", None, _where(where)))

    @_generative
    def when_not_matched_by_source_update(
        self, set_: Mapping[Any, Any], *, where: Any = None
    ) -> Self:
        """Update a row of the target that no source row matches."""
        return self._with(Arm(BY_SOURCE, "update", _values(set_), _where(where)))

    @_generative
    def when_not_matched_by_source_delete(self, *, where: Any = None) -> Self:
        """Delete a row of the target that no source row matches."""
        return self._with(Arm(BY_SOURCE, "delete", None, _where(where)))

    @_generative
    def changes(
        self,
        source: Any,
        *,
        kind: str | None = None,
        sequence: str | None = None,
        assigned: str | None = None,
    ) -> Self:
        """Apply a batch of changes: rows to store, columns to set, and keys to delete.

        ``kind`` names the column that tells them apart: ``upsert`` (also ``insert``,
        ``update``, ``update_postimage``) or ``delete``; ``update_preimage`` is passed
        over, so a change feed can be applied as it is.  Without it all rows are stored.
        Of several changes to one key the last one counts, by ``sequence`` or by their
        order; a column that the source lacks becomes NULL.

        With ``assigned`` a change may also be a ``patch``: it sets the columns whose names
        the list in that column holds (NULL: all that the source has) and leaves the others;
        each column takes the last value assigned to it, and a row that is not there is
        skipped.  A patched row always keeps its row id.
        """
        if assigned is not None and kind is None:
            raise exc.ArgumentError("assigned= goes with kind=, which says what is a patch")
        self.source = _source(source, [each.name for each in self.table.c])
        self.is_changes = True
        self.kind_column = _source_column(self.source, kind)
        self.sequence_column = _source_column(self.source, sequence)
        self.assigned_column = _source_column(self.source, assigned)
        return self

    def columns_of_source(self) -> list[str]:
        """Give the names of the columns of the source."""
        return [] if self.source is None else [str(each.name) for each in self.source.c]

    def _with(self, arm: Arm) -> Self:
        self.arms = (*self.arms, arm)
        return self


@CompileState.plugin_for("default", "ducklake_merge")
class MergeState(CompileState):
    """What SQLAlchemy keeps while it compiles a merge: nothing but the statement."""


def _compared(target: Any, columns: Iterable[Any]) -> tuple[str, ...]:
    """Name the columns that decide whether a row differs; a wrong one would hide changes."""
    if isinstance(columns, str):
        raise exc.ArgumentError(f"compare is a list of columns; write compare=[{columns!r}]")
    keys = [_key(each) for each in columns]
    unknown = [key for key in keys if key not in target.c]
    if unknown or not keys:
        raise exc.ArgumentError(f"compare names columns of {target}, which has no {unknown}")
    return tuple(str(target.c[key].name) for key in keys)


def _source(source: Any, empty: Iterable[str] = ()) -> FromClause:
    """Make a source of what is given; no rows at all have the columns ``empty``."""
    if not hasattr(source, "__clause_element__") and is_rows(source):
        if isinstance(source, Sequence) and not source and empty:
            return Batch(pa.table({name: pa.nulls(0) for name in empty}))
        return Batch(source)
    found: Any = source
    if isinstance(source, SelectBase):
        found = source.subquery("source")
    return cast("FromClause", coercions.expect(roles.FromClauseRole, found))


def _source_column(source: FromClause, name: str | None) -> str | None:
    if name is not None and name not in source.c:
        raise exc.ArgumentError(f"the source has no column {name!r}")
    return name


def _equal(target: Any, source: FromClause, names: Iterable[str] | None) -> ColumnElement[bool]:
    if isinstance(names, str):
        raise exc.ArgumentError(f"on is a condition or a list of columns; write on=[{names!r}]")
    unknown = [each for each in names or () if each not in target.c]
    if unknown:
        raise exc.ArgumentError(f"{target} has no column {unknown} to merge on")
    columns = [target.c[each] for each in names] if names else list(target.primary_key)
    if not columns:
        raise exc.ArgumentError(
            f"{target} has no primary key to merge on; say on which columns: on=[…]"
        )
    missing = [each.name for each in columns if each.name not in source.c]
    if missing:
        raise exc.ArgumentError(f"the source has no column {missing} to merge on")
    return and_(*(each == source.c[each.name] for each in columns))


def _values(values: Mapping[Any, Any] | None) -> dict[str, ColumnElement[Any]] | None:
    if values is None:
        return None
    return {
        _key(column): coercions.expect(
            roles.ExpressionElementRole, value, type_=NULLTYPE, is_crud=True
        )
        for column, value in values.items()
    }


def _where(where: Any) -> ColumnElement[bool] | None:
    return None if where is None else coercions.expect(roles.WhereHavingRole, where)


def _key(column: Any) -> str:
    found = coercions.expect(roles.DMLColumnRole, column)
    return found if isinstance(found, str) else str(found.key)
