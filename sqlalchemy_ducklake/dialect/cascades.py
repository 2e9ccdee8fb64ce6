"""ON DELETE CASCADE and SET NULL, run before the DELETE of the rows that are referred to.

Where all constraints are enforced, a DELETE of parents first becomes a DELETE or an UPDATE of
the rows of each table that refers to them, by ordinary statements of the same transaction,
each with checks and cascades of its own.  Foreign keys without an action, which refuse the
DELETE, are looked at by the statement itself, when the others are through.  What refers is
known from the MetaData of the table.
"""

# What SQLAlchemy keeps of a statement is private to its compilers.
# ruff: noqa: SLF001

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BindParameter,
    Column,
    Delete,
    Table,
    bindparam,
    delete,
    null,
    select,
    tuple_,
    update,
)
from sqlalchemy.schema import ForeignKeyConstraint
from sqlalchemy.sql.util import _deep_deannotate
from sqlalchemy.sql.visitors import replacement_traverse

from sqlalchemy_ducklake.dialect.constraints import level_of
from sqlalchemy_ducklake.errors import CascadeTooDeep, StatementRefused
from sqlalchemy_ducklake.lake.marks import table_label
from sqlalchemy_ducklake.merge.staging import own_name
from sqlalchemy_ducklake.merge.steps import constant

#: How many tables, one referring to the other, a DELETE may reach.
MOST_LEVELS = 8
_LEVEL = "_ducklake_cascade_level"
_CASCADE, _SET_NULL = "CASCADE", "SET NULL"


def run_cascades(context: Any) -> None:
    """Run the actions of a DELETE that is about to be executed.

    Once one has changed something, ``context.cascaded`` says so.  Raises CascadeTooDeep,
    StatementRefused with autocommit, and what the statements raise.
    """
    statement, options = context.compiled.statement, context.execution_options
    if not isinstance(statement, Delete) or not isinstance(statement.table, Table):
        return
    if level_of(context.dialect, options) != "all":
        return
    for each in _actions(statement.table):
        if context.own_connection.autocommit:
            raise StatementRefused(
                str(statement),
                "it runs ON DELETE actions, which are statements of their own; run it in a "
                "transaction and not with autocommit",
            )
        _run(context, each, options.get(_LEVEL, 0) + 1)


def _actions(parent: Table) -> Iterator[ForeignKeyConstraint]:
    """Give the foreign keys that say what becomes of rows whose parent goes."""
    for table in parent.metadata.tables.values():
        for each in sorted(table.foreign_key_constraints, key=lambda one: str(one.name)):
            known = each.elements[0].target_fullname.rpartition(".")[0] == parent.fullname
            if known and _action(each) in (_CASCADE, _SET_NULL):
                yield each


def _action(constraint: ForeignKeyConstraint) -> str:
    return (constraint.ondelete or "").upper()


def _run(context: Any, constraint: ForeignKeyConstraint, level: int) -> None:
    child, own = constraint.table, [element.parent for element in constraint.elements]
    doomed = _doomed(context.compiled, [element.column for element in constraint.elements])
    referring = own[0].in_(doomed) if len(own) == 1 else tuple_(*own).in_(doomed)
    sets, connection = list(_parameters(context)), context.root_connection
    found: Any = select(constant(1)).select_from(child).where(referring).limit(1)
    # Many sets are looked at one by one only where that decides something.
    looks = len(sets) == 1 or level > MOST_LEVELS
    if looks and not any(connection.execute(found, each).first() for each in sets):
        return
    if level > MOST_LEVELS:
        schema = child.schema or context.dialect.default_schema_name
        raise CascadeTooDeep(table_label(schema, child.name), MOST_LEVELS)
    changed: Any = delete(child)
    if _action(constraint) == _SET_NULL:
        changed = update(child).values({each.key: null() for each in own})
    options = {**context.execution_options, _LEVEL: level}
    result = connection.execute(changed.where(referring), sets, execution_options=options)
    context.cascaded = context.cascaded or result.rowcount != 0


def _doomed(compiled: Any, columns: Sequence[Column[Any]]) -> Any:
    """SELECT what the statement deletes, with its parameters under names of their own.

    The statement may come from the cache, so its own values are those of another one.
    """

    def renamed(element: Any, **_: Any) -> Any:
        if not isinstance(element, BindParameter):
            return None
        name = compiled.bind_names.get(element, element.key)
        return bindparam(_own(name), type_=element.type, expanding=element.expanding)

    criteria = (
        _deep_deannotate(replacement_traverse(each, {}, renamed))
        for each in compiled.statement._where_criteria
    )
    return select(*columns).where(*criteria).correlate(None)


def _parameters(context: Any) -> Iterator[Mapping[str, Any]]:
    """Give the parameter sets of the statement, under these names and with lists whole."""
    extracted = context.extracted_parameters
    for given in context.given or [{}]:
        values = context.compiled.construct_params(
            given, extracted_parameters=extracted, escape_names=False
        )
        yield {_own(name): value for name, value in values.items()}


def _own(name: str) -> str:
    """Give the name of a parameter that no column can have taken."""
    return own_name(f"cascaded_{name}")
