"""Operations on fields inside of columns, and on types, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from alembic.operations.base import Operations
from sqlalchemy.types import TypeEngine

from sqlalchemy_ducklake.alembic.lakeops import LakeOperation, run

Type = TypeEngine[Any] | type[TypeEngine[Any]]


@Operations.register_operation("add_ducklake_field", "add_field")
class AddField(LakeOperation):
    """Add a field to a STRUCT, wherever it is inside of a column."""

    method = "add_field"

    def __init__(
        self, table_name: str, path: Sequence[str], kind: Type, *, schema: str | None = None
    ) -> None:
        super().__init__(table_name, schema, list(path), kind)
        self.path = list(path)
        self.kind = kind

    @classmethod
    def add_field(
        cls,
        operations: Operations,
        table_name: str,
        path: Sequence[str],
        type_: Type,
        *,
        schema: str | None = None,
    ) -> None:
        """Add a field, which is NULL in all rows.

        ``path`` begins with the column: ``["place", "height"]``, ``["stops", "element",
        "name"]`` in a LIST, ``["prices", "value", "cents"]`` in a MAP.
        """
        operations.invoke(cls(table_name, path, type_, schema=schema))

    def reverse(self) -> DropField:
        """Drop it again."""
        return DropField(self.table_name, self.path, self.kind, schema=self.schema)


@Operations.register_operation("drop_ducklake_field", "drop_field")
class DropField(LakeOperation):
    """Drop a field with its values; ``was`` is its type."""

    method = "drop_field"

    def __init__(
        self,
        table_name: str,
        path: Sequence[str],
        was: Type | None = None,
        *,
        schema: str | None = None,
    ) -> None:
        super().__init__(table_name, schema, list(path))
        self.path = list(path)
        self.was = was

    @classmethod
    def drop_field(
        cls,
        operations: Operations,
        table_name: str,
        path: Sequence[str],
        *,
        schema: str | None = None,
    ) -> None:
        """Drop a field with its values; ``path`` begins with the column."""
        operations.invoke(cls(table_name, path, schema=schema))

    def reverse(self) -> AddField:
        """Add it again; its values are gone.  Raises ValueError if its type is not known."""
        if self.was is None:
            raise ValueError(f"the type of field {'.'.join(self.path)} is not known")
        return AddField(self.table_name, self.path, self.was, schema=self.schema)


@Operations.register_operation("rename_ducklake_field", "rename_field")
class RenameField(LakeOperation):
    """Rename a field."""

    method = "rename_field"

    def __init__(
        self, table_name: str, path: Sequence[str], new_name: str, *, schema: str | None = None
    ) -> None:
        super().__init__(table_name, schema, list(path), new_name)
        self.path = list(path)
        self.new_name = new_name

    @classmethod
    def rename_field(
        cls,
        operations: Operations,
        table_name: str,
        path: Sequence[str],
        new_name: str,
        *,
        schema: str | None = None,
    ) -> None:
        """Rename a field; ``path`` begins with the column and ends with its name of now."""
        operations.invoke(cls(table_name, path, new_name, schema=schema))

    def reverse(self) -> RenameField:
        """Give it its old name again."""
        path = [*self.path[:-1], self.new_name]
        return RenameField(self.table_name, path, self.path[-1], schema=self.schema)


@Operations.register_operation("promote_ducklake_type", "promote")
class PromoteType(LakeOperation):
    """Widen the type of a column, or of what is inside of one; ``was`` is the type of now.

    ``kw`` is what Alembic says of the column besides.
    """

    method = "promote_type"

    def __init__(
        self,
        table_name: str,
        path: Sequence[str],
        kind: Type,
        *,
        was: Type | None = None,
        schema: str | None = None,
        kw: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(table_name, schema, list(path), kind)
        self.path = list(path)
        self.kind = kind
        self.was = was
        self.kw = kw

    @classmethod
    def promote(
        cls,
        operations: Operations,
        table_name: str,
        column: str | Sequence[str],
        type_: Type,
        *,
        schema: str | None = None,
    ) -> None:
        """Widen the type of a column, or of a field by its path, without loss.

        Files are not rewritten.  It may be done again: what is wide already stays so.
        """
        path = [column] if isinstance(column, str) else column
        operations.invoke(cls(table_name, path, type_, schema=schema))

    def written(self) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the column or path, and the type."""
        return (self.path[0] if len(self.path) == 1 else self.path, self.kind), {}

    def reverse(self) -> LakeOperation:
        """Narrow the column again if all values fit; a field stays as wide as it is.

        Raises ValueError if the type of before is not known.
        """
        if self.was is None:
            raise ValueError(f"the type of {'.'.join(self.path)} before is not known")
        if len(self.path) > 1:
            return KeepType(self.table_name, self.path, schema=self.schema)
        return NarrowType(
            self.table_name, self.path[0], self.was, was=self.kind, schema=self.schema
        )


@Operations.register_operation("narrow_ducklake_type", "narrow")
class NarrowType(LakeOperation):
    """Give a column a narrower type, if every value fits."""

    method = "narrow_type"

    def __init__(
        self,
        table_name: str,
        column: str,
        kind: Type,
        *,
        was: Type | None = None,
        schema: str | None = None,
    ) -> None:
        super().__init__(table_name, schema, column, kind)
        self.column = column
        self.kind = kind
        self.was = was

    @classmethod
    def narrow(
        cls,
        operations: Operations,
        table_name: str,
        column: str,
        type_: Type,
        *,
        schema: str | None = None,
    ) -> None:
        """Give a column a narrower type, if every value fits.

        A new column takes values, name and constraints of the old one and stands last.
        """
        operations.invoke(cls(table_name, column, type_, schema=schema))

    def reverse(self) -> PromoteType:
        """Widen it again; raises ValueError if the type of before is not known."""
        if self.was is None:
            raise ValueError(f"the type of {self.column} before is not known")
        return PromoteType(
            self.table_name, [self.column], self.was, was=self.kind, schema=self.schema
        )


class KeepType(LakeOperation):
    """Leave a field as wide as it is: nothing can narrow it."""

    method = "keep_type"

    def __init__(
        self, table_name: str, path: Sequence[str], *, schema: str | None = None
    ) -> None:
        super().__init__(table_name, schema, list(path))
        self.path = list(path)

    def reverse(self) -> KeepType:
        """Leave it."""
        return self


for _kind in (AddField, DropField, RenameField, PromoteType, NarrowType):
    Operations.implementation_for(_kind)(run)
