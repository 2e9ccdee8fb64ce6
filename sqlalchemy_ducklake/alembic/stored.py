"""How an operation reads the tables of a lake and writes what is kept in comments.

In offline mode there is no lake to read, so only tables that the same script made are
known; they are remembered as values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from alembic.ddl.impl import DefaultImpl
from sqlalchemy import inspect
from sqlalchemy.engine import Connection
from sqlalchemy.sql.compiler import DDLCompiler

from sqlalchemy_ducklake.alembic import catalog
from sqlalchemy_ducklake.alembic.elements import StoreComment
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.keys import Constraints

_Place = tuple[str, str]


class StoredTables(DefaultImpl):
    """The tables of a lake, or of an offline script, as values."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.made: dict[_Place, LakeTable] = {}

    @property
    def lake(self) -> Connection:
        """The connection of an online migration."""
        return cast("Connection", self.connection)

    @property
    def compiler(self) -> DDLCompiler:
        """A compiler, for what the tags of a model say."""
        nothing: Any = None
        return self.dialect.ddl_compiler(self.dialect, nothing)

    def real_schema(self, schema: str | None) -> str:
        """Name the schema that an operation is about."""
        return str(schema or self.dialect.default_schema_name or "main")

    def table(self, name: str, schema: str | None) -> LakeTable:
        """Return a table as it is now; raises MigrationRefused if there is none."""
        place = self.real_schema(schema), str(name)
        if self.as_sql:
            return self._made(place)
        found = catalog.read(self.lake, place[0], [place[1]])
        if not found:
            raise MigrationRefused(
                ".".join(place), "there is no such table", "look at its name and schema"
            )
        return found[0]

    def tables(self) -> Iterator[LakeTable]:
        """Give every table of the lake."""
        if self.as_sql:
            yield from list(self.made.values())
            return
        for schema in inspect(self.lake).get_schema_names():
            yield from catalog.read(self.lake, schema, None)

    def settle(self, stored: LakeTable, wanted: LakeTable) -> None:
        """Write the comments by which ``wanted`` differs from what is ``stored``."""
        there = stored.comments()
        for column, comment in wanted.comments().items():
            if comment != there[column]:
                self._exec(StoreComment(wanted.name, wanted.schema, column, comment))
        self.remember(wanted)

    def settle_constraints(self, stored: Constraints, wanted: LakeTable) -> None:
        """Write the comments of a table whose columns are already as wanted."""
        self.settle(replace(wanted, constraints=stored), wanted)

    def remember(self, table: LakeTable) -> None:
        """Know a table in the rest of an offline script."""
        if self.as_sql:
            self.made[table.schema, table.name] = table

    def forget(self, name: str, schema: str | None) -> None:
        """Know nothing of a table in the rest of an offline script."""
        self.made.pop((self.real_schema(schema), str(name)), None)

    def refuse_offline(self, table: str, what: str) -> None:
        """Refuse in offline mode what depends on the rows of a lake."""
        if self.as_sql:
            raise MigrationRefused(
                table, f"to {what} the rows must be looked at", "run this migration online"
            )

    def _made(self, place: _Place) -> LakeTable:
        if place not in self.made:
            raise MigrationRefused(
                ".".join(place),
                "its keys and constraints cannot be read in offline mode (--sql)",
                "run this migration online, or generate the script from the revision that "
                "creates the table",
            )
        return self.made[place]
