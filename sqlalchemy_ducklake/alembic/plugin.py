"""Show autogenerate changes of primary keys, on lakes only.

Alembic imports this by itself, and perhaps while something else of this room is on its way
of being imported.  Older ones than 1.18 have no plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic.operations import ops
from alembic.util import PriorityDispatchResult
from sqlalchemy import Table

if TYPE_CHECKING:
    from alembic.autogenerate.api import AutogenContext
    from alembic.runtime.plugins import Plugin


def setup(plugin: Plugin) -> None:
    """Add the comparison of primary keys."""
    plugin.add_autogenerate_comparator(
        compare_primary_keys, "table", "ducklake_primary_key", qualifier="ducklake"
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
    # Alembic imports its plugins before it has the renderers that these operations need.
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
