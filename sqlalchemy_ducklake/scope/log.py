"""The log of one table: which of its rows are gone, changed or new.

A row has an identity as long as the transaction reads one snapshot: the engine's row id,
or a number beyond all row ids if the transaction made it.  The log holds *versions* of
rows.  The one that counts is open; a version that a savepoint may bring back is closed
with the mark under which that happened.  Without savepoints a new version takes the
place of the old one, so the log holds each row once, however often it changes.

Queries see the lake through views that leave out what the log speaks of and add what it
holds: one for statements that change rows, which shows their identity, and one for the
program's own queries, which looks just like the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy_ducklake.lake.attach import identifier, literal
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.merge.staging import own_name

#: Rows that the transaction made are numbered from here; row ids end below 2 ** 60.
FIRST_OWN_ROW = 1 << 62
#: The columns of a version besides those of its row.
ROW, SINCE, UNTIL, GONE = map(own_name, ("row", "since", "until", "gone"))
#: The variable of the engine that holds the mark of the innermost savepoint.
MARK = own_name("mark")
#: The mark, as an expression.
MARKED = f"getvariable({literal(MARK)})"


class LakeColumn(NamedTuple):
    """A column as the engine describes it: its type and its default as text."""

    name: str
    type: str
    nullable: bool
    default: str | None


def lowered(table: TableName) -> TableName:
    """Give a table's name as the lake compares it."""
    schema, name = table
    return schema.lower(), name.lower()


def overlay_name(schema: str, table: str) -> str:
    """Name the view through which statements that change rows see a table."""
    return own_name(f"log overlay {schema}.{table}")


def log_name(schema: str, table: str) -> str:
    """Name the log of a table."""
    return own_name(f"log table {schema}.{table}")


def next_name(number: int) -> str:
    """Name the stage of versions that a step of a statement is about to log."""
    return own_name(f"next{number}")


def opened(log: str) -> str:
    """Say of versions of a log (its quoted name) that they are open."""
    return f"{log}.{identifier(UNTIL)} IS NULL"


def versions(log: str, rows: str, mark: str = MARKED) -> tuple[str, str]:
    """Replace, or close, the open versions of rows (a query of their identities).

    Nobody can bring back a version of the innermost savepoint itself, so that is replaced.
    """
    since, until, row = map(identifier, (SINCE, UNTIL, ROW))
    known = f"{until} IS NULL AND {row} IN ({rows})"
    return (
        f"DELETE FROM {log} WHERE {known} AND {since} >= {mark}",
        f"UPDATE {log} SET {until} = {mark} WHERE {known}",
    )


def staged_versions(log: str, stage: str, *, gone: bool) -> str:
    """Log what rows become, from a stage that has their columns and ``rowid``."""
    version = f"* EXCLUDE (rowid), rowid, {MARKED}, NULL, {str(gone).lower()}"
    # A row that the transaction itself had made is just not there any more.
    kept = f" WHERE rowid < {FIRST_OWN_ROW}" if gone else ""
    return f"INSERT INTO {log} SELECT {version} FROM {stage}{kept}"


