"""Where SQLAlchemy's statements meet the write scope of their transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import duckdb
from sqlalchemy.engine import Connection as SQLAlchemyConnection

from sqlalchemy_ducklake.dialect.staging import StagingCompiler, staged_form
from sqlalchemy_ducklake.dialect.wrapping import wrapped
from sqlalchemy_ducklake.driver import Connection, Cursor
from sqlalchemy_ducklake.driver.result import Result
from sqlalchemy_ducklake.driver.rows import KnownRows
from sqlalchemy_ducklake.driver.script import ENFORCE_ALL
from sqlalchemy_ducklake.errors import StatementRefused
from sqlalchemy_ducklake.scope.options import OPTION, ManyRows, WriteScope, checked_scope
from sqlalchemy_ducklake.scope.savepoints import Control, control_of
from sqlalchemy_ducklake.scope.unit import Scope, Staging, open_scope, scope_of


def limits_of(dialect: Any, options: Mapping[str, Any]) -> WriteScope | None:
    """Give the scope that options ask for, or else the engine; None for none."""
    return checked_scope(options.get(OPTION, dialect.write_scope))


def form_for(
    dialect: Any, own: Connection, options: Mapping[str, Any], compiled: Any, sets: int
) -> Any:
    """Give the form of a compiled statement that is to run: for a scope, if it can be kept.

    ``sets`` is how many parameter sets it gets.
    """
    if not (compiled.isinsert or compiled.isupdate or compiled.isdelete):
        return compiled
    limits = limits_of(dialect, options)
    if limits is None or own.autocommit or compiled.sources or own.config.read_only:
        return compiled
    if options.get("schema_translate_map") or compiled.script is None:
        return compiled
    form = staged_form(compiled)
    if form is None:
        return compiled
    scope = open_scope(own, limits)
    direct = sets >= limits.direct_rows and not scope.savepoints
    if direct or not scope.open:
        return compiled
    return form if scope.prepare(form.staging, plain=form.plain is not None) else compiled


def run(
    cursor: Cursor,
    statement: str,
    context: Any,
    execute: Callable[[str], object],
    parameters: Any = (),
) -> None:
    """Run a statement so that it sees, and keeps, what its transaction keeps aside."""
    own = cursor.connection
    scope = scope_of(own)
    compiled = getattr(context, "compiled", None)
    if scope is None:
        _run_alone(own, statement, context, execute)
        return
    with own.deadline.within(cursor.timeout):
        if isinstance(compiled, StagingCompiler):
            sets = parameters if context.executemany else [parameters]
            _run_staged(scope, cursor, context, sets, lambda: execute(statement))
        elif not _controlled(scope, statement, context):
            _run_beside(scope, own, statement, execute)


def _run_staged(
    scope: Scope,
    cursor: Cursor,
    context: Any,
    sets: Sequence[Any],
    execute: Callable[[], object],
) -> None:
    """Run a statement that is kept aside."""
    staging = replace(
        context.compiled.staging, size=_size(sets), defended=context.defends_foreign
    )
    if not _keep(scope, cursor, staging, context, sets) and not _stage(
        scope, cursor, staging, execute
    ):
        _run_at_once(scope, cursor, context)
    scope.keep_within_limits()


def _stage(
    scope: Scope, cursor: Cursor, staging: Staging, execute: Callable[[], object]
) -> bool:
    """Let the script of a statement log what it does; False if that is too much."""
    try:
        scope.stage(staging, cursor, execute)
    except ManyRows:
        return False
    return True


def _run_at_once(scope: Scope, cursor: Cursor, context: Any) -> None:
    """Write what a statement does to many rows, after what was kept."""
    scope.settle()
    other = context.at_once()
    if context.executemany:
        context.dialect.do_executemany(other.cursor, other.statement, other.parameters, other)
    else:
        context.dialect.do_execute(other.cursor, other.statement, other.parameters[0], other)
    cursor.answer_as(other.cursor)


def _keep(
    scope: Scope, cursor: Cursor, staging: Staging, context: Any, sets: Sequence[Any]
) -> bool:
    """Keep single rows in Python, if that is all; tell whether it was."""
    plain, script = context.compiled.plain, context.script
    if plain is None or (plain.constrained and ENFORCE_ALL in script.flags):
        return False
    answer = scope.keep(plain, staging, script, sets)
    if answer is None:
        return False
    result = None
    if answer.rows is not None:
        types = {each.label: duckdb.sqltype(each.type_name) for each in plain.parameters}
        description: list[Any] = [
            (name, types[name], *[None] * 5) for name in plain.returned or ()
        ]
        result = Result(description, KnownRows(answer.rows, description))
    cursor.answer(answer.number, answer.counts, result)
    if answer.last_id is not None:
        cursor.lastrowid = answer.last_id
    return True


def _run_alone(
    own: Connection, statement: str, context: Any, execute: Callable[[str], object]
) -> None:
    limits = None
    if _is_text(context):
        control = control_of(statement)
        limits = limits_of(context.dialect, context.execution_options) if control else None
    if limits is None or own.autocommit:
        execute(statement)
        return
    _controlled(open_scope(own, limits), statement, context)


def _run_beside(
    scope: Scope, own: Connection, statement: str, execute: Callable[[str], object]
) -> None:
    text = scope.read(statement)
    if text is None:
        execute(statement)
        return
    with own.staged():
        execute(text)


def _controlled(scope: Scope, statement: str, context: Any) -> bool:
    """Do what a text says about savepoints, if it does."""
    control = control_of(statement) if _is_text(context) else None
    if control is not None:
        _WORDS[control.word](scope, control)
    return control is not None


_WORDS: Mapping[str, Callable[[Scope, Control], None]] = {
    "SAVEPOINT": lambda scope, control: scope.savepoint(control.name),
    "ROLLBACK": lambda scope, control: scope.back_to(control.name),
    "RELEASE": lambda scope, control: scope.release(control.name),
}


def _is_text(context: Any) -> bool:
    compiled = getattr(context, "compiled", None)
    return context is not None and (compiled is None or context.is_text)


@contextlib.contextmanager
def savepoints_of(connection: SQLAlchemyConnection, name: str) -> Iterator[Scope]:
    """Give the scope in which to set a savepoint; its errors become those of SQLAlchemy.

    Raises StatementRefused, so wrapped, without a scope.
    """
    try:
        yield _scope_for_savepoint(connection, name)
    except duckdb.Error as error:
        raise wrapped(error, connection.dialect) from error


def _scope_for_savepoint(connection: SQLAlchemyConnection, name: str) -> Scope:
    own = cast("Connection", connection.connection.dbapi_connection)
    limits = limits_of(connection.dialect, connection.get_execution_options())
    if limits is None or own.autocommit:
        raise StatementRefused(
            f"SAVEPOINT {name}",
            "DuckLake has no savepoints; a write scope has: create_engine(…, "
            f"{OPTION}=True). Without one, a statement that is refused leaves its transaction "
            "usable, so begin_nested() is rarely needed",
        )
    return open_scope(own, limits)


def _size(sets: Iterable[Any]) -> int:
    """Add up what parameter sets take; what is not text or bytes counts as eight."""
    return sum(_size_of(value) for one in sets for value in one)


def _size_of(value: Any) -> int:
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value)
    return _size([value.values() if kind is dict else value]) if kind in _NESTED else 8


_NESTED = frozenset({dict, list, tuple})
