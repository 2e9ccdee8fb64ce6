"""The cursor: executes, counts and fetches.

A text is split and classified by the engine's own parser.  One statement is sent as it
is; several, or a script, run in one transaction.  DuckDB answers a data change with a
one-row result; PEP 249 wants no result and a row count, and the parser tells the two
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from sqlalchemy_ducklake.driver import hazards
from sqlalchemy_ducklake.driver.batch import batch_of, check_set
from sqlalchemy_ducklake.driver.deadline import fetching_in_time, in_time
from sqlalchemy_ducklake.driver.manyrows import SETS, as_one_insert
from sqlalchemy_ducklake.driver.parameters import (
    Parameters,
    as_sequence,
    by_name,
    positional,
    refuse_excess,
    values_for,
)
from sqlalchemy_ducklake.driver.result import Result
from sqlalchemy_ducklake.driver.rows import Row
from sqlalchemy_ducklake.driver.script import Outcome, Script, readable_again
from sqlalchemy_ducklake.driver.source import known_as
from sqlalchemy_ducklake.driver.statements import (
    READING,
    is_guarded,
    is_insert,
    may_make_temporary,
    only_tells_success,
)
from sqlalchemy_ducklake.driver.steps import ScriptRun, affected_rows
from sqlalchemy_ducklake.driver.types import Column
from sqlalchemy_ducklake.errors import ClosedError, InterfaceError, StatementRefused

if TYPE_CHECKING:
    from sqlalchemy_ducklake.driver.connection import Connection

_Kind = duckdb.StatementType
_ROWS = duckdb.ExpectedResultType.QUERY_RESULT
_CHANGED = duckdb.ExpectedResultType.CHANGED_ROWS


class Cursor:
    """A PEP 249 cursor; it owns its result whatever its connection does next.

    ``description`` may be assigned (BI tools do).  ``counts`` holds what a script
    counted, by name, ``failed_step`` the text of the step at which one failed.  To execute,
    and to fetch each time, may take ``timeout`` seconds.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.timeout = connection.statement_timeout
        self.description: list[Column] | None = None
        self.rowcount = -1
        self.lastrowid: Any = None
        self.counts: dict[str, int] = {}
        self.failed_step: str | None = None
        self._result: Result | None = None
        self._closed = False

    @in_time
    def execute(
        self, operation: str, parameters: Parameters = (), *, script: Script | None = None
    ) -> Self:
        """Run a statement, or a ``;``-separated script of them in one transaction.

        Placeholders are ``?``, ``$1`` or ``$name`` (with a mapping).  Of a script without
        roles the last query is the result.
        """
        statements = self._prepare(operation, script)
        if not statements:
            return self
        if script is not None:
            check_set(script.parameters, as_sequence(parameters))
            self.connection.atomically(
                lambda: self._run_script(statements, script, by_name(parameters)),
                guarded=script.guarded,
                again=readable_again(script, as_sequence(parameters)),
            )
        elif len(statements) == 1:
            self._run_one(statements[0], parameters)
        else:
            self._run_several(statements, operation, parameters)
        return self

    @in_time
    def executemany(
        self,
        operation: str,
        seq_of_parameters: Iterable[Parameters],
        *,
        script: Script | None = None,
    ) -> Self:
        """Run a statement for many parameter sets, in one transaction.

        With a ``script`` that takes a batch this is one set-based statement, and so is
        INSERT … VALUES with nothing but placeholders; ``rowcount`` is the true total.
        """
        sets = list(seq_of_parameters)
        statements = self._prepare(operation, script)
        if not sets or not statements:
            self.rowcount = 0
            return self
        one = as_one_insert(operation, sets) if is_insert(statements) and not script else None
        if one is not None:
            self._run_one_insert(*one)
        elif script is not None and script.batch is not None:
            self._run_batch(statements, script, [as_sequence(each) for each in sets])
        else:
            guarded = any(map(is_guarded, statements))
            self.connection.atomically(
                lambda: self._run_each(operation, sets, script), guarded=guarded
            )
        return self

    @fetching_in_time
    def fetchone(self) -> Row | None:
        """Give the next row, None when there is none."""
        return self._rows().fetchone()

    @fetching_in_time
    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Give the next ``size`` rows (``arraysize`` if not said), fewer at the end."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    @fetching_in_time
    def fetchall(self) -> list[Row]:
        """Give all rows that are left."""
        return self._rows().fetchall()

    @fetching_in_time
    def fetch_arrow_table(self) -> pa.Table:
        """Give the result, or what is left of it, as an Arrow table."""
        return self.fetch_record_batch(1 << 17).read_all()

    def fetch_record_batch(self, rows_per_batch: int = 1 << 16) -> pa.RecordBatchReader:
        """Give what is left of the result as a reader of Arrow batches.

        They are streamed; if the connection does anything else before the end, those that
        are left move into memory.
        """
        return self._rows().arrow_reader(rows_per_batch)

    def close(self) -> None:
        """Forget the result; doing it again is no error."""
        self._closed = True
        self._result = None
        self.description = None

    def answer(
        self, rowcount: int, counts: Mapping[str, int], result: Result | None = None
    ) -> None:
        """Tell what was done without a statement to the engine, and give its rows."""
        self._forget()
        self.rowcount, self.counts = rowcount, dict(counts)
        if result is not None:
            self._result, self.description = result, result.description

    def answer_as(self, other: Cursor) -> None:
        """Tell what another cursor did, and go on with its rows."""
        self.answer(other.rowcount, other.counts, other._result)

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

    def _forget(self) -> None:
        """Let nothing of the statement before be left."""
        self._check_open()
        self._result, self.description = None, None
        self.rowcount, self.lastrowid, self.counts = -1, None, {}
        self.failed_step = None

    def _prepare(self, operation: str, script: Script | None = None) -> list[duckdb.Statement]:
        self._forget()
        statements = self.connection.parsed.of(self.connection.duck, operation)
        # Other scripts drop what they make.
        if (script is None or script.defines) and may_make_temporary(operation, statements):
            self.connection.may_hold_temporary = True
        return statements

    def _run_one(self, statement: duckdb.Statement, parameters: Parameters) -> None:
        if statement.type == _Kind.TRANSACTION:
            self._control(statement.query)
            return
        values = values_for(statement, parameters)
        if self.connection.autocommit and statement.type in READING:
            self._send(statement, values)
            return
        self.connection.atomically(
            lambda: self._send_whole(statement, values), guarded=is_guarded(statement)
        )

    def _run_several(
        self, statements: list[duckdb.Statement], operation: str, parameters: Parameters
    ) -> None:
        if any(not statement.query for statement in statements):
            self._run_expanded(statements, operation, parameters)
            return
        refuse_excess(statements, parameters)

        def run() -> None:
            for statement in statements:
                self._send_whole(statement, values_for(statement, parameters, several=True))

        self.connection.atomically(run, guarded=any(map(is_guarded, statements)))

    def _run_expanded(
        self, statements: list[duckdb.Statement], operation: str, parameters: Parameters
    ) -> None:
        """Run one statement that the parser rewrote into several (PIVOT is one)."""
        if any(statement.type == _Kind.ALTER for statement in statements):
            # It would abort an open transaction, or leave one of its own open.
            raise StatementRefused(
                operation,
                "DuckLake cannot add a column whose default is an expression, nor give it one "
                "later; add it without, or with a literal, or make a new table",
            )

        def run() -> None:
            self.connection.send(operation, positional(parameters))
            self._take(statements[-1])

        self.connection.atomically(run, guarded=False)

    def _run_one_insert(self, operation: str, sets: pa.Table) -> None:
        (statement,) = self._prepare(operation)

        def run() -> None:
            with known_as(self.connection, SETS, sets):
                self._send(statement, {})

        self.connection.atomically(run, guarded=is_guarded(statement))

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
        groups = [[one] for one in sets] if script.sequential else [sets]
        batches = [(batch_of(script, group), by_name(group[0])) for group in groups]

        def run() -> None:
            total, counts = 0, Outcome()
            for place, (batch, values) in enumerate(batches):
                try:
                    self._run_on(batch, statements, script, values)
                except duckdb.Error as error:
                    if place:
                        self.connection.abort(error)
                    raise
                total += max(self.rowcount, 0)
                counts.add(self.counts)
            self.rowcount, self.counts = total, counts.counts

        self.connection.atomically(run, guarded=script.guarded)

    def _run_on(
        self,
        batch: pa.Table,
        statements: list[duckdb.Statement],
        script: Script,
        values: Mapping[str, Any],
    ) -> None:
        """Run a script while the engine knows its batch by name."""
        assert script.batch is not None
        with known_as(self.connection, script.batch, batch):
            self._run_script(statements, script, values)

    def _run_script(
        self, statements: Sequence[duckdb.Statement], script: Script, values: Mapping[str, Any]
    ) -> None:
        run = ScriptRun(self.connection, statements, script)
        try:
            run.run(values)
        except BaseException:
            self.failed_step, self.counts = run.step, run.outcome.counts
            raise
        self.counts, self.rowcount = run.outcome.counts, run.rowcount
        if run.rows is not None:
            self._result, self.description = run.rows, run.rows.description

    def _send_whole(self, statement: duckdb.Statement, values: Any) -> None:
        self._send(statement, values)
        # An autocommit ends here, and with it what the engine streams.
        if self._result is not None and self.connection.autocommit:
            self.connection.detach_live()

    def _send(self, statement: duckdb.Statement, values: Any) -> None:
        if statement.type in READING:
            self.connection.send(statement, values)
            self._stream()
            return
        self.connection.work.note_statement(statement)
        hazards.refuse(self.connection, statement)
        self.connection.send(statement, values)
        self._take(statement)
        hazards.mend(self.connection, statement)

    def _take(self, statement: duckdb.Statement) -> None:
        """Turn what the engine answered into a result, or a row count."""
        duck = self.connection.duck
        description = duck.description
        expected = statement.expected_result_type
        if _CHANGED in expected and [column[0] for column in description] == ["Count"]:
            self.rowcount = affected_rows(duck)
        elif _ROWS in expected and not only_tells_success(statement, description):
            self._stream()

    def _stream(self) -> None:
        self._result = self.connection.stream()
        self.description = self._result.description

    def _control(self, query: str) -> None:
        """Let BEGIN, COMMIT and ROLLBACK as text go through the connection's own state."""
        word = query.split(maxsplit=1)[0].upper().rstrip(";")
        if word in {"COMMIT", "END"}:
            self.connection.commit()
        elif word in {"ROLLBACK", "ABORT"}:
            self.connection.rollback()
        else:
            self.connection.begin()
