"""Changes of a primary key as operations that autogenerate can write down.

Alembic has operations for them, but no renderer for the one that creates a key.  These are
classes of their own, so nothing changes for other databases of the process.
"""

from __future__ import annotations

from alembic.autogenerate import renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from sqlalchemy import PrimaryKeyConstraint


class CreateLakeKey(ops.CreatePrimaryKeyOp):
    """Create the primary key of a table that has none."""

    def reverse(self) -> DropLakeKey:
        """Drop it again."""
        return drop_key(self.to_constraint())


class DropLakeKey(ops.DropConstraintOp):
    """Drop the primary key of a table; its columns stay NOT NULL."""

    def reverse(self) -> CreateLakeKey:
        """Create it again."""
        return create_key(self.to_constraint())


def create_key(key: object) -> CreateLakeKey:
    """Return the operation that creates a key."""
    assert isinstance(key, PrimaryKeyConstraint)
    names = [column.name for column in key.columns]
    return CreateLakeKey(key.name, key.table.name, names, schema=key.table.schema)


def drop_key(key: object) -> DropLakeKey:
    """Return the operation that drops a key."""
    assert isinstance(key, PrimaryKeyConstraint)
    table = key.table
    created = create_key(key)
    return DropLakeKey(
        created.constraint_name, table.name, "primary", schema=table.schema, _reverse=created
    )


@renderers.dispatch_for(CreateLakeKey)
def _render_create(context: AutogenContext, operation: CreateLakeKey) -> str:
    prefix = context.opts["alembic_module_prefix"]
    columns = [str(name) for name in operation.columns]
    table = () if context._has_batch else (operation.table_name,)  # noqa: SLF001
    said = [repr(one and str(one)) for one in (operation.constraint_name, *table)]
    schema = operation.schema and str(operation.schema)
    if schema and table:
        return f"{prefix}create_primary_key({', '.join(said)}, {columns!r}, schema={schema!r})"
    return f"{prefix}create_primary_key({', '.join(said)}, {columns!r})"


@renderers.dispatch_for(DropLakeKey)
def _render_drop(context: AutogenContext, operation: DropLakeKey) -> str:
    prefix = context.opts["alembic_module_prefix"]
    table = () if context._has_batch else (operation.table_name,)  # noqa: SLF001
    said = [repr(one and str(one)) for one in (operation.constraint_name, *table)]
    if operation.schema and table:
        said.append(f"schema={str(operation.schema)!r}")
    return f"{prefix}drop_constraint({', '.join(said)}, type_='primary')"
