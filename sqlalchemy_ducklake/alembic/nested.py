"""What is inside of types: finding, adding, dropping and comparing fields.

A path leads into a column: the names of fields, ``element`` into a LIST, ``key`` and
``value`` into a MAP.  Names are compared as the engine does, without regard to case.
Everything here is values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlalchemy_ducklake.alembic.widening import is_lossless
from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName

Path = tuple[str, ...]

_TEXTS = {"CHAR", "NCHAR", "NVARCHAR", "VARCHAR"}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One step from a type to another, at a path that begins inside of the column.

    ``old`` is None for what is added, ``new`` for what is dropped.
    """

    path: Path
    old: TypeName | None
    new: TypeName | None

    @property
    def is_possible(self) -> bool:
        """Tell whether a lake can make the change without loss."""
        if self.old is None or self.new is None:
            return True
        return is_lossless(self.old, self.new)


def stored(kind: TypeName) -> TypeName:
    """Return a type as a lake keeps it, which knows one type of text and no length."""
    if kind.name in _TEXTS:
        return TypeName("VARCHAR")
    inside = tuple((name, stored(one)) for name, one in kind.inside)
    return replace(kind, inside=inside)


def at(kind: TypeName, path: Path) -> TypeName | None:
    """Return the type at a path, None if there is none."""
    for step in path:
        found = [one for name, one in kind.inside if name.lower() == step.lower()]
        if not found:
            return None
        kind = found[0]
    return kind


def with_field(kind: TypeName, path: Path, field: TypeName) -> TypeName:
    """Put a type at a path, behind its neighbours if it is new there."""
    return _changed(kind, path, path[-1], field)


def without_field(kind: TypeName, path: Path) -> TypeName:
    """Drop what is at a path."""
    return _changed(kind, path, path[-1], None)


def with_field_renamed(kind: TypeName, path: Path, new: str) -> TypeName:
    """Rename the field at a path."""
    return _changed(kind, path, new, at(kind, path))


def _changed(kind: TypeName, path: Path, name: str, field: TypeName | None) -> TypeName:
    step, rest = path[0], path[1:]
    inside = []
    for there, one in kind.inside:
        if there.lower() != step.lower():
            inside.append((there, one))
        elif rest:
            inside.append((there, _changed(one, rest, name, field)))
        elif field is not None:
            inside.append((name, field))
    if not rest and field is not None and at(kind, (step,)) is None:
        inside.append((name, field))
    return replace(kind, inside=tuple(inside))


def differences(old: TypeName, new: TypeName, path: Path = ()) -> Iterator[FieldChange]:
    """Give the steps that make one type of another; the order of fields does not count.

    What is dropped comes last, so that no STRUCT is without fields in between.
    """
    if old == new:
        return
    if old.name != new.name or not old.inside:
        yield FieldChange(path, old, new)
        return
    there = {name.lower(): one for name, one in old.inside}
    wanted = {name.lower() for name, _ in new.inside}
    for name, one in new.inside:
        if name.lower() in there:
            yield from differences(there[name.lower()], one, (*path, name))
        else:
            yield FieldChange((*path, name), None, one)
    for name, one in old.inside:
        if name.lower() not in wanted:
            yield FieldChange((*path, name), one, None)


def same(old: TypeName, new: TypeName) -> bool:
    """Tell whether two types are the same to a lake, whatever the order of their fields."""
    return not any(True for _ in differences(stored(old), stored(new)))
