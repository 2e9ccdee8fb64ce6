"""Operations that only a lake has, as values: ``op.set_ducklake_partitioning(…)`` and others.

Each can be reversed, compared and written down; on any other database it is an error.
Alembic imports this before it has its renderers, so those are in rendering.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from alembic.operations.base import BatchOperations, Operations
from alembic.operations.batch import BatchOperationsImpl
from alembic.operations.ops import MigrateOperation
from alembic.util import CommandError

from sqlalchemy_ducklake.alembic.refusals import MigrationRefused

_DIALECT = "ducklake"


class LakeOperation(MigrateOperation):
    """An operation on one table of a lake.

    ``method`` is what does it in :class:`DuckLakeImpl`, ``arguments`` what that gets between
    the table and its schema.
    """

    method: ClassVar[str]

    def __init__(self, table_name: str, schema: str | None, *arguments: Any) -> None:
        self.table_name = table_name
        self.schema = schema
        self.arguments = arguments

    @property
    def name(self) -> str:
        """The name of the operation in a script."""
        return self.method.replace("_", "_ducklake_", 1)

    def written(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a script says between the table and its schema: values, named values."""
        return self.arguments, {}

    def to_diff_tuple(self) -> tuple[Any, ...]:
        """Say the operation as Alembic's comparisons do."""
        return (self.name, self.schema, self.table_name, *self.arguments)


