"""Changes of primary keys and checks as operations that autogenerate can write down.

Alembic has operations for them, but no renderer for those that create one.  These are
classes of their own, so nothing changes for other databases of the process.
"""

from __future__ import annotations

from alembic.autogenerate import renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from sqlalchemy import PrimaryKeyConstraint, Table, text

from sqlalchemy_ducklake.keys import Check


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


class CreateLakeCheck(ops.CreateCheckConstraintOp):
    """Create a check."""

    def reverse(self) -> ops.DropConstraintOp:
        """Drop it again."""
        return ops.DropConstraintOp(
            self.constraint_name, self.table_name, "check", schema=self.schema, _reverse=self
        )


def create_check(check: Check, table: Table) -> CreateLakeCheck:
    """Return the operation that creates a check."""
    return CreateLakeCheck(check.name, table.name, text(check.sqltext), schema=table.schema)


def drop_check(check: Check, table: Table) -> ops.DropConstraintOp:
    """Return the operation that drops a check."""
    return create_check(check, table).reverse()


@renderers.dispatch_for(CreateLakeCheck)
def _render_create_check(context: AutogenContext, operation: CreateLakeCheck) -> str:
    batch = context._has_batch  # noqa: SLF001
    prefix = "batch_op." if batch else context.opts["alembic_module_prefix"]
    table = [] if batch else [repr(str(operation.table_name))]
    said = [repr(operation.constraint_name), *table, repr(str(operation.condition))]
    if operation.schema is not None and not batch:
        said.append(f"schema={str(operation.schema)!r}")
    return f"{prefix}create_check_constraint({', '.join(said)})"


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
