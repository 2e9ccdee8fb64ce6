"""What a commit says about itself, in the extra info of its snapshot.

A JSON object under one name, beside whatever else is there: an id by which a commit finds
itself again, and for each table how it was written and the key whose uniqueness was
proved.  Reading believes each part by itself: what is malformed or unknown is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sqlalchemy_ducklake.errors import OptionError

NAMESPACE = "sqlalchemy_ducklake"


@dataclass(frozen=True, slots=True)
class TableMark:
    """How a commit wrote a table.

    ``validated_key`` are the columns, in order, whose values were proved to be unique
    among all rows; empty if that was not asked.
    """

    mode: str
    validated_key: tuple[str, ...] = ()
    row_count: int | None = None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The id of a commit and its marks, by the name of the table."""

    commit_id: str
    tables: Mapping[str, TableMark] = field(default_factory=dict)

    def encode(self, extra: Mapping[str, Any] | None = None) -> str:
        """Write the record as JSON, beside what the user put in.

        Raises OptionError if the user's part is not JSON or uses our name.
        """
        if extra is not None and NAMESPACE in extra:
            raise OptionError("commit_info.extra", f"the name {NAMESPACE!r} is taken")
        tables = {name: dict(_parts(mark)) for name, mark in self.tables.items()}
        own = {"commit_id": self.commit_id, "tables": tables}
        try:
            return json.dumps({**(extra or {}), NAMESPACE: own})
        except (TypeError, ValueError) as error:
            raise OptionError("commit_info.extra", f"it must be JSON: {error}") from error

    @classmethod
    def decode(cls, text: str | None) -> Self | None:
        """Read a record, None where there is none."""
        own = _member(_loaded(text), NAMESPACE)
        commit_id = _member(own, "commit_id")
        if not isinstance(commit_id, str) or not commit_id.strip():
            return None
        tables = _member(own, "tables")
        marks = tables.items() if isinstance(tables, dict) else ()
        return cls(commit_id, {name: _mark(parts) for name, parts in marks})


def table_label(schema: str, table: str) -> str:
    """Name a table in one text; parts with a point or a quote in them are quoted."""
    return ".".join(_quoted(part) for part in (schema, table))


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if {".", '"'} & set(part) else part


def _parts(mark: TableMark) -> Iterator[tuple[str, object]]:
    yield "mode", mark.mode
    if mark.validated_key:
        yield "validated_key", list(mark.validated_key)
    if mark.row_count is not None:
        yield "row_count", mark.row_count


def _loaded(text: str | None) -> object:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None  # somebody else's extra info


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _mark(parts: object) -> TableMark:
    mode, count = _member(parts, "mode"), _member(parts, "row_count")
    return TableMark(
        mode if isinstance(mode, str) else "",
        _key(_member(parts, "validated_key")),
        count if type(count) is int and count >= 0 else None,
    )


def _key(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return ()
    distinct = len(set(value)) == len(value)
    return tuple(value) if distinct and all(name.strip() for name in value) else ()
