"""Where a lake and a model disagree: all of it at once, without touching anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alembic.operations import ops
from sqlalchemy import Engine, MetaData

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext

_WHOLE_TABLES = (ops.CreateTableOp, ops.DropTableOp)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which a table of a lake is not as its model says.

    ``operation`` is the line of a migration that would settle it; ``danger`` says why that
    is unsafe, because values are lost or rows may refuse it, and is None if it is safe.
    """

    table: str
    schema: str | None
    operation: str
    danger: str | None = None

    @property
    def safe(self) -> bool:
        """Tell whether the operation loses nothing and can always be done."""
        return self.danger is None


def check_metadata(engine: Engine, metadata: MetaData) -> list[Difference]:
    """List all differences between the tables of a lake and their models.

    A table that is missing is none, and neither is one that the models do not know.  Nothing
    is changed; the lake may be opened to be read only.
    """
    from alembic.autogenerate import produce_migrations
    from alembic.runtime.migration import MigrationContext

    with engine.connect() as connection:
        options = {
            "target_metadata": metadata,
            "compare_server_default": True,
            "include_schemas": any(table.schema for table in metadata.tables.values()),
        }
        context = MigrationContext.configure(connection, opts=options)
        found = produce_migrations(context, metadata).upgrade_ops
        differences = list(_differences(context, found, _new_tables(found)))
        connection.rollback()
    return differences


def _new_tables(found: Any) -> set[tuple[str | None, str]]:
    return {
        (one.schema, str(one.table_name)) for one in found.ops if isinstance(one, _WHOLE_TABLES)
    }


def _differences(
    context: MigrationContext, container: Any, new: set[tuple[str | None, str]]
) -> Iterator[Difference]:
    from alembic.autogenerate import render_python_code
    from alembic.autogenerate.api import AutogenContext

    from sqlalchemy_ducklake.alembic.changes import danger

    for one in container.ops:
        if hasattr(one, "ops"):
            yield from _differences(context, one, new)
        elif (one.schema, str(one.table_name)) not in new:
            written = render_python_code(ops.UpgradeOps([one]), migration_context=context)
            lines = (line.strip() for line in written.splitlines())
            line = " ".join(line for line in lines if not line.startswith("#"))
            reason = danger(AutogenContext(context, opts=context.opts), one)
            yield Difference(str(one.table_name), one.schema, line, reason)
