"""How a compiled statement reaches the driver, and what it tells afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, cast

import duckdb
from sqlalchemy import exc
from sqlalchemy.engine import CursorResult, Result
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.engine.interfaces import DBAPICursor, ExceptionContext

from sqlalchemy_ducklake.dialect import constraints, scoping
from sqlalchemy_ducklake.dialect.cascades import run_cascades
from sqlalchemy_ducklake.dialect.ddl import MISSING
from sqlalchemy_ducklake.dialect.history import numbers_for
from sqlalchemy_ducklake.dialect.lateoptions import TableOptions
from sqlalchemy_ducklake.dialect.staging import StagingCompiler
from sqlalchemy_ducklake.dialect.undeclared import keyed_form
from sqlalchemy_ducklake.dialect.wrapping import wrapped
from sqlalchemy_ducklake.driver import Connection, Cursor
from sqlalchemy_ducklake.driver.script import Script, Source
from sqlalchemy_ducklake.merge.result import MergeResult
from sqlalchemy_ducklake.merge.staging import LAST_ID
from sqlalchemy_ducklake.scope.options import OPTION as WRITE_SCOPE
from sqlalchemy_ducklake.scope.unit import scope_of

#: The execution option that names the snapshot on which a statement is meant to write.
EXPECTED_BASE = "expected_base"
#: The option, also of the engine, that makes foreign writers see pure inserts and deletes.
DEFEND_FOREIGN = "defend_foreign"
_ANY = object()


class StreamingCursor(Cursor):
    """The cursor of a statement that wants its rows streamed (``stream_results``).

    Every cursor of the driver streams until its connection does something else; this one
    says that it was asked to.
    """


class DuckLakeExecutionContext(DefaultExecutionContext):
    """One execution of a statement."""

    merge_result: MergeResult | None = None
    #: The parameter sets as they were given.
    given: Sequence[Mapping[str, Any]] = ()
    #: Makes the execution of a statement that is staged which keeps nothing aside.
    at_once: Callable[[], DuckLakeExecutionContext]
    #: Whether ON DELETE actions of this statement changed something.
    cascaded = False
    # Kept, because SQLAlchemy's connection may be closed when somebody asks.
    _writer: Connection | None = None
    _commit_id: str | None = None

    @classmethod
    def _init_compiled(
        cls,
        dialect: Any,
        connection: Any,
        dbapi_connection: Any,
        execution_options: Any,
        compiled: Any,
        parameters: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Let a statement be the form of it that fits its table and its write scope."""
        own = cast("Connection", dbapi_connection.dbapi_connection)
        sets = len(parameters)
        form = keyed_form(dialect, own, execution_options, compiled)
        form = scoping.form_for(dialect, own, execution_options, form, sets)
        base: Any = super()
        start = dialect, connection, dbapi_connection
        found = base._init_compiled(  # noqa: SLF001 - what SQLAlchemy itself calls
            *start, execution_options, form, parameters, *args, **kwargs
        )
        found.given = parameters
        if isinstance(form, StagingCompiler):
            direct = {**execution_options, WRITE_SCOPE: False}
            found.at_once = partial(
                cls._init_compiled, *start, direct, compiled, parameters, *args, **kwargs
            )
        return found

    @property
    def own_connection(self) -> Connection:
        """The driver's connection."""
        return cast("Connection", self.root_connection.connection.dbapi_connection)

    def require_base(self) -> None:
        """Let a statement with ``expected_base`` fail if its table is another by now."""
        base = self.execution_options.get(EXPECTED_BASE, _ANY)
        if base is _ANY:
            return
        script = self.script
        if script is None or script.table is None or self.own_connection.autocommit:
            raise exc.ArgumentError(
                f"{EXPECTED_BASE} goes with a statement that writes a table, in a transaction"
            )
        self.own_connection.require_base(script.table, base)

    def dated(self, parameters: Any) -> Any:
        """Give the parameters with the snapshots that the statement reads.

        They are looked up before the engine can fail on them.
        """
        if not getattr(self.compiled, "dated", ()):
            return parameters
        compiled = cast("Any", self.compiled)
        known = self.compiled_parameters[0]
        numbers = numbers_for(self.own_connection, compiled, known, self.execution_options)
        if isinstance(parameters, Mapping):
            return {**parameters, **numbers}
        places = enumerate(compiled.positiontup)
        changed = {place: numbers[name] for place, name in places if name in numbers}
        return [changed.get(place, value) for place, value in enumerate(parameters)]

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that holds what was written; None before the commit, or without."""
        writer = self._writer
        if writer is None or writer.closed or writer.last_commit_id != self._commit_id:
            return None
        return writer.last_snapshot

    @cached_property
    def script(self) -> Script | None:
        """The script of the statement; None if it is one statement to the engine."""
        script: Script | None = getattr(self.compiled, "script", None)
        if script is None:
            return None
        options, dialect = self.execution_options, cast("Any", self.dialect)
        script = constraints.enforced(script, constraints.level_of(dialect, options))
        scope = scope_of(self.own_connection) if self.is_staged else None
        if scope is not None:
            script = replace(script, flags=(*script.flags, *scope.flags))
        elif self.defends_foreign:
            script = constraints.defended(script)
        names = options.get("schema_translate_map") or {}
        return constraints.located(script, names, dialect.default_schema_name)

    @property
    def is_staged(self) -> bool:
        """Tell whether the statement runs in a form that a write scope keeps aside."""
        return isinstance(self.compiled, StagingCompiler)

    @property
    def defends_foreign(self) -> bool:
        """Tell whether writers who check nothing are to see the statement's changes."""
        dialect = cast("Any", self.dialect)
        return bool(self.execution_options.get(DEFEND_FOREIGN, dialect.defend_foreign))

    @property
    def sources(self) -> tuple[Source, ...]:
        """The parameters that hold tables."""
        return getattr(self.compiled, "sources", ())

    def create_server_side_cursor(self) -> DBAPICursor:
        """Open a cursor for streaming."""
        return cast("DBAPICursor", StreamingCursor(self.own_connection))

    def pre_exec(self) -> None:
        """Run the ON DELETE actions of a DELETE."""
        super().pre_exec()
        if not self.isdelete:
            return
        try:
            run_cascades(self)
        except BaseException as error:
            self._end_cascades(error)
            if not isinstance(error, duckdb.Error):
                raise
            raise wrapped(error, self.dialect, self.statement) from error

    def handle_dbapi_exception(self, e: BaseException) -> None:
        """Leave nothing but a rollback if the statement fails after its actions ran."""
        super().handle_dbapi_exception(e)
        self._end_cascades(e)

    def _end_cascades(self, error: BaseException) -> None:
        if self.cascaded:
            self.own_connection.abort(error)

    def post_exec(self) -> None:
        """Keep what the script counted, and let the options of a new table follow it."""
        counts = getattr(self.cursor, "counts", None)
        options: TableOptions | None = getattr(self.compiled, "options", None)
        if options is not None and (counts or {}).get(MISSING, 1):
            cast("Any", self.dialect).late_options.add(self.own_connection, options)
        if counts and LAST_ID in counts:
            self.cursor.lastrowid = counts.pop(LAST_ID)
        if counts:
            self.merge_result = MergeResult.from_counts(counts)
            self._writer = writer = self.own_connection
            # With autocommit the statement is committed by now.
            committed = not writer.in_transaction
            self._commit_id = writer.last_commit_id if committed else writer.work.commit_id


