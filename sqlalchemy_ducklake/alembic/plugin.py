"""Show autogenerate what only a lake has, on lakes only.

Alembic imports this by itself, and perhaps while something else of this room is on its way
of being imported, and before it has the renderers that operations need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic.operations import ops
from alembic.util import DispatchPriority, PriorityDispatchResult
from sqlalchemy import Table

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext
    from alembic.runtime.plugins import Plugin


def setup(plugin: Plugin) -> None:
    """Add the comparisons of keys, checks and layouts, and what comes after all others."""
    for name, compare in (
        ("primary_key", compare_primary_keys),
        ("checks", compare_checks),
        ("layout", compare_layouts),
    ):
        plugin.add_autogenerate_comparator(
            compare, "table", f"ducklake_{name}", qualifier="ducklake"
        )
    plugin.add_autogenerate_comparator(
        finish, "autogenerate", "ducklake", qualifier="ducklake", priority=DispatchPriority.LAST
    )


def compare_primary_keys(
    autogen_context: AutogenContext,
    modify_table_ops: ops.ModifyTableOps,
    schema: str | None,
    tname: str,
    conn_table: Table | None,
    metadata_table: Table | None,
) -> PriorityDispatchResult:
    """See that a primary key has other columns, or another order of them."""
    from sqlalchemy_ducklake.alembic.keyops import create_key, drop_key

    del autogen_context, schema, tname
    if conn_table is None or metadata_table is None:
        return PriorityDispatchResult.CONTINUE
    there, wanted = conn_table.primary_key, metadata_table.primary_key
    if there.columns.keys() == [column.name for column in wanted.columns]:
        return PriorityDispatchResult.CONTINUE
    if there.columns:
        modify_table_ops.ops.append(drop_key(there))
    if wanted.columns:
        modify_table_ops.ops.append(create_key(wanted))
    return PriorityDispatchResult.CONTINUE


def compare_checks(
    autogen_context: AutogenContext,
    modify_table_ops: ops.ModifyTableOps,
    schema: str | None,
    tname: str,
    conn_table: Table | None,
    metadata_table: Table | None,
) -> PriorityDispatchResult:
    """See that checks were added or dropped, or have another condition."""
    from sqlalchemy_ducklake.alembic.changes import check_changes

    del schema, tname
    if conn_table is not None and metadata_table is not None:
        changes = check_changes(autogen_context, conn_table, metadata_table)
        modify_table_ops.ops.extend(changes)
    return PriorityDispatchResult.CONTINUE


def compare_layouts(
    autogen_context: AutogenContext,
    modify_table_ops: ops.ModifyTableOps,
    schema: str | None,
    tname: str,
    conn_table: Table | None,
    metadata_table: Table | None,
) -> PriorityDispatchResult:
    """See that partitions, the order of rows or options are others."""
    from sqlalchemy_ducklake.alembic.changes import layout_changes

    del tname
    if conn_table is not None and metadata_table is not None:
        changes = layout_changes(autogen_context, conn_table, metadata_table, schema)
        modify_table_ops.ops.extend(changes)
    return PriorityDispatchResult.CONTINUE


def finish(
    autogen_context: AutogenContext, upgrade_ops: ops.UpgradeOps
) -> PriorityDispatchResult:
    """Write down what was found as a lake can do it."""
    from sqlalchemy_ducklake.alembic import changes

    changes.finish(autogen_context, upgrade_ops)
    return PriorityDispatchResult.CONTINUE
