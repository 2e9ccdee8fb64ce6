"""The dialect: flags and wiring only.

It builds on SQLAlchemy's default dialect and poses as no other database: DuckDB's
catalog is not PostgreSQL's, and a lake is less than DuckDB.
"""

# SQLAlchemy calls its hooks with more than each of them needs.
# ruff: noqa: ARG002, ARG003

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

from sqlalchemy import Index, Table, event, func, select
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import (
    BindTyping,
    ConnectArgsType,
    DBAPIConnection,
    DBAPICursor,
    IsolationLevel,
)
from sqlalchemy.pool import Pool, PoolProxiedConnection, QueuePool

from sqlalchemy_ducklake import driver
from sqlalchemy_ducklake.dialect import scoping
from sqlalchemy_ducklake.dialect.commits import COMMIT, CommitCharacteristic
from sqlalchemy_ducklake.dialect.compiler import DuckLakeCompiler
from sqlalchemy_ducklake.dialect.constraints import OPTION, checked_level
from sqlalchemy_ducklake.dialect.ddl import DuckLakeDDLCompiler
from sqlalchemy_ducklake.dialect.execution import DuckLakeExecutionContext, name_step
from sqlalchemy_ducklake.dialect.history import listen
from sqlalchemy_ducklake.dialect.identifiers import DuckLakeIdentifierPreparer
from sqlalchemy_ducklake.dialect.lateoptions import LateOptions
from sqlalchemy_ducklake.dialect.reflection.tables import Reflection
from sqlalchemy_ducklake.dialect.timeouts import limited
from sqlalchemy_ducklake.dialect.typecompiler import DuckLakeTypeCompiler
from sqlalchemy_ducklake.dialect.types import COLSPECS
from sqlalchemy_ducklake.dialect.url import config_from_url, connect_options, discreet
from sqlalchemy_ducklake.driver.source import registered
from sqlalchemy_ducklake.lake.instances import Hold, keep
from sqlalchemy_ducklake.scope.options import OPTION as WRITE_SCOPE
from sqlalchemy_ducklake.scope.options import WriteScope, checked_scope