@dataclass(slots=True)
class Log:
    """The log of one table, and what is known of it in this transaction.

    ``key`` are the columns of its primary key, ``copied`` says that the table was copied.
    As long as nothing is ``made``, statements read the table itself.
    ``keeps`` tells that there is a log at all and not only a view, ``hides`` that rows of
    the lake may be in it, ``dirty`` that any may; ``assigned`` are the columns that rows of
    the lake may have other values in, and ``moved`` says that the key's are among them.
    ``parents`` are the tables that it refers to.  With ``recent`` queries see own rows
    besides, which are only in Python: the batch of that name has them, with those that are
    gone, in place of what is logged of them.
    """

    lake: str
    table: TableName
    columns: Sequence[LakeColumn]
    key: Sequence[str] = ()
    copied: bool = False
    made: bool = False
    keeps: bool = False
    hides: bool = False
    dirty: bool = False
    moved: bool = False
    defended: bool = False
    recent: bool = False
    assigned: set[str] = field(default_factory=set)
    parents: set[TableName] = field(default_factory=set)

    @property
    def target(self) -> str:
        """The table itself, quoted and in full."""
        return ".".join(map(identifier, (self.lake, *self.table)))

    @property
    def name(self) -> str:
        """The name of the log, quoted."""
        return identifier(log_name(*self.table))

    @property
    def overlay(self) -> str:
        """The quoted name of what shows rows with their identity."""
        return identifier(overlay_name(*self.table)) if self.made else self.target

    @property
    def shown(self) -> str:
        """The bare name of the view for queries."""
        return own_name(f"log shown {self.table[0]}.{self.table[1]}")

    @property
    def recent_name(self) -> str:
        """The bare name of the batch of recent rows."""
        return own_name(f"log recent {self.table[0]}.{self.table[1]}")

    def make(self) -> str:
        """CREATE OR REPLACE TEMP TABLE <log> (<columns of the table and of a version>)."""
        columns = [*map(_defined, self.columns)]
        columns += [f"{identifier(each)} BIGINT" for each in (ROW, SINCE, UNTIL)]
        columns += [f"{identifier(GONE)} BOOLEAN"]
        return f"CREATE OR REPLACE TEMP TABLE {self.name} ({', '.join(columns)})"

    def copy(self) -> str:
        """CREATE the copy of the table, with its row ids."""
        rows = f"SELECT *, rowid AS rowid FROM {self.target}"
        return f"CREATE OR REPLACE TEMP TABLE {self._copy} AS {rows}"

    @property
    def _copy(self) -> str:
        return identifier(own_name(f"log copy {self.table[0]}.{self.table[1]}"))

    def views(self) -> Iterator[str]:
        """CREATE the views; again once they show something else."""
        names = ", ".join(identifier(each.name) for each in self.columns)
        base = f"FROM {self._copy if self.copied else self.target} AS base{self._hiding()}"
        rows = f"{opened(self.name)} AND NOT {identifier(GONE)}"
        own = f" UNION ALL SELECT {names}, {identifier(ROW)} FROM {self.name} WHERE {rows}"
        overlay = f"SELECT {names}, base.rowid AS rowid {base}{own if self.keeps else ''}"
        yield f"CREATE OR REPLACE TEMP VIEW {self.overlay} AS {overlay}"
        if self.keeps:
            shown = f"SELECT {names} {base} UNION ALL {self._own_rows(names, rows)}"
            yield f"CREATE OR REPLACE TEMP VIEW {identifier(self.shown)} AS {shown}"

    def _own_rows(self, names: str, rows: str) -> str:
        """SELECT what is logged, but recent rows in place of what is logged of them."""
        logged = f"SELECT {names} FROM {self.name}"
        if not self.recent:
            return f"{logged} WHERE {rows}"
        recent, row = identifier(self.recent_name), identifier(ROW)
        same = f"{self.name}.{row} = recent.{row}"
        logged = f"{logged} ANTI JOIN (SELECT {row} FROM {recent}) AS recent ON {same}"
        values = ", ".join(
            f"CAST({identifier(each.name)} AS {each.type})" for each in self.columns
        )
        kept = f"SELECT {values} FROM {recent} WHERE NOT {identifier(GONE)}"
        return f"{logged} WHERE {rows} UNION ALL {kept}"

    def undo(self, mark: int) -> Iterator[str]:
        """Bring back what the log held when a savepoint was set."""
        since, until = identifier(SINCE), identifier(UNTIL)
        yield f"DELETE FROM {self.name} WHERE {since} >= {mark}"
        yield f"UPDATE {self.name} SET {until} = NULL WHERE {until} >= {mark}"

    def drop(self) -> Iterator[str]:
        """DROP what was made."""
        yield f"DROP VIEW IF EXISTS {self.overlay}"
        if self.keeps:
            yield f"DROP VIEW IF EXISTS {identifier(self.shown)}"
            yield f"DROP TABLE IF EXISTS {self.name}"
        if self.copied:
            yield f"DROP TABLE IF EXISTS {self._copy}"

    def _hiding(self) -> str:
        if not self.hides:
            return ""
        row = identifier(ROW)
        known = f"{opened(self.name)} AND {row} < {FIRST_OWN_ROW}"
        rows = f"SELECT {row} FROM {self.name} WHERE {known}"
        return f" ANTI JOIN ({rows}) AS known ON base.rowid = known.{row}"


def _defined(column: LakeColumn) -> str:
    text = f"{identifier(column.name)} {column.type}"
    if column.default is not None:
        text += f" DEFAULT {column.default}"
    return text if column.nullable else f"{text} NOT NULL"
