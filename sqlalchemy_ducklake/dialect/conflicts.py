"""From an ON CONFLICT clause to the plan of a merge: names become columns of the table."""

# What SQLAlchemy gives a compiler are private parts of its statements.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, exc
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.selectable import FromClause, TableClause
from sqlalchemy.sql.visitors import iterate

from sqlalchemy_ducklake.constructs.insert import OnConflict
from sqlalchemy_ducklake.merge.checks import Key, column_of, keys_of
from sqlalchemy_ducklake.merge.staging import bind_name
from sqlalchemy_ducklake.merge.upsert import UpsertPlan


def parameters_of(conflict: OnConflict | None) -> dict[str, BindParameter[Any]]:
    """Give the parameters of an ON CONFLICT clause, by the names of their staged columns."""
    if conflict is None:
        return {}
    if not isinstance(conflict, OnConflict):
        raise exc.CompileError(
            f"{type(conflict).__module__} is of another database; use insert() of "
            "sqlalchemy_ducklake, which has on_conflict_do_update() and …_do_nothing()"
        )
    expressions = [*(conflict.assignments or {}).values(), conflict.where]
    found = {
        element.key: element
        for expression in expressions
        if expression is not None
        for element in iterate(expression)
        if isinstance(element, BindParameter)
    }
    return {bind_name(number): bind for number, bind in enumerate(found.values())}


def ignores_any_key(conflict: OnConflict, target: FromClause) -> bool:
    """Tell whether each of several keys may be what a row is skipped for."""
    named = conflict.constraint is not None or conflict.index_elements is not None
    return conflict.action == "nothing" and not named and len(keys_of(target)) > 1


def upsert_plan(
    conflict: OnConflict,
    target: FromClause,
    stage: TableClause,
    columns: Sequence[Column[Any]],
    allocated: Column[Any] | None,
    *,
    single: bool,
) -> UpsertPlan:
    """Plan an INSERT … ON CONFLICT.

    Raises CompileError if the conflict target is no key, or a key would be assigned.
    """
    key = _conflict_key(conflict, target)
    given = {column.name for column in columns}
    missing = [column.name for column in key.columns if column.name not in given]
    if missing:
        raise exc.CompileError(
            f"INSERT … ON CONFLICT into {target} gives no value for {missing} of its key "
            f"({', '.join(column.name for column in key.columns)})"
        )
    assignments = None
    if conflict.action == "update":
        assignments = _assignments(conflict, target, key, columns)
    return UpsertPlan(
        target=target,
        stage=stage,
        key=key,
        other_keys=[other for other in keys_of(target) if other != key],
        columns=columns,
        assignments=assignments,
        where=conflict.where,
        excluded=conflict.excluded,
        allocated=allocated,
        binds={bind.key: name for name, bind in parameters_of(conflict).items()},
        single=single,
    )


def _conflict_key(conflict: OnConflict, target: FromClause) -> Key:
    keys = keys_of(target)
    if conflict.constraint is not None:
        found = [key for key in keys if key.name == conflict.constraint]
        wanted = f"constraint {conflict.constraint!r}"
    elif conflict.index_elements is not None:
        names = set(conflict.index_elements)
        found = [key for key in keys if {column.name for column in key.columns} == names]
        wanted = f"key on ({', '.join(conflict.index_elements)})"
    else:
        found = [key for key in keys if key.primary]
        wanted = "primary key"
    if not found:
        known = ["(" + ", ".join(column.name for column in key.columns) + ")" for key in keys]
        raise exc.CompileError(
            f"{target} has no {wanted} for ON CONFLICT; its keys are: "
            f"{', '.join(known) or 'none, declare a PrimaryKeyConstraint on the Table'}"
        )
    return found[0]


def _assignments(
    conflict: OnConflict, target: FromClause, key: Key, columns: Sequence[Column[Any]]
) -> Mapping[str, ColumnElement[Any]]:
    in_key = {column.name for column in key.columns}
    if conflict.assignments is None:
        names = [column.name for column in columns if column.name not in in_key]
        return {name: column_of(conflict.excluded, name) for name in names}
    by_name = {each.name: each for each in target.c}
    values = {}
    for name, value in conflict.assignments.items():
        column = target.c.get(name, by_name.get(name))
        if column is None:
            raise exc.CompileError(f"{target} has no column {name!r} to set")
        if column.name in in_key:
            if _is_same_column(value, column):
                continue  # the key equals itself by definition of the conflict
            raise exc.CompileError(
                f"ON CONFLICT … DO UPDATE cannot assign {column.name!r}, which is part of "
                "the key it looks for; delete the row and insert another"
            )
        values[column.name] = value
    return values


def _is_same_column(value: Any, column: Any) -> bool:
    table = getattr(value, "table", None)
    given = getattr(table, "name", None) == "excluded"
    return bool((given or table == column.table) and value.name == column.name)
