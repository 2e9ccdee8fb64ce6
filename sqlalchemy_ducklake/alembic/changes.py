"""What autogenerate sees on a lake besides what it sees everywhere, and what is unsafe.

A change is unsafe if values are lost by it, or if the rows may refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from alembic.operations.ops import MigrateOperation
from sqlalchemy import CheckConstraint, Constraint, Table
from sqlalchemy.sql.compiler import DDLCompiler

from sqlalchemy_ducklake.alembic import nested, widening
from sqlalchemy_ducklake.alembic.fieldops import AddField, DropField, NarrowType, PromoteType
from sqlalchemy_ducklake.alembic.keyops import create_check, drop_check
from sqlalchemy_ducklake.alembic.lakeops import SetOption, SetPartitioning, SetSorting
from sqlalchemy_ducklake.alembic.nested import FieldChange
from sqlalchemy_ducklake.alembic.rendering import Note
from sqlalchemy_ducklake.dialect import tags
from sqlalchemy_ducklake.dialect.layout import Layout, layout_of
from sqlalchemy_ducklake.dialect.options import default_of
from sqlalchemy_ducklake.dialect.reflection.typenames import sql_type
from sqlalchemy_ducklake.dialect.texts import normal
from sqlalchemy_ducklake.keys import Check

_AUDITED = "the rows may violate it, and then it is refused"
_NO_VALUE = "rows that are there have no value for it, and then it is refused"
_LAYOUT = ("ducklake_partition_by", "ducklake_sort_by", "ducklake_options")


def layout_changes(
    context: AutogenContext, there: Table, wanted: Table, schema: str | None
) -> Iterator[MigrateOperation]:
    """Give what makes the layout of a table that of its model.

    A model that says nothing of partitions and order has none; of options it then says
    nothing, because they are often set by hand.
    """
    impl: Any = context.migration_context.impl
    old, new = layout_of(there, impl.compiler), layout_of(wanted, impl.compiler)
    name = str(wanted.name)
    if old.partition_by != new.partition_by:
        before, after = list(map(str, old.partition_by)), list(map(str, new.partition_by))
        yield SetPartitioning(name, after, schema=schema, was=before)
    if old.sort_by != new.sort_by:
        before, after = list(map(str, old.sort_by)), list(map(str, new.sort_by))
        yield SetSorting(name, after, schema=schema, was=before)
    if wanted.dialect_options["ducklake"]["options"] is not None:
        yield from _option_changes(name, schema, old, new)


def _option_changes(
    name: str, schema: str | None, old: Layout, new: Layout
) -> Iterator[MigrateOperation]:
    for option in sorted({*old.options, *new.options}):
        was, value = old.options.get(option), new.options.get(option)
        if was != value and not (was is None and value == default_of(option)):
            yield SetOption(name, option, value, schema=schema, was=was)


def check_changes(
    context: AutogenContext, there: Table, wanted: Table
) -> Iterator[MigrateOperation]:
    """Give what makes the checks of a table those of its model."""
    impl: Any = context.migration_context.impl
    old, new = _checks_of(there, impl.compiler), _checks_of(wanted, impl.compiler)
    for sense in old.keys() - new.keys():
        yield drop_check(old[sense], wanted)
    for sense in new.keys() - old.keys():
        yield create_check(new[sense], wanted)


def _checks_of(table: Table, compiler: DDLCompiler) -> dict[tuple[str | None, str], Check]:
    """Return the checks of a table by name and sense, however they are written."""
    # A foreign key may refer to a table that nobody has read.
    others = [*table.indexes, *(one for one in table.constraints if not _is_check(one))]
    said = tags.constraints_of(table, compiler, without=others)
    return {(one.name, normal(one.sqltext)): one for one in said.checks}


def _is_check(constraint: Constraint) -> bool:
    return isinstance(constraint, CheckConstraint)


def finish(context: AutogenContext, operations: ops.OpContainer) -> None:
    """Write layouts as texts, change types field by field, and mark what is unsafe.

    Tables are dropped last, when nothing refers to them any more.
    """
    finished: list[MigrateOperation] = []
    drops = [one for one in operations.ops if isinstance(one, ops.DropTableOp)]
    others = [one for one in operations.ops if one not in drops]
    operations.ops = [*others, *_children_first(context, drops)]
    for operation in operations.ops:
        if isinstance(operation, ops.ModifyTableOps):
            changed = [one for each in operation.ops for one in _typed(context, each)]
            operation.ops = [one for each in changed for one in _marked(context, each)]
            finished.append(operation)
            continue
        if isinstance(operation, ops.CreateTableOp):
            _write_layout(context, operation)
        finished.extend(_marked(context, operation))
    operations.ops = finished


def _children_first(
    context: AutogenContext, drops: list[ops.DropTableOp]
) -> Iterator[ops.DropTableOp]:
    """Put tables that refer to others before them, as far as there is such an order."""
    left = {id(one): (one, _parents(context, one)) for one in drops}
    while left:
        named = {key: parents for key, (_, parents) in left.items()}
        free = [
            key
            for key, (one, _) in left.items()
            if not any(_place(one) in named[other] for other in named.keys() - {key})
        ]
        for key in free or list(left):
            yield left.pop(key)[0]


def _place(operation: ops.DropTableOp) -> tuple[str | None, str]:
    return operation.schema, str(operation.table_name)


def _parents(
    context: AutogenContext, operation: ops.DropTableOp
) -> set[tuple[str | None, str]]:
    table = operation.to_table(context.migration_context)
    referred = (key.referred_table for key in table.foreign_key_constraints)
    return {(one.schema, str(one.name)) for one in referred}


def _write_layout(context: AutogenContext, operation: ops.CreateTableOp) -> None:
    impl: Any = context.migration_context.impl
    if any(operation.kw.get(name) for name in _LAYOUT):
        layout = layout_of(operation.to_table(context.migration_context), impl.compiler)
        others = {name: one for name, one in operation.kw.items() if name not in _LAYOUT}
        operation.kw = {**others, **layout.described()}


def _typed(context: AutogenContext, operation: Any) -> Iterator[MigrateOperation]:
    """Give the steps of a change of type, if a lake can go them, and what else changes."""
    if not isinstance(operation, ops.AlterColumnOp) or operation.modify_type is None:
        yield operation
        return
    steps = list(type_steps(context, operation))
    if not all(step.is_possible for step in steps):
        yield operation
        return
    yield from (_step(operation, step) for step in steps)
    if steps:
        operation.existing_type, operation.modify_type = operation.modify_type, None
    if not steps or operation.has_changes():
        yield operation


def type_steps(context: AutogenContext, operation: ops.AlterColumnOp) -> list[FieldChange]:
    """Return the steps from one type to the other; none between two texts."""
    impl: Any = context.migration_context.impl
    old = impl.type_name(operation.existing_type)
    return list(nested.differences(old, impl.type_name(operation.modify_type)))


def _step(operation: ops.AlterColumnOp, step: FieldChange) -> MigrateOperation:
    table, schema = operation.table_name, operation.schema
    path = [operation.column_name, *step.path]
    if step.old is None and step.new is not None:
        return AddField(table, path, sql_type(step.new), schema=schema)
    if step.new is None and step.old is not None:
        return DropField(table, path, sql_type(step.old), schema=schema)
    assert step.old is not None
    assert step.new is not None
    kind, was = sql_type(step.new), sql_type(step.old)
    if not step.path:
        # The model may say more of a type than a lake keeps.
        kind = operation.modify_type or kind
    return PromoteType(table, path, kind, was=was, schema=schema, kw=operation.kw)


def _marked(context: AutogenContext, operation: Any) -> Iterator[MigrateOperation]:
    reason = danger(context, operation)
    if reason is not None:
        yield Note(f"unsafe: {reason}")
    yield operation


def danger(context: AutogenContext, operation: Any) -> str | None:
    """Say why an operation is unsafe; None if it is safe."""
    if isinstance(operation, ops.AlterColumnOp):
        return _danger_of_alter(context, operation)
    if isinstance(operation, ops.CreateIndexOp):
        return _AUDITED if operation.unique else None
    if isinstance(operation, ops.AddColumnOp):
        column = operation.column
        needs = not column.nullable and column.server_default is None
        return (
            "rows that are there would have no value, and then it is refused" if needs else None
        )
    for kind, reason in _DANGERS.items():
        if isinstance(operation, kind):
            return reason
    return None


_DANGERS: dict[type[MigrateOperation], str] = {
    ops.DropTableOp: "the rows of the table are lost",
    ops.DropColumnOp: "the values of the column are lost",
    DropField: "the values of the field are lost",
    NarrowType: "a value may not fit, and then it is refused",
    ops.AddConstraintOp: _AUDITED,
}


def _danger_of_alter(context: AutogenContext, operation: ops.AlterColumnOp) -> str | None:
    if operation.modify_type is not None and operation.existing_type is not None:
        for step in type_steps(context, operation):
            if not step.is_possible and step.old is not None:
                return f"a lake refuses it; possible are {widening.told(step.old)}"
        if getattr(operation.modify_type, "length", None) is not None:
            return "a text may be longer, and then it is refused"
    if operation.modify_nullable is False:
        return "a row may have NULL, and then it is refused"
    return None
