"""A table as a migration sees it, and as it is to be.

All that a lake has no statement for is in the comments of a table and its columns, so a
migration reads them, makes a new value, and writes the comments that differ.  Nothing here
touches a lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy_ducklake.alembic.refusals import MigrationRefused
from sqlalchemy_ducklake.dialect.reflection.found import FoundColumn
from sqlalchemy_ducklake.dialect.texts import columns_in
from sqlalchemy_ducklake.keys import (
    Constraints,
    ForeignKey,
    Index,
    PrimaryKey,
    constraints_tag,
    join_comment,
    key_tags,
)

PARTS = ("unique", "foreign_keys", "checks", "indexes")
_BY_COLUMN = ("identity", "computed", "types")


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table with its columns, the user's comments, its key and its constraints.

    ``schema`` is the real one; the comments in ``columns`` are without tags.
    """

    name: str
    schema: str
    columns: Mapping[str, FoundColumn] = field(default_factory=dict)
    comment: str | None = None
    key: PrimaryKey = field(default_factory=lambda: PrimaryKey(()))
    constraints: Constraints = field(default_factory=Constraints)

    def column(self, name: str) -> FoundColumn:
        """Return a column, by its name without regard to case.

        Raises MigrationRefused if there is none.
        """
        for each, found in self.columns.items():
            if each.lower() == name.lower():
                return found
        listed = ", ".join(map(repr, self.columns))
        raise MigrationRefused(
            self.name, f"there is no column {name!r}", f"its columns are {listed}"
        )

    def comments(self) -> dict[str | None, str | None]:
        """Return the comment that each column, and the table itself (None), must have."""
        tags = key_tags(self.key)
        stored: dict[str | None, str | None] = {
            name: join_comment(column.comment, tags.get(name))
            for name, column in self.columns.items()
        }
        return {None: join_comment(self.comment, constraints_tag(self.constraints)), **stored}

    def with_column(self, column: FoundColumn) -> LakeTable:
        """Add a column, or put it in the place of the one of its name."""
        return replace(self, columns={**self.columns, column.name: column})

    def with_type(self, column: FoundColumn, declared: Mapping[str, str]) -> LakeTable:
        """Give a column its type; ``declared`` is what the tag says of types of text."""
        types = {
            key: text for key, text in self.constraints.types.items() if key != column.name
        }
        said = replace(self.constraints, types={**types, **declared})
        return replace(self.with_column(column), constraints=said)

    def without_column(self, name: str) -> LakeTable:
        """Drop a column with all constraints and indexes that it takes part in."""
        columns = {each: found for each, found in self.columns.items() if each != name}
        said = self.constraints
        kept: dict[str, Any] = {
            part: tuple(one for one in getattr(said, part) if not _reads(one, name))
            for part in PARTS
        }
        for part in _BY_COLUMN:
            kept[part] = {key: one for key, one in getattr(said, part).items() if key != name}
        return replace(self, columns=columns, constraints=replace(said, **kept))

    def with_column_renamed(self, old: str, new: str) -> LakeTable:
        """Rename a column wherever it is named.

        Raises MigrationRefused if an SQL text reads it, which nobody can rewrite safely.
        """
        self._refuse_texts(old)
        columns = {
            new if name == old else name: replace(found, name=new) if name == old else found
            for name, found in self.columns.items()
        }
        key = replace(self.key, columns=_renamed(self.key.columns, old, new))
        said = self.constraints
        parts: dict[str, Any] = {
            "unique": tuple(
                replace(one, columns=_renamed(one.columns, old, new)) for one in said.unique
            ),
            "foreign_keys": tuple(
                replace(one, columns=_renamed(one.columns, old, new))
                for one in said.foreign_keys
            ),
            "indexes": tuple(_renamed_index(one, old, new) for one in said.indexes),
        }
        for part in _BY_COLUMN:
            parts[part] = _renamed_keys(getattr(said, part), old, new)
        return replace(self, columns=columns, key=key, constraints=replace(said, **parts))

    def with_constraints(self, added: Constraints) -> LakeTable:
        """Add constraints; what is there already, word for word, stays as it is.

        Raises MigrationRefused if one of them has the name of another.
        """
        merged: dict[str, Any] = {}
        for part in PARTS:
            there = getattr(self.constraints, part)
            new = [one for one in getattr(added, part) if one not in there]
            for one in new:
                self._refuse_taken(one.name)
            merged[part] = tuple(sorted((*there, *new), key=_order))
        for part in _BY_COLUMN:
            merged[part] = {**getattr(self.constraints, part), **getattr(added, part)}
        return replace(self, constraints=Constraints(**merged))

    def without_constraint(self, name: str, parts: Iterable[str]) -> LakeTable:
        """Drop a constraint or an index by name.

        Raises MigrationRefused if these parts have none of that name.
        """
        parts = tuple(parts)
        kept: dict[str, Any] = {
            part: tuple(one for one in getattr(self.constraints, part) if one.name != name)
            for part in parts
        }
        said = replace(self.constraints, **kept)
        if said == self.constraints:
            there = sorted(filter(None, self._names(parts)))
            listed = ", ".join(map(repr, there)) or "nothing that has a name"
            raise MigrationRefused(
                self.name,
                f"there is no {' or '.join(parts)} named {name!r}",
                f"what there is: {listed}",
            )
        return replace(self, constraints=said)

    def referring(self, schema: str, table: str) -> tuple[ForeignKey, ...]:
        """Return the foreign keys that refer to a table."""
        return tuple(
            one
            for one in self.constraints.foreign_keys
            if (one.schema or self.schema, one.table) == (schema, table)
        )

    def with_parent_renamed(self, schema: str, old: str, new: str) -> LakeTable:
        """Let foreign keys follow a table that they refer to."""
        return self._with_references(schema, old, lambda one: replace(one, table=new))

    def with_parent_column_renamed(
        self, parent: tuple[str, str], old: str, new: str
    ) -> LakeTable:
        """Let foreign keys follow a column of ``parent`` (schema, name) that they refer to."""
        return self._with_references(
            *parent, lambda one: replace(one, referred=_renamed(one.referred, old, new))
        )

    def _with_references(
        self, schema: str, table: str, change: Callable[[ForeignKey], ForeignKey]
    ) -> LakeTable:
        concerned = self.referring(schema, table)
        changed = tuple(
            change(one) if one in concerned else one for one in self.constraints.foreign_keys
        )
        return replace(self, constraints=replace(self.constraints, foreign_keys=changed))

    def _names(self, parts: Iterable[str]) -> list[str | None]:
        return [one.name for part in parts for one in getattr(self.constraints, part)]

    def _refuse_taken(self, name: str | None) -> None:
        if name is not None and name in (*self._names(PARTS), self.key.name):
            raise MigrationRefused(
                self.name,
                f"{name!r} is the name of another constraint or index",
                "drop that one first, or choose another name",
            )

    def _refuse_texts(self, column: str) -> None:
        said = self.constraints
        texts = [(one.name, one.sqltext) for one in said.checks]
        texts += [(f"computed column {name}", text) for name, text in said.computed.items()]
        texts += [(one.name, text) for one in said.indexes for text in one.expressions]
        for name, text in texts:
            if column.lower() in columns_in(text):
                raise MigrationRefused(
                    self.name,
                    f"{name or 'a check'!r} reads column {column!r}: {text}",
                    "drop it before the rename, and make it again with the new name",
                )


def _order(one: Any) -> tuple[str, str]:
    return one.name or "", repr(one)


def _reads(one: Any, column: str) -> bool:
    """Tell whether a constraint or an index is about a column."""
    named = (*getattr(one, "columns", ()), *getattr(one, "include", ()))
    texts = (*getattr(one, "expressions", ()), *filter(None, [getattr(one, "sqltext", None)]))
    return column in named or any(column.lower() in columns_in(text) for text in texts)


def _renamed(columns: Iterable[Any], old: str, new: str) -> tuple[Any, ...]:
    return tuple(new if column == old else column for column in columns)


def _renamed_keys(said: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if key == old else key: value for key, value in said.items()}


def _renamed_index(index: Index, old: str, new: str) -> Index:
    return replace(
        index,
        columns=_renamed(index.columns, old, new),
        include=_renamed(index.include, old, new),
        sorting=_renamed_keys(index.sorting, old, new),
    )