class _Layout(LakeOperation):
    """A change of what a table is partitioned or sorted by; ``was`` is what it was before."""

    def __init__(
        self,
        table_name: str,
        keys: Sequence[Any] = (),
        *,
        schema: str | None = None,
        was: Sequence[Any] = (),
    ) -> None:
        super().__init__(table_name, schema, list(keys))
        self.keys = list(keys)
        self.was = list(was)

    @property
    def name(self) -> str:
        """The name of the operation in a script."""
        name = self.method.replace("_", "_ducklake_", 1)
        return name if self.keys else name.replace("set_", "reset_", 1)

    def written(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the keys, if there are any."""
        return ((self.keys,) if self.keys else ()), {}

    def reverse(self) -> Any:
        """Restore what was before."""
        return type(self)(self.table_name, self.was, schema=self.schema, was=self.keys)

    def to_diff_tuple(self) -> tuple[Any, ...]:
        """Say what it was, and what it will be."""
        return (self.name, self.schema, self.table_name, self.was, self.keys)


@Operations.register_operation("set_ducklake_partitioning", "set_keys")
@Operations.register_operation("reset_ducklake_partitioning", "reset_keys")
@BatchOperations.register_operation("set_ducklake_partitioning", "batch_set_keys")
@BatchOperations.register_operation("reset_ducklake_partitioning", "batch_reset_keys")
class SetPartitioning(_Layout):
    """Partition the rows that a table gets from now on; old files stay as they are."""

    method = "set_partitioning"

    @classmethod
    def set_keys(
        cls,
        operations: Operations,
        table_name: str,
        keys: Sequence[Any],
        *,
        schema: str | None = None,
    ) -> None:
        """Partition a table from now on by columns, ``year(…)`` and the like, or buckets.

        A key is a column, a text like ``'month(day)'`` or ``'bucket(16, id)'``, or an
        expression of columns.  ``op.rewrite_ducklake_data()`` lets old rows follow.
        """
        operations.invoke(cls(table_name, keys, schema=schema))

    @classmethod
    def reset_keys(
        cls, operations: Operations, table_name: str, *, schema: str | None = None
    ) -> None:
        """Partition a table no more."""
        operations.invoke(cls(table_name, schema=schema))

    @classmethod
    def batch_set_keys(cls, operations: BatchOperations, keys: Sequence[Any]) -> None:
        """Partition the table from now on."""
        operations.invoke(cls(_batch(operations)[0], keys, schema=_batch(operations)[1]))

    @classmethod
    def batch_reset_keys(cls, operations: BatchOperations) -> None:
        """Partition the table no more."""
        operations.invoke(cls(_batch(operations)[0], schema=_batch(operations)[1]))


@Operations.register_operation("set_ducklake_sorting", "set_keys")
@Operations.register_operation("reset_ducklake_sorting", "reset_keys")
@BatchOperations.register_operation("set_ducklake_sorting", "batch_set_keys")
@BatchOperations.register_operation("reset_ducklake_sorting", "batch_reset_keys")
class SetSorting(_Layout):
    """Sort the rows that a table gets from now on; old files stay as they are."""

    method = "set_sorting"

    @classmethod
    def set_keys(
        cls,
        operations: Operations,
        table_name: str,
        keys: Sequence[Any],
        *,
        schema: str | None = None,
    ) -> None:
        """Sort a table from now on by columns or expressions, as ORDER BY names them."""
        operations.invoke(cls(table_name, keys, schema=schema))

    @classmethod
    def reset_keys(
        cls, operations: Operations, table_name: str, *, schema: str | None = None
    ) -> None:
        """Sort a table no more."""
        operations.invoke(cls(table_name, schema=schema))

    @classmethod
    def batch_set_keys(cls, operations: BatchOperations, keys: Sequence[Any]) -> None:
        """Sort the table from now on."""
        operations.invoke(cls(_batch(operations)[0], keys, schema=_batch(operations)[1]))

    @classmethod
    def batch_reset_keys(cls, operations: BatchOperations) -> None:
        """Sort the table no more."""
        operations.invoke(cls(_batch(operations)[0], schema=_batch(operations)[1]))


@Operations.register_operation("set_ducklake_option", "set_option")
@BatchOperations.register_operation("set_ducklake_option", "batch_set_option")
class SetOption(LakeOperation):
    """Set an option of a table; None sets it to what holds without it."""

    method = "set_option"

    def __init__(
        self,
        table_name: str,
        option: str,
        value: Any,
        *,
        schema: str | None = None,
        was: Any = None,
    ) -> None:
        super().__init__(table_name, schema, option, value)
        self.option = option
        self.value = value
        self.was = was

    @classmethod
    def set_option(
        cls,
        operations: Operations,
        table_name: str,
        option: str,
        value: Any,
        *,
        schema: str | None = None,
    ) -> None:
        """Set an option of a table, like ``'target_file_size', '100MB'``."""
        operations.invoke(cls(table_name, option, value, schema=schema))

    @classmethod
    def batch_set_option(cls, operations: BatchOperations, option: str, value: Any) -> None:
        """Set an option of the table."""
        table, schema = _batch(operations)
        operations.invoke(cls(table, option, value, schema=schema))

    def reverse(self) -> SetOption:
        """Restore the value of before."""
        return SetOption(
            self.table_name, self.option, self.was, schema=self.schema, was=self.value
        )


@Operations.register_operation("rewrite_ducklake_data", "rewrite")
@BatchOperations.register_operation("rewrite_ducklake_data", "batch_rewrite")
class RewriteData(LakeOperation):
    """Write all rows of a table anew, so that they follow its layout."""

    method = "rewrite_data"

    @classmethod
    def rewrite(
        cls, operations: Operations, table_name: str, *, schema: str | None = None
    ) -> None:
        """Write all rows of a table anew, as it is partitioned and sorted now."""
        operations.invoke(cls(table_name, schema))

    @classmethod
    def batch_rewrite(cls, operations: BatchOperations) -> None:
        """Write all rows of the table anew, as it is partitioned and sorted now."""
        operations.invoke(cls(*_batch(operations)))

    def reverse(self) -> RewriteData:
        """Write them anew again, as the layout says then."""
        return self


@Operations.register_operation("expire_ducklake_snapshots", "expire")
class ExpireSnapshots(LakeOperation):
    """Let snapshots of the lake expire: they can be read no more, their files be removed."""

    method = "expire_snapshots"

    @classmethod
    def expire(
        cls,
        operations: Operations,
        *,
        versions: Sequence[int] | None = None,
        older_than: datetime | timedelta | None = None,
    ) -> None:
        """Let those named expire, or all that are older; the newest one always stays."""
        operations.invoke(cls("", None, versions, older_than))

    def reverse(self) -> MigrateOperation:
        """Refuse: what has expired does not come back."""
        raise MigrationRefused("(the lake)", "snapshots that expired do not come back", "go on")


def _batch(operations: BatchOperations) -> tuple[str, str | None]:
    impl: Any = operations.impl
    return impl.table_name, impl.schema


def run(operations: Operations, operation: LakeOperation) -> None:
    """Do an operation, or let a batch do it in its turn."""
    impl: Any = operations.impl
    arguments = list(operation.arguments)
    if not isinstance(operation, ExpireSnapshots):
        arguments = [operation.table_name, *arguments, operation.schema]
    if isinstance(impl, BatchOperationsImpl):
        impl.batch.append((operation.method, tuple(arguments), {}))
    elif impl.__dialect__ == _DIALECT:
        getattr(impl, operation.method)(*arguments)
    else:
        raise CommandError(f"op.{operation.name}() is for a lake, not for {impl.__dialect__}")


for _kind in (SetPartitioning, SetSorting, SetOption, RewriteData, ExpireSnapshots):
    Operations.implementation_for(_kind)(run)