def name_step(context: ExceptionContext) -> None:
    """Let the error of a script show the step that failed, not all of its text."""
    execution = cast("Any", context.execution_context)
    step = getattr(getattr(execution, "cursor", None), "failed_step", None)
    script: Script | None = getattr(execution, "script", None)
    if not step and script is not None and len(script.steps) > 1:
        name = ".".join(script.table or ())
        step = f"-- {script.mode} {name}, before the first of its {len(script.steps)} steps"
    if step and isinstance(context.sqlalchemy_exception, exc.StatementError):
        context.sqlalchemy_exception.statement = step


def merge_result(result: Result[Any]) -> MergeResult:
    """Tell what the INSERT … ON CONFLICT or merge behind a result did.

    Its ``snapshot_id`` is None until the transaction is committed, and if that made none.
    Raises InvalidRequestError for the result of any other statement.
    """
    cursor_result = getattr(result, "raw", result)
    context = cursor_result.context if isinstance(cursor_result, CursorResult) else None
    if not isinstance(context, DuckLakeExecutionContext) or context.merge_result is None:
        raise exc.InvalidRequestError(
            "this is not the result of a keyed write on a lake, so it has no merge result; "
            "the ORM keeps the result of a bulk INSERT to itself: execute it with "
            "execution_options={'dml_strategy': 'raw'}, or on session.connection()"
        )
    return replace(context.merge_result, snapshot_id=context.snapshot_id)
