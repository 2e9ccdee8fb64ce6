"""What was found in the catalog, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.dialect.reflection import queries
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName

_PLAIN_LITERALS = {
    "BIGINT", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "SMALLINT", "TINYINT",
    "UBIGINT", "UHUGEINT", "UINTEGER", "USMALLINT", "UTINYINT",
}  # fmt: skip
# How the engine writes the two literals of BOOLEAN, and this dialect the time.
_SPELLED = {
    "CAST('t' AS BOOLEAN)": "true",
    "CAST('f' AS BOOLEAN)": "false",
    "CAST(now() AS TIMESTAMP)": "now()",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: the lake's name, the schema, where its metadata is, and what to trust.

    ``live`` says that the open transaction changed the catalog, which the metadata tables
    do not show before the commit; then the engine is asked, which is slower.
    """

    lake: str
    schema: str
    metadata: queries.MetadataPlace
    # What an Inspector has read is the same whichever place it came from.
    live: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column, its type as the catalog names it, and its comment with the tag.

    ``nested_tags`` are comments that somebody put on fields inside of it.
    """

    name: str
    type: TypeName
    nullable: bool = True
    default: str | None = None
    comment: str | None = None
    nested_tags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Found:
    """A table or a view (which has a ``definition``).

    Temporary tables have constraints from the engine itself, ``native``, and those that
    this package made have tags too, which know the names that the engine forgets.
    """

    name: str
    columns: tuple[FoundColumn, ...] = ()
    comment: str | None = None
    definition: str | None = None
    temporary: bool = False
    native: tuple[keys.PrimaryKey | None, keys.Constraints] | None = None

    @property
    def is_view(self) -> bool:
        """Tell whether this is a view."""
        return self.definition is not None

    def primary_key(self) -> keys.PrimaryKey | None:
        """Return the key; raises MalformedTag for a tag that cannot be read."""
        if self.is_view:
            return None
        found = keys.primary_key(self.name, self._commented())
        return self.native[0] if found is None and self.native is not None else found

    def constraints(self) -> keys.Constraints:
        """Return the constraints; raises MalformedTag or StaleConstraint."""
        return self._constraints

    @cached_property
    def _constraints(self) -> keys.Constraints:
        # Five questions of SQLAlchemy about each table want them.
        if self.is_view:
            return keys.Constraints()
        found = keys.constraints(self.name, self.comment)
        if self.native is not None:
            native = self.native[1]
            empty = found == keys.Constraints()
            return native if empty else replace(found, indexes=native.indexes)
        keys.check_columns(self.name, found, (column.name for column in self.columns))
        return found

    def _commented(self) -> Iterable[keys.ColumnComment]:
        for column in self.columns:
            if column.comment is not None:
                yield keys.ColumnComment(column.name, column.comment, column.nullable)
            for inner, comment in column.nested_tags:
                yield keys.ColumnComment(inner, comment, nullable=True, nested=True)


def expression_text(text: str) -> str:
    """Give an expression that is a default as this dialect would write it."""
    return _SPELLED.get(text, text)


def literal_text(value: str, kind: TypeName) -> str:
    """Give a value that is a default as SQL."""
    if kind.name in _PLAIN_LITERALS and not value[-1:].isalpha():
        return value
    return "'" + value.replace("'", "''") + "'"
