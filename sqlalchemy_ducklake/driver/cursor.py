"""The cursor: executes, counts and fetches.

A text is split and classified by the engine's own parser.  One statement is sent as it
is; several, or a script, run in one transaction.  DuckDB answers a data change with a
one-row result; PEP 249 wants no result and a row count, and the parser tells the two
apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from sqlalchemy_ducklake.driver.batch import batch_of, check_set
from sqlalchemy_ducklake.driver.result import Result, Row
from sqlalchemy_ducklake.driver.script import Outcome, Role, Script, Step
from sqlalchemy_ducklake.driver.types import Column
from sqlalchemy_ducklake.errors import (
    ClosedError,
    InterfaceError,
    ParameterError,
    StatementRefused,
)

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.connection import Connection

Parameters = Sequence[Any] | Mapping[str, Any]

_Kind = duckdb.StatementType
_ROWS = duckdb.ExpectedResultType.QUERY_RESULT
_CHANGED = duckdb.ExpectedResultType.CHANGED_ROWS
_READING = {_Kind.SELECT, _Kind.EXPLAIN, _Kind.RELATION}
# A transaction of these alone may leave a collision of snapshots to DuckLake's retry.
_APPENDING = {_Kind.INSERT, _Kind.COPY, _Kind.SET, _Kind.PREPARE, *_READING}


class Cursor:
    """A PEP 249 cursor; it owns its result whatever its connection does next.

    ``description`` may be assigned (BI tools do).  ``counts`` holds what a script
    counted, by name.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Column] | None = None
        self.rowcount = -1
        self.lastrowid: Any = None
        self.counts: dict[str, int] = {}
        self._result: Result | None = None
        self._closed = False

    def execute(
        self, operation: str, parameters: Parameters = (), *, script: Script | None = None
    ) -> Self:
        """Run a statement, or a ``;``-separated script of them in one transaction.

        Placeholders are ``?``, ``$1`` or ``$name`` (with a mapping).  Of a script without
        roles the last query is the result.
        """
        statements = self._prepare(operation)
        if not statements:
            return self
        if script is not None:
            check_set(script.parameters, _as_sequence(parameters))
            with self.connection.one_transaction():
                self._run_script(statements, script, _by_name(parameters))
        elif len(statements) == 1:
            self._run_one(statements[0], parameters)
        else:
            self._run_several(statements, operation, parameters)
        return self

    def executemany(
        self,
        operation: str,
        seq_of_parameters: Iterable[Parameters],
        *,
        script: Script | None = None,
    ) -> Self:
        """Run a statement for many parameter sets, in one transaction.

        With a ``script`` that takes a batch this is one set-based statement; ``rowcount``
        is the true total.
        """
        sets = list(seq_of_parameters)
        statements = self._prepare(operation)
        if not sets or not statements:
            self.rowcount = 0
            return self
        with self.connection.one_transaction():
            if script is not None and script.batch is not None:
                self._run_batch(statements, script, [_as_sequence(one) for one in sets])
            else:
                self._run_each(operation, sets, script)
        return self

    def fetchone(self) -> Row | None:
        """Give the next row, None when there is none."""
        result = self._rows()
        try:
            return result.fetchone()
        except duckdb.Error as error:
            self.connection.note(error)
            raise

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Give the next ``size`` rows (``arraysize`` if not said), fewer at the end."""
        result = self._rows()
        try:
            return result.fetchmany(self.arraysize if size is None else size)
        except duckdb.Error as error:
            self.connection.note(error)
            raise

    def fetchall(self) -> list[Row]:
        """Give all rows that are left."""
        result = self._rows()
        try:
            return result.fetchall()
        except duckdb.Error as error:
            self.connection.note(error)
            raise

    def fetch_arrow_table(self) -> pa.Table:
        """Give the whole result as an Arrow table."""
        return self.fetch_record_batch(1 << 17).read_all()

    def fetch_record_batch(self, rows_per_batch: int = 1 << 16) -> pa.RecordBatchReader:
        """Give the result as a reader of Arrow batches.

        Read it before the connection does anything else: a reader that is being read
        holds the engine's stream itself.
        """
        return self._rows().arrow_reader(rows_per_batch)

    def close(self) -> None:
        """Forget the result; doing it again is no error."""
        self._closed = True
        self._result = None
        self.description = None

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> None:
        """Refuse: a lake has no stored procedures (PEP 249 makes this optional)."""
        del parameters
        raise duckdb.NotSupportedError(
            f"a lake has no stored procedures, so {procname!r} cannot be called; "
            "execute CALL for a table function"
        )

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Do nothing; PEP 249 allows it."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing; PEP 249 allows it."""

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("cursor")
        self.connection.check_open()

    def _rows(self) -> Result:
        self._check_open()
        if self._result is None:
            raise InterfaceError(
                "there is no result to fetch from: the last statement gave no rows, or "
                "none was executed"
            )
        return self._result

    def _prepare(self, operation: str) -> list[duckdb.Statement]:
        self._check_open()
        self._result, self.description = None, None
        self.rowcount, self.lastrowid, self.counts = -1, None, {}
        return self.connection.duck.extract_statements(operation)

    def _run_one(self, statement: duckdb.Statement, parameters: Parameters) -> None:
        if statement.type == _Kind.TRANSACTION:
            self._control(statement.query)
            return
        values = _values_for(statement, parameters)
        if self.connection.autocommit and statement.type in _READING:
            self._send(statement, values)
            return
        with self.connection.one_transaction():
            self._send(statement, values)
            # An autocommit ends here, and with it what the engine streams.
            if self._result is not None and self.connection.autocommit:
                self.connection.detach_live()

    def _run_several(
        self, statements: list[duckdb.Statement], operation: str, parameters: Parameters
    ) -> None:
        if any(not statement.query for statement in statements):
            self._run_expanded(statements, operation, parameters)
            return
        _refuse_excess(statements, parameters)
        with self.connection.one_transaction():
            for statement in statements:
                self._send(statement, _values_for(statement, parameters, several=True))

    def _run_expanded(
        self, statements: list[duckdb.Statement], operation: str, parameters: Parameters
    ) -> None:
        """Run one statement that the parser rewrote into several (PIVOT is one)."""
        if any(statement.type == _Kind.ALTER for statement in statements):
            # It would abort an open transaction, or leave one of its own open.
            raise StatementRefused(
                operation,
                "DuckLake cannot add a column whose default is an expression; add the column "
                "without it, then ALTER TABLE … ALTER COLUMN … SET DEFAULT",
            )
        with self.connection.one_transaction():
            self.connection.send(operation, _positional(parameters))
            self._take(statements[-1])

    def _run_each(
        self, operation: str, sets: Sequence[Parameters], script: Script | None
    ) -> None:
        total, counts = 0, Outcome()
        for parameters in sets:
            self.execute(operation, parameters, script=script)
            total += max(self.rowcount, 0)
            counts.add(self.counts)
        self.rowcount, self.counts = total, counts.counts
        self._result, self.description = None, None

    def _run_batch(
        self,
        statements: list[duckdb.Statement],
        script: Script,
        sets: Sequence[Sequence[Any]],
    ) -> None:
        batch = batch_of(script, sets)
        duck = self.connection.duck
        self.connection.detach_live()
        assert script.batch is not None
        duck.register(script.batch, batch)
        try:
            self._run_script(statements, script, _by_name(sets[0]))
        finally:
            if not self.connection.aborted:
                self.connection.detach_live()
                duck.unregister(script.batch)

    def _run_script(
        self, statements: Sequence[duckdb.Statement], script: Script, values: Mapping[str, Any]
    ) -> None:
        """Run the steps in order; the steps that drop run on every way out."""
        outcome = Outcome()
        steps = list(zip(statements, script.steps, strict=True))
        if script.guarded:
            self.connection.guard()
        try:
            for repeat, group in itertools.groupby(steps, lambda pair: pair[1].repeat):
                self._run_steps(list(group), repeat, values, outcome)
        except BaseException:
            self._drop(steps, suppress=True)
            raise
        self._drop(steps, suppress=False)
        self.counts = outcome.counts
        if script.rowcount:
            self.rowcount = sum(outcome.counts.get(name, 0) for name in script.rowcount)

    def _run_steps(
        self,
        steps: Sequence[tuple[duckdb.Statement, Step]],
        repeat: str,
        values: Mapping[str, Any],
        outcome: Outcome,
    ) -> None:
        """Run neighbouring steps once, or until the count they repeat for is zero."""
        while True:
            outcome.counts[repeat] = 0
            for statement, step in steps:
                if step.role is not Role.DROP and outcome.wants(step):
                    self._run_step(statement, step, values, outcome)
            if not outcome.counts.pop(repeat):
                return

    def _run_step(
        self,
        statement: duckdb.Statement,
        step: Step,
        values: Mapping[str, Any],
        outcome: Outcome,
    ) -> None:
        names = statement.named_parameters
        self.connection.send(statement, {name: values[name] for name in names})
        duck = self.connection.duck
        if step.role is Role.COUNT:
            outcome.add({step.name: _count(duck)})
        elif step.role is Role.COUNTS:
            outcome.add(dict(duck.fetchall()))
        elif step.role is Role.CHECK:
            rows = duck.fetchall()
            if rows and step.violation is not None:
                raise step.violation(rows)
        elif step.role is Role.ROWS:
            self._result = self.connection.stream()
            self._result.detach_as_rows()
            self.description = self._result.description

    def _drop(self, steps: Sequence[tuple[duckdb.Statement, Step]], *, suppress: bool) -> None:
        if self.connection.aborted:
            return  # the rollback drops what was made
        for statement, step in steps:
            if step.role is Role.DROP:
                try:
                    self.connection.send(statement, {})
                except duckdb.Error:
                    if not suppress:
                        raise

    def _send(self, statement: duckdb.Statement, values: Any) -> None:
        if statement.type not in _APPENDING:
            self.connection.guard()
        self.connection.send(statement, values)
        self._take(statement)

    def _take(self, statement: duckdb.Statement) -> None:
        """Turn what the engine answered into a result, or a row count."""
        duck = self.connection.duck
        description = duck.description
        expected = statement.expected_result_type
        if _CHANGED in expected and [column[0] for column in description] == ["Count"]:
            self.rowcount = _count(duck)
        elif _ROWS in expected and not _only_tells_success(statement, description):
            self._result = self.connection.stream()
            self.description = description

    def _control(self, query: str) -> None:
        """Let BEGIN, COMMIT and ROLLBACK as text go through the connection's own state."""
        word = query.split(maxsplit=1)[0].upper().rstrip(";")
        if word in {"COMMIT", "END"}:
            self.connection.commit()
        elif word in {"ROLLBACK", "ABORT"}:
            self.connection.rollback()
        else:
            self.connection.begin()


