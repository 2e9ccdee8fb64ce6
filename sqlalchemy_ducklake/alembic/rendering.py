"""How autogenerate writes down the operations that only a lake has."""

# Alembic has no public name for its renderer of types.
# ruff: noqa: SLF001

from __future__ import annotations

from typing import Any

from alembic.autogenerate import render, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations.ops import OpContainer
from sqlalchemy.types import TypeEngine

from sqlalchemy_ducklake.alembic import fieldops, lakeops
from sqlalchemy_ducklake.alembic.fieldops import KeepType
from sqlalchemy_ducklake.alembic.lakeops import LakeOperation

_IN_BATCH = (lakeops.SetPartitioning, lakeops.SetSorting, lakeops.SetOption)


class Note(OpContainer):
    """A line of comment in a script, which does nothing."""

    def __init__(self, text: str = "") -> None:
        super().__init__([])
        self.text = text

    def reverse(self) -> Note:
        """Say nothing."""
        return Note()


def type_text(kind: Any, context: AutogenContext) -> str:
    """Write a type as Alembic does, with the imports that it needs."""
    instance = kind() if isinstance(kind, type) else kind
    assert isinstance(instance, TypeEngine)
    return str(render._repr_type(instance, context))


@renderers.dispatch_for(Note)
def _render_note(context: AutogenContext, operation: Note) -> list[str]:
    del context
    return [f"# {operation.text}"] if operation.text else []


@renderers.dispatch_for(KeepType)
def _render_keep(context: AutogenContext, operation: KeepType) -> list[str]:
    del context
    return [f"# {operation.table_name}.{'.'.join(operation.path)} stays as wide as it is"]


def render_operation(context: AutogenContext, operation: LakeOperation) -> str:
    """Write a call: inside of a batch without the table, which the batch names."""
    batch = context._has_batch and isinstance(operation, _IN_BATCH)
    values, named = operation.written()
    said = [] if batch else [repr(str(operation.table_name))]
    said += [_value(one, context) for one in values]
    said += [f"{name}={_value(one, context)}" for name, one in named.items()]
    if operation.schema is not None and not batch:
        said.append(f"schema={str(operation.schema)!r}")
    prefix = "batch_op." if batch else context.opts["alembic_module_prefix"]
    return f"{prefix}{operation.name}({', '.join(said)})"


def _value(value: Any, context: AutogenContext) -> str:
    is_type = isinstance(value, TypeEngine) or (
        isinstance(value, type) and issubclass(value, TypeEngine)
    )
    if is_type:
        return type_text(value, context)
    return repr(str(value) if isinstance(value, str) else value)


for _kind in (
    lakeops.SetPartitioning,
    lakeops.SetSorting,
    lakeops.SetOption,
    lakeops.RewriteData,
    fieldops.AddField,
    fieldops.DropField,
    fieldops.RenameField,
    fieldops.PromoteType,
    fieldops.NarrowType,
):
    renderers.dispatch_for(_kind)(render_operation)
