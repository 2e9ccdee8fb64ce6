"""Which statements a write scope can keep aside, and the names of what they see.

A statement in which text stands may name tables that nobody knows of, and a view has
nothing of what the engine knows of a row besides its columns.  Such statements are left as
they are; they run after what is kept has been written.
"""

# What SQLAlchemy gives a compiler are private parts of its statements.
# ruff: noqa: SLF001

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Table, exc

from sqlalchemy_ducklake.dialect.identifiers import DuckLakeIdentifierPreparer
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.scope.log import overlay_name
from sqlalchemy_ducklake.scope.reading import UNSEEN_COLUMNS

# One of our own words, or some other constant: no name, no query.
_WORD = re.compile(r"'[^']*'|-?[0-9.]+|[*]|null|true|false")


class NotStaged(exc.CompileError):
    """A statement that a scope cannot keep aside."""


class OverlayPreparer(DuckLakeIdentifierPreparer):
    """Names the view of a scope where a table is meant."""

    def __init__(self, dialect: Any, schema: str) -> None:
        super().__init__(dialect)
        self._default_schema = schema

    def table_name(self, wanted: Any) -> TableName:
        """Give schema and name of a table of the lake."""
        return wanted.schema or self._default_schema, wanted.name

    def format_table(self, table: Any, use_schema: bool = True, name: Any = None) -> str:
        """Quote the name of a view, for a table of the lake."""
        if is_of_lake(table):
            return self.quote(overlay_name(*self.table_name(table)))
        return super().format_table(table, use_schema, name)


def is_of_lake(table: Any) -> bool:
    """Tell whether a table is one that the lake keeps."""
    return isinstance(table, Table) and "TEMPORARY" not in table._prefixes


def refuse_others(state: Any) -> None:
    """Leave UPDATE … FROM and DELETE … USING alone."""
    if state._extra_froms:
        raise NotStaged("a statement that joins other tables is written at once")


def refuse_unknown(column: Any) -> None:
    """Leave a statement alone that names what a view may not have; words and numbers pass."""
    text = column.name.lower()
    plain = not text.strip("0123456789") or _WORD.fullmatch(text)
    if (column.is_literal and not plain) or text in UNSEEN_COLUMNS:
        raise NotStaged("a statement with text in it is written at once")
