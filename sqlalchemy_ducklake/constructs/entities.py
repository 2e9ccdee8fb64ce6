"""A merge of a mapped class in a Session: it flushes before, and returns entities.

SQLAlchemy asks the class that is registered here how to execute such a statement, as it
does for its own INSERT, UPDATE and DELETE.
"""

# What SQLAlchemy asks of such a class are private parts of its own.
# ruff: noqa: SLF001

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.orm import Session
from sqlalchemy.sql.base import CompileState

from sqlalchemy_ducklake.compat import SQLALCHEMY
from sqlalchemy_ducklake.constructs.merge import Merge, MergeState


@CompileState.plugin_for("orm", "ducklake_merge")
class EntityMergeState(MergeState):
    """How a Session executes a merge."""

    @classmethod
    def orm_pre_session_exec(
        cls,
        session: Session,
        statement: Merge,
        params: Any,
        execution_options: Any,
        bind_arguments: dict[str, Any],
        is_pre_event: bool,
    ) -> Any:
        """Flush what the session holds back, and say whose connection is wanted."""
        bind_arguments["clause"] = statement
        bind_arguments.setdefault("mapper", statement._propagate_attrs["plugin_subject"].mapper)
        if not is_pre_event:
            session._autoflush()
        if SQLALCHEMY >= (2, 1):
            return statement, execution_options, params
        return statement, execution_options

    @classmethod
    def orm_execute_statement(
        cls,
        session: Session,
        statement: Merge,
        params: Any,
        execution_options: Any,
        bind_arguments: dict[str, Any],
        conn: Connection,
    ) -> Any:
        """Execute the merge; what it returns of mapped classes are entities."""
        if not statement._returning:
            return conn.execute(statement, params, execution_options=execution_options)
        loader: Any = select(*statement._returning).from_statement(statement)
        if loader._propagate_attrs.get("compile_state_plugin") != "orm":
            return conn.execute(statement, params, execution_options=execution_options)
        loader = loader.execution_options(**statement.get_execution_options())
        state: Any = CompileState._get_plugin_class_for_plugin(loader, "orm")
        arguments = (session, loader, params, execution_options, bind_arguments)
        execution_options = state.orm_pre_session_exec(*arguments, True)[1]
        return state.orm_execute_statement(
            session, loader, params, execution_options, bind_arguments, conn
        )
