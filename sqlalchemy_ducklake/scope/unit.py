"""The write scope of one transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from sqlalchemy_ducklake.driver import Connection, Cursor
from sqlalchemy_ducklake.driver.script import Script
from sqlalchemy_ducklake.driver.statements import READING
from sqlalchemy_ducklake.lake.attach import identifier
from sqlalchemy_ducklake.lake.changes import TableName
from sqlalchemy_ducklake.scope.conflicts import refuse_changed
from sqlalchemy_ducklake.scope.copies import is_small
from sqlalchemy_ducklake.scope.intents import Answer, written
from sqlalchemy_ducklake.scope.keepers import Keepers
from sqlalchemy_ducklake.scope.kept import Act, Plain
from sqlalchemy_ducklake.scope.log import MARK, LakeColumn, Log, log_name, lowered
from sqlalchemy_ducklake.scope.options import WriteScope
from sqlalchemy_ducklake.scope.reading import Place, led
from sqlalchemy_ducklake.scope.savepoints import Savepoints
from sqlalchemy_ducklake.scope.writing import write_logs

_Kind = duckdb.StatementType

#: The flag of a script that runs while no savepoint is open.
NO_SAVEPOINT = "no savepoint"
#: The count that tells that a script has begun to log.
LOGGED = "logged"


@dataclass(frozen=True, slots=True)
class Staging:
    """What a statement does to the log of its ``target``.

    It reads ``tables`` through their views.  ``key`` is the target's, ``assigned`` are the
    columns that rows of the lake may get other values in; ``hides`` says that such rows may
    change or go, ``appends`` that it only adds rows to a table without a key, for which
    nobody else's rows matter.  ``size`` is about how many bytes its parameters have, and
    ``parents`` are the tables that the target refers to.
    """

    target: TableName
    tables: tuple[TableName, ...]
    key: tuple[str, ...] = ()
    assigned: frozenset[str] = frozenset()
    hides: bool = False
    appends: bool = False
    defended: bool = False
    size: int = 0
    parents: frozenset[TableName] = frozenset()


class Scope:
    """What one transaction keeps aside."""

    def __init__(self, connection: Connection, limits: WriteScope) -> None:
        self._connection = connection
        self.limits = limits
        self._logs: dict[TableName, Log] = {}
        self._checked: set[TableName] = set()
        self._led: dict[str, str | None] = {}
        self._rows = self._bytes = 0
        self._busy = False
        #: Whether statements may still be staged: names mean what they did at the start.
        self.open = True
        self.savepoints = Savepoints()
        self._keepers = Keepers(connection, self._run, self._make, self.savepoints)

    # What the driver asks.

    @property
    def waits(self) -> bool:
        """Tell whether there is anything to write."""
        return any(log.dirty for log in self._logs.values())

    def ready(self) -> None:
        """Log what is kept in Python, as far as that is needed to write it."""
        self._keepers.ready()

    def settle(self) -> None:
        """Write what waits into the open transaction, before anything else happens there."""
        if self._busy:
            return
        self.savepoints.lose("a statement was run that writes into the lake itself")
        self.ready()
        try:
            if self.waits:
                self._connection.work.direct = True
                self.write()
        except BaseException as error:
            self._connection.abort(error)
            raise
        # Whatever comes now may change the lake, and what its tables are made of.
        with self._connection.staged():
            self.forget()
        self._rows = self._bytes = 0

    def write(self) -> None:
        """Write what waits into the open transaction."""
        self._busy = True
        try:
            dirty = [log for log in self._logs.values() if log.dirty]
            write_logs(self._connection, self._run, dirty, self._keepers.straight())
        finally:
            self._busy = False

    def check(self, base: int, head: int) -> None:
        """Raise SerializationFailure if what was read at ``base`` is not so at ``head``."""
        duck, config = self._connection.duck, self._connection.config
        checked = sorted(self._checked)
        serializable = self._connection.serializable
        refuse_changed(duck, config, checked, (base, head), anything=serializable)

    @property
    def temporary(self) -> bool:
        """Tell whether there are temporary tables and views."""
        return any(log.made for log in self._logs.values())

    def forget(self) -> None:
        """Drop the temporary tables and views."""
        self._keepers.forget_all()
        for log in [each for each in self._logs.values() if each.made]:
            for text in log.drop():
                self._connection.duck.execute(text)
            if log.recent:
                self._connection.duck.unregister(log.recent_name)
        self._logs.clear()
        self._led.clear()

    # What the dialect asks.

    def prepare(self, staging: Staging, *, plain: bool = False) -> bool:
        """Make what a statement needs; tell whether it can be staged.

        One that is ``plain`` needs nothing yet.
        """
        try:
            for table in staging.tables:
                if not self._know(table, staging, plain=plain):
                    return False
        except duckdb.Error as error:
            self._connection.note(error)
            if self._connection.aborted:
                raise
            # Is it no table, the statement itself will say so.
            return False
        return True

    def keep(
        self, plain: Plain, staging: Staging, script: Script, sets: Sequence[Sequence[Any]]
    ) -> Answer | None:
        """Keep single rows in Python; None if the script of the statement has to run."""
        connection = self._connection
        self._require_alive()
        if not self.prepare(staging, plain=True):
            return None
        trusted = connection.trusts(script)
        if plain.act is Act.INSERT and plain.key_names and not trusted:
            return None  # the script looks at the rows that are there, and proves the key
        log = self._logs[lowered(staging.target)]
        with self._keepers.poisoning():
            intent = self._keepers.of(log).intent(plain, sets)
            if intent is None:
                return None
            connection.work.note_script(script, trusted=trusted, staged=True)
            answer = intent.apply()
        connection.work.note_proof(script)
        self._note(staging, answer.number)
        return answer

    def stage(self, staging: Staging, cursor: Cursor, run: Callable[[], object]) -> None:
        """Run a statement that logs what it would write."""
        self._keepers.log(map(lowered, staging.tables))
        self._keepers.forget([lowered(staging.target)])
        self.prepare(staging)  # something may have been written since
        try:
            with self._connection.staged():
                run()
        except BaseException as error:
            if LOGGED in cursor.counts:
                self._connection.abort(error)
            raise
        counts = dict(cursor.counts)
        counts.pop(LOGGED, None)
        cursor.counts = counts
        self._note(staging, written(counts))

    def keep_within_limits(self) -> None:
        """Write into the transaction what is too much to be kept."""
        over = self._rows > self.limits.max_rows or self._bytes > self.limits.max_bytes
        if over and not self.savepoints:
            self._connection.detach_live()
            self.settle()

    def read(self, text: str) -> str | None:
        """Give the text that sees what is kept; None if that has to be written first."""
        if text not in self._led or not self.waits:
            kind = self._kind(text)
            if kind == _Kind.SET:
                return self._setting(text)
            if kind not in READING or not self.waits:
                return text if kind in _UNLED else None
            if len(self._led) >= _MOST_LED:
                self._led.clear()
            self._led[text] = self._lead(text)
        found = self._led[text]
        if found is not None:
            self._keepers.show(name for name, log in self._logs.items() if log.shown in found)
        return found

    def _kind(self, text: str) -> duckdb.StatementType | None:
        """Tell what kind of statement a text is; None if it is not exactly one."""
        statements = self._connection.duck.extract_statements(text)
        return statements[0].type if len(statements) == 1 and statements[0].query else None

    def savepoint(self, name: str) -> None:
        """Set a savepoint."""
        self._require_alive()
        self._keepers.log_all()
        self.savepoints.take(name)
        self._remember_mark()

    def back_to(self, name: str) -> None:
        """Let everything be as it was when the savepoint was set."""
        self._require_alive()
        mark = self.savepoints.back_to(name)
        self._keepers.forget_all()
        self._connection.work.forget_rows()
        for log in self._logs.values():
            if log.keeps and log.made:
                for text in log.undo(mark):
                    self._run(text)
        self._remember_mark()

    def release(self, name: str) -> None:
        """Forget a savepoint; what came after it stays."""
        self._require_alive()
        self.savepoints.release(name)
        self._remember_mark()

    @property
    def flags(self) -> tuple[str, ...]:
        """Tell what the steps of a script depend on."""
        return () if self.savepoints else (NO_SAVEPOINT,)

    # How it is done.

    def _know(self, table: TableName, staging: Staging, *, plain: bool) -> bool:
        """Make log and views of a table as a statement needs them, unless it is plain."""
        log = self._logs.get(lowered(table)) or self._described(table)
        if any(each.name.lower() == "rowid" for each in log.columns):
            return False
        if lowered(table) not in self._logs:
            self._logs[lowered(table)] = log
            self._led.clear()
        if table == staging.target:
            if not log.keeps:
                # Others may describe the table differently; what is kept has this key.
                log.key = staging.key
            self._keep_log(log, hides=staging.hides and not plain, made=not plain)
        elif not (log.made or plain):
            self._make(log)
        return True

    def _keep_log(self, log: Log, *, hides: bool, made: bool) -> None:
        """Let a table have a log."""
        new, hides_more = not log.keeps, hides and not log.hides
        log.keeps, log.hides = True, log.hides or hides
        if (new or hides_more) if log.made else made:
            self._make(log, new=new)

    def _make(self, log: Log, *, new: bool = False) -> None:
        """Make the views of a table, and its log if it has none or a ``new`` one."""
        if not log.made:
            if self._is_small(log.table):
                self._run(log.copy())
                log.copied = True
            self._remember_mark()
        if log.keeps and (new or not log.made):
            self._run(log.make())
        log.made = True
        for text in log.views():
            self._run(text)
        self._led.clear()

    def _is_small(self, table: TableName) -> bool:
        duck, config = self._connection.reading()
        return not self._connection.work.direct and is_small(duck, config, table)

    def _described(self, table: TableName) -> Log:
        log = Log(self._connection.config.alias, table, ())
        rows = self._run(f"DESCRIBE {log.target}").fetchall()
        log.columns = [
            LakeColumn(name, kind, null == "YES", None if default == "NULL" else default)
            for name, kind, null, _, default, _ in rows
        ]
        return log

    def _note(self, staging: Staging, rows: int) -> None:
        """Remember what a statement has done."""
        log = self._logs[lowered(staging.target)]
        if not staging.appends:
            self._checked.update(staging.tables)
        if not rows:
            return
        log.dirty = True
        log.parents |= staging.parents
        log.defended = log.defended or staging.defended
        log.assigned |= staging.assigned
        log.moved = log.moved or not staging.assigned.isdisjoint(staging.key)
        self._rows += rows
        self._bytes += max(staging.size, rows * _BYTES_PER_VALUE * len(log.columns))

    def _lead(self, text: str) -> str | None:
        kept = {name: log for name, log in self._logs.items() if log.keeps}
        for log in kept.values():
            if not log.made:
                self._make(log)
        shown = {name: log.shown for name, log in kept.items()}
        logs = {name: log_name(*log.table) for name, log in kept.items()}
        self._connection.detach_live()
        try:
            return led(self._connection.duck, text, self._place(), shown, logs)
        except duckdb.Error as error:
            # The statement itself will say what is wrong with it.
            self._connection.note(error)
            return None

    def _place(self) -> Place:
        """Tell where names are looked up."""
        duck, config = self._connection.reading()
        schema = duck.execute("SELECT current_schema()").fetchone()
        return Place(config.alias, str(schema[0]) if schema else config.schema)

    def _setting(self, text: str) -> str | None:
        """Give a setting back, unless it may let names mean something else from now on."""
        found = _SETTING.match(text.lower())
        if found is None or found[1] in {"schema", "search_path"}:
            self.open = False
            return None
        return text

    def _run(self, text: str, values: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        """Run a statement on what is temporary."""
        with self._connection.staged():
            (statement,) = self._connection.duck.extract_statements(text)
            self._connection.send(statement, values)
        return self._connection.duck

    def _remember_mark(self) -> None:
        self._run(f"SET VARIABLE {identifier(MARK)} = {self.savepoints.mark}::BIGINT")

    def _require_alive(self) -> None:
        """Raise TransactionAborted if an error ended the transaction."""
        self._connection.reading()


_SETTING = re.compile(r"\s*(?:re)?set\s+(?:(?:session|global|local|variable)\s+)?(\w+)")
# What may run as it is where nothing waits.
_UNLED = READING | {_Kind.TRANSACTION}
_BYTES_PER_VALUE = 8
# How many texts of queries are kept with those that see what is kept aside.
_MOST_LED = 1000


def scope_of(connection: Connection) -> Scope | None:
    """Give the scope of the open transaction."""
    pending = connection.pending
    return pending if isinstance(pending, Scope) else None


def open_scope(connection: Connection, limits: WriteScope) -> Scope:
    """Give the scope of the open transaction; open one if there is none."""
    found = scope_of(connection)
    if found is None:
        connection.reading()
        found = connection.pending = Scope(connection, limits)
    return found
