"""Run the steps of a script in the open transaction."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from sqlalchemy_ducklake.driver.result import Result
from sqlalchemy_ducklake.driver.script import DEFENDED, TRUSTED, Outcome, Role, Script, Step
from sqlalchemy_ducklake.driver.touch import touch

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.connection import Connection


class ScriptRun:
    """One run of a script: its steps in order, its counts, and its rows if it has some."""

    def __init__(
        self, connection: Connection, statements: Sequence[duckdb.Statement], script: Script
    ) -> None:
        self.outcome = Outcome()
        self.rows: Result | None = None
        #: The step that runs, or ran last: its text, and its place among how many.
        self.step = ""
        self._connection = connection
        self._script = script
        self._steps = list(zip(statements, script.steps, strict=True))

    @property
    def rowcount(self) -> int:
        """The sum of the counts that the script names; -1 if it names none."""
        names = self._script.rowcount
        return sum(self.outcome.counts.get(name, 0) for name in names) if names else -1

    def run(self, values: Mapping[str, Any]) -> None:
        """Run the steps; those that drop run on every way out."""
        script, work = self._script, self._connection.work
        trusted = self._connection.trusts(script)
        self.outcome.flags = frozenset((*script.flags, TRUSTED) if trusted else script.flags)
        proves = trusted or not script.keeps_key
        before = self._connection.rows_before(script) if proves else None
        work.note_script(script, trusted=trusted, staged=self._connection.staging)
        try:
            for repeat, group in itertools.groupby(self._steps, lambda pair: pair[1].repeat):
                self._run_group(list(group), repeat, values)
            if script.table is not None and DEFENDED in script.flags:
                touch(self._connection, script.table, self.outcome.counts)
        except BaseException:
            self._drop(suppress=True)
            raise
        work.note_proof(script)
        if script.table is not None and before is not None:
            work.note_rows(script.table, before, self.outcome.counts)
        self._drop(suppress=False)

    def _run_group(
        self,
        steps: Sequence[tuple[duckdb.Statement, Step]],
        repeat: str,
        values: Mapping[str, Any],
    ) -> None:
        """Run neighbouring steps once, or until the count they repeat for is zero."""
        counts = self.outcome.counts
        while True:
            counts[repeat] = 0
            for statement, step in steps:
                if step.role is not Role.DROP and self.outcome.wants(step):
                    self._run_step(statement, step, values)
            if not counts.pop(repeat):
                return

    def _run_step(
        self, statement: duckdb.Statement, step: Step, values: Mapping[str, Any]
    ) -> None:
        place = [each for each, _ in self._steps].index(statement) + 1
        self.step = f"{statement.query.strip()} -- step {place} of {len(self._steps)}"
        names = statement.named_parameters
        if self._script.defines:
            self._connection.work.note_statement(statement)
        self._connection.send(statement, {name: values[name] for name in names})
        duck = self._connection.duck
        if step.role is Role.COUNT:
            affected = affected_rows(duck)
            self.outcome.add({step.name: affected})
            if step.less:
                self.outcome.add({step.less: -affected})
        elif step.role is Role.COUNTS:
            self.outcome.add(dict(duck.fetchall()))
        elif step.role is Role.CHECK:
            rows = duck.fetchall()
            if rows and step.violation is not None:
                raise step.violation(rows)
        elif step.role is Role.ROWS:
            self.rows = self._connection.stream()
            self._connection.detach_live()

    def _drop(self, *, suppress: bool) -> None:
        if self._connection.aborted:
            return  # the rollback drops what was made
        for statement, step in self._steps:
            if step.role is Role.DROP and self.outcome.wants(step):
                try:
                    self._connection.send(statement, {})
                except duckdb.Error:
                    if not suppress:
                        raise


def affected_rows(duck: duckdb.DuckDBPyConnection) -> int:
    """Fetch the count that the engine answers a data change with."""
    # CREATE TABLE announces a count and gives no row.
    row = duck.fetchone()
    return -1 if row is None else int(row[0])