def _count(duck: duckdb.DuckDBPyConnection) -> int:
    # CREATE TABLE announces a count and gives no row.
    row = duck.fetchone()
    return -1 if row is None else int(row[0])


def _only_tells_success(statement: duckdb.Statement, description: list[Column]) -> bool:
    if statement.type in _READING:
        return False
    return [(column[0], str(column[1])) for column in description] == [("Success", "BOOLEAN")]


def _as_sequence(parameters: Parameters) -> Sequence[Any]:
    return tuple(parameters.values()) if isinstance(parameters, Mapping) else parameters


def _by_name(parameters: Parameters) -> Mapping[str, Any]:
    """Name the values as the engine names placeholders: ``?`` and ``$1`` are ``'1'``."""
    if isinstance(parameters, Mapping):
        return parameters
    return {str(place): value for place, value in enumerate(parameters, start=1)}


def _positional(parameters: Parameters) -> Any:
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def _values_for(
    statement: duckdb.Statement, parameters: Parameters, *, several: bool = False
) -> dict[str, Any]:
    values = _by_name(parameters)
    names = statement.named_parameters
    if names - values.keys() or (not several and values.keys() - names):
        raise ParameterError(sorted(names), sorted(values))
    return {name: values[name] for name in names}


def _refuse_excess(statements: Iterable[duckdb.Statement], parameters: Parameters) -> None:
    """Refuse values that no statement uses: two with ``?`` each would share the first."""
    names = {name for statement in statements for name in statement.named_parameters}
    if _by_name(parameters).keys() - names:
        raise ParameterError(sorted(names), sorted(_by_name(parameters)))
