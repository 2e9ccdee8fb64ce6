"""How an operation reads the tables of a lake and writes what is kept in comments.

In offline mode there is no lake to read, so only tables that the same script made are
known; they are remembered as values.  What an online transaction changed of layouts is
remembered too, because nobody tells it before the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast
from weakref import WeakKeyDictionary

from alembic.ddl.impl import DefaultImpl
from sqlalchemy import Select, exc, inspect
from sqlalchemy.engine import Connection, CursorResult, Transaction
from sqlalchemy.schema import DDLElement
from sqlalchemy.sql.compiler import DDLCompiler

from sqlalchemy_ducklake.alembic import catalog
from sqlalchemy_ducklake.alembic.elements import Refuse, StoreComment
from sqlalchemy_ducklake.alembic.refusals import MigrationRefused, late_rename
from sqlalchemy_ducklake.alembic.tables import LakeTable
from sqlalchemy_ducklake.alembic.writes import statements_of
from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
from sqlalchemy_ducklake.dialect.lateoptions import TableOptions
from sqlalchemy_ducklake.dialect.layout import Layout
from sqlalchemy_ducklake.driver.renames import altered_name
from sqlalchemy_ducklake.keys import Constraints

_Place = tuple[str, str]


@dataclass(slots=True)
class Memory:
    """What a transaction did to layouts, which nobody tells before it is committed.

    ``unpartitioned`` are tables that were partitioned before, and are no more.
    """

    laid_out: dict[_Place, Layout] = field(default_factory=dict)
    unpartitioned: set[_Place] = field(default_factory=set)


# Of each open transaction, shared by all who migrate in it.
_memories: WeakKeyDictionary[Transaction, Memory] = WeakKeyDictionary()


class StoredTables(DefaultImpl):
    """The tables of a lake, or of an offline script, as values."""

    dialect: DuckLakeDialect

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.made: dict[_Place, LakeTable] = {}
        self._written = Memory()
        #: What an offline script made since its last COMMIT, and what it sets after the next.
        self.created: set[_Place] = set()
        self._later: list[TableOptions] = []
        self._altered: set[str] = set()

    def check_turn(self) -> None:
        """Find out whether it is still the turn of this run of revisions."""

    @property
    def runs_revisions(self) -> bool:
        """Tell whether this runs the revisions of a script directory."""
        return self.context_opts.get("fn") is not None

    @property
    def lake(self) -> Connection:
        """The connection of an online migration."""
        return cast("Connection", self.connection)

    @property
    def memory(self) -> Memory:
        """What the open transaction, or the offline script, has done to layouts."""
        transaction = None if self.as_sql else self.lake.get_transaction()
        if transaction is None:
            return self._written
        return _memories.setdefault(transaction, Memory())

    def _exec(self, construct: Any, *args: Any, **kw: Any) -> CursorResult[Any] | None:
        """Execute a statement, or write it down, if it is still the turn of this run."""
        self.check_turn()
        return super()._exec(construct, *args, **kw)

    def ask(self, query: Select[Any]) -> list[tuple[Any, ...]]:
        """Give the rows of a query; an offline script asks when it runs, and stops at any."""
        if self.as_sql:
            self._exec(Refuse(query))
            return []
        return [tuple(row) for row in self.lake.execute(query)]

    def alter(self, table: LakeTable, element: DDLElement) -> None:
        """Execute what the engine refuses after rows came into a table and stay in the catalog.

        Raises MigrationRefused then; the transaction is over.
        """
        try:
            self._exec(element)
        except exc.NotSupportedError as error:
            raise MigrationRefused(
                table.name,
                f"the engine cannot do this here: {error.orig}",
                "do it before rows are inserted, or in a revision of its own",
            ) from error

    def static_output(self, text: str) -> None:
        """Write a piece of an offline script, unless it would ruin the lake.

        Raises MigrationRefused for the rename of a table that the same transaction altered,
        which the driver refuses and DuckDB's shell does not.
        """
        for statement in statements_of(text) or ():
            self._note_rename(statement.query)
        super().static_output(text)

    def _note_rename(self, query: str) -> None:
        name, renames = altered_name(query) or (None, False)
        if renames and name in self._altered:
            raise late_rename(str(name))
        if name is not None and not renames:
            self._altered.add(name)

    def set_later(self, options: TableOptions) -> None:
        """Set options in an offline script right after the next COMMIT."""
        self._later.append(options)

    def take_later(self) -> list[TableOptions]:
        """Give what is to be set after a COMMIT of an offline script, once."""
        waiting, self._later = self._later, []
        self.created.clear()
        self._altered.clear()
        return waiting

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
        self.check_turn()
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

    def settle_column(self, wanted: LakeTable, column: str) -> None:
        """Write the comment of a column that was made anew."""
        comment = wanted.comments()[column]
        if comment is not None:
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
        """Know nothing of a table any more."""
        place = self.real_schema(schema), str(name)
        self.made.pop(place, None)
        self.memory.laid_out.pop(place, None)
        self.created.discard(place)

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