class DuckLakeDialect(Reflection, DefaultDialect):
    """A lake whose catalog is a DuckDB file: ``ducklake:///path/to/lake.ducklake``."""

    name = "ducklake"
    driver = "duckdb"
    default_paramstyle = "numeric_dollar"
    default_schema_name = "main"

    statement_compiler = DuckLakeCompiler
    ddl_compiler = DuckLakeDDLCompiler
    type_compiler_cls = DuckLakeTypeCompiler
    preparer = DuckLakeIdentifierPreparer
    execution_ctx_cls = DuckLakeExecutionContext
    colspecs = COLSPECS
    bind_typing = BindTyping.RENDER_CASTS

    #: The write scope of engines that do not say which they want.
    usual_scope: WriteScope | None = WriteScope()

    connection_characteristics = DefaultDialect.connection_characteristics.union(
        {COMMIT: CommitCharacteristic()}
    )

    supports_statement_cache = True
    supports_alter = True
    supports_comments = inline_comments = True
    supports_default_values = supports_empty_insert = True
    supports_default_metavalue = False
    supports_multivalues_insert = True
    supports_native_boolean = supports_native_decimal = supports_native_uuid = True
    supports_native_enum = False
    supports_sequences = False
    supports_identity_columns = True
    supports_sane_rowcount = supports_sane_multi_rowcount = True
    supports_sane_rowcount_returning = True
    supports_server_side_cursors = True
    construct_arguments = [  # noqa: RUF012 - SQLAlchemy's own form
        (Index, {"include": None}),
        (Table, {"partition_by": None, "sort_by": None, "options": None}),
    ]
    supports_for_update_of = False
    supports_is_distinct_from = True
    tuple_in_values = True
    div_is_floordiv = False
    max_identifier_length = 1024

    # RETURNING is ours for any number of parameter sets, in their order; so SQLAlchemy
    # neither splits batches nor needs sentinel columns to sort them.
    insert_returning = update_returning = delete_returning = True
    update_returning_multifrom = delete_returning_multifrom = True
    insert_executemany_returning = True
    insert_executemany_returning_sort_by_parameter_order = True
    update_executemany_returning = delete_executemany_returning = True
    use_insertmanyvalues = False
    favor_returning_over_lastrowid = True
    insert_null_pk_still_autoincrements = True
    preexecute_autoincrement_sequences = False

    def __init__(
        self,
        json_serializer: Callable[[Any], str] | None = None,
        json_deserializer: Callable[[str], Any] | None = None,
        paramstyle: Any = "numeric_dollar",
        enforce_constraints: str = "keys",
        defend_foreign: bool = False,
        ducklake_write_scope: bool | WriteScope | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(paramstyle=paramstyle, **kwargs)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer
        self.enforce_constraints = checked_level(enforce_constraints)
        self.defend_foreign = defend_foreign
        asked = ducklake_write_scope
        self.write_scope = self.usual_scope if asked is None else checked_scope(asked)
        self.alias = "lake"
        self.has_local_files = True
        self.metadata_schema: str | None = None
        self._hold: Hold | None = None
        event.listen(self, "handle_error", name_step)
        self.late_options = LateOptions(self)

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Give the PEP 249 module."""
        return driver

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:
        """Pool connections: each is a cursor of one shared DuckDB instance."""
        return QueuePool

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Turn the URL into the configuration of the lake."""
        config = config_from_url(url)
        self.alias = config.alias
        self.metadata_schema = config.metadata_schema
        self.metadata_catalog = config.metadata_catalog
        self.default_schema_name = config.schema
        self.has_local_files = "://" not in (config.data_path or "")
        return cast("ConnectArgsType", ((config,), connect_options(url)))

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Let an engine tell no secrets, and let go of the lake when it is disposed."""
        engine.url = discreet(engine.url)
        event.listen(engine, "engine_disposed", _let_go)
        listen(engine)

    def connect(self, *cargs: Any, **cparams: Any) -> DBAPIConnection:
        """Open a connection; from the first one on, the engine keeps the lake open."""
        if self._hold is None:
            self._hold = keep(cargs[0])
        return cast("DBAPIConnection", driver.connect(*cargs, **cparams))

    def let_go(self) -> None:
        """Close the lake, unless somebody else in this process has it open."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None

    def do_ping(self, dbapi_connection: DBAPIConnection) -> bool:
        """Ask the engine for nothing."""
        dbapi_connection.cursor().execute("SELECT 1")
        return True

    def do_commit(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Commit, then set the options of tables that were made."""
        super().do_commit(dbapi_connection)
        self.late_options.settle(dbapi_connection.dbapi_connection)

    def do_rollback(self, dbapi_connection: PoolProxiedConnection) -> None:
        """Roll back, and forget what was to be done after the commit."""
        super().do_rollback(dbapi_connection)
        self.late_options.forget(dbapi_connection.dbapi_connection)

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Tell whether the connection, or its whole DuckDB instance, is beyond use."""
        return isinstance(e, driver.LOST_CONNECTION)

    def get_isolation_level_values(
        self, dbapi_connection: DBAPIConnection
    ) -> Sequence[IsolationLevel]:
        """Name what a lake offers.

        SNAPSHOT reads one snapshot, and what it appends to tables without keys may be out
        of date when it is published; a SERIALIZABLE transaction that writes is refused if
        anybody published anything meanwhile; AUTOCOMMIT has a snapshot for each statement.
        """
        return cast("Sequence[IsolationLevel]", ("SNAPSHOT", "SERIALIZABLE", "AUTOCOMMIT"))

    def get_isolation_level(self, dbapi_connection: DBAPIConnection) -> IsolationLevel:
        """Tell the level of a connection."""
        own = cast("driver.Connection", dbapi_connection)
        if own.autocommit:
            return "AUTOCOMMIT"
        return cast("IsolationLevel", "SERIALIZABLE" if own.serializable else "SNAPSHOT")

    def set_isolation_level(
        self, dbapi_connection: DBAPIConnection, level: IsolationLevel
    ) -> None:
        """Set the level of a connection."""
        own = cast("driver.Connection", dbapi_connection)
        own.autocommit = level == "AUTOCOMMIT"
        own.serializable = str(level) == "SERIALIZABLE"

    def detect_autocommit_setting(self, dbapi_conn: DBAPIConnection) -> bool:
        """Tell whether a connection commits each statement by itself."""
        return cast("driver.Connection", dbapi_conn).autocommit

    def set_engine_execution_options(self, engine: Engine, opts: Mapping[str, Any]) -> None:
        """Refuse a level of enforcement, or a write scope, that there is not."""
        super().set_engine_execution_options(engine, opts)
        checked_level(opts.get(OPTION, "keys"))
        checked_scope(opts.get(WRITE_SCOPE))

    def set_connection_execution_options(
        self, connection: Connection, opts: Mapping[str, Any]
    ) -> None:
        """Refuse a level of enforcement, or a write scope, that there is not."""
        super().set_connection_execution_options(connection, opts)
        checked_level(opts.get(OPTION, "keys"))
        checked_scope(opts.get(WRITE_SCOPE))

    def do_savepoint(self, connection: Connection, name: str) -> None:
        """Set a savepoint in the write scope; raises StatementRefused without one."""
        with scoping.savepoints_of(connection, name) as scope:
            scope.savepoint(name)

    def do_rollback_to_savepoint(self, connection: Connection, name: str) -> None:
        """Undo what came after a savepoint."""
        with scoping.savepoints_of(connection, name) as scope:
            scope.back_to(name)

    def do_release_savepoint(self, connection: Connection, name: str) -> None:
        """Forget a savepoint."""
        with scoping.savepoints_of(connection, name) as scope:
            scope.release(name)

    def do_execute(
        self,
        cursor: DBAPICursor,
        statement: str,
        parameters: Any,
        context: Any = None,
    ) -> None:
        """Execute one parameter set."""
        script = None if context is None else context.script
        own = limited(cursor, context)
        if context is not None:
            context.require_base()
            parameters = context.dated(parameters)
        sources = () if context is None else context.sources
        if not sources:
            scoping.run(
                own,
                statement,
                context,
                lambda text: own.execute(text, parameters or (), script=script),
                parameters,
            )
            return
        tables = {source.index for source in sources}
        values = {
            str(place + 1): each for place, each in enumerate(parameters) if place not in tables
        }
        with registered(own.connection, sources, parameters):
            own.execute(statement, parameters if script else values, script=script)

    def do_executemany(
        self,
        cursor: DBAPICursor,
        statement: str,
        parameters: Any,
        context: Any = None,
    ) -> None:
        """Execute all parameter sets at once, if the statement was compiled for that."""
        if context is not None:
            context.require_base()
        script = None if context is None else context.script
        own = limited(cursor, context)
        scoping.run(
            own,
            statement,
            context,
            lambda text: own.executemany(text, parameters, script=script),
            parameters,
        )

    def do_execute_no_params(
        self,
        cursor: DBAPICursor,
        statement: str,
        context: Any = None,
    ) -> None:
        """Execute a text as it is."""
        own = limited(cursor, context)
        scoping.run(own, statement, context, own.execute)

    def _get_default_schema_name(self, connection: Connection) -> str:
        return str(connection.scalar(select(func.current_schema())))

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        text: Mapping[int, str] = connection.exec_driver_sql("SELECT version()").first()
        return tuple(int(part) for part in text[0].removeprefix("v").split("-")[0].split("."))


def _let_go(engine: Engine) -> None:
    cast("DuckLakeDialect", engine.dialect).let_go()


class DuckLakeSQLiteDialect(DuckLakeDialect):
    """A lake whose catalog is a SQLite file: ``ducklake+sqlite:///path/to/lake.sqlite``."""

    driver = "sqlite"
    supports_statement_cache = True


class DuckLakePostgreSQLDialect(DuckLakeDialect):
    """A lake whose catalog is in PostgreSQL: ``ducklake+postgresql://user:pw@host/db``."""

    driver = "postgresql"
    supports_statement_cache = True
