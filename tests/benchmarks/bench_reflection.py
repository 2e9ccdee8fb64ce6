"""Reflection of a schema, against all that the catalog holds of it, fetched raw.

``MetaData.reflect`` asks eight questions about each table, then SQLAlchemy makes objects of
the answers, which takes longer than to read them.  So this measures both apart; what the
making costs is seen from a schema of the same tables in a SQLite file, through SQLAlchemy's
own dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, MetaData, create_engine, inspect
from sqlalchemy.engine.reflection import ObjectKind, ObjectScope

from benchmarks.measure import Report, Timing, medians, timed
from fixtures.catalogs import own_server
from sqlalchemy_ducklake.lake.config import DEFAULT_ALIAS

COLUMNS = 20
FLOOR = "the bare catalog queries"
_KINDS = ("BIGINT", "VARCHAR", "DECIMAL(18, 2)", "TIMESTAMP", "DOUBLE DEFAULT 0.5")
# Each table of the catalog that has something to say of a schema's tables, read once.
_BARE = (
    """SELECT t.table_name, c.*, g.value FROM {lake}.ducklake_table t
    JOIN {lake}.ducklake_schema s ON s.schema_id = t.schema_id
    JOIN {lake}.ducklake_column c ON c.table_id = t.table_id
    LEFT JOIN {lake}.ducklake_column_tag g
        ON g.table_id = c.table_id AND g.column_id = c.column_id AND g.end_snapshot IS NULL
    WHERE t.end_snapshot IS NULL AND c.end_snapshot IS NULL AND s.schema_name = 'main'
    ORDER BY t.table_id, c.column_order""",
    "SELECT * FROM {lake}.ducklake_tag WHERE end_snapshot IS NULL",
    """SELECT * FROM {lake}.ducklake_partition_info i
    JOIN {lake}.ducklake_partition_column p ON p.partition_id = i.partition_id
    WHERE i.end_snapshot IS NULL""",
    """SELECT * FROM {lake}.ducklake_sort_info i
    JOIN {lake}.ducklake_sort_expression e ON e.sort_id = i.sort_id
    WHERE i.end_snapshot IS NULL""",
    "SELECT * FROM {lake}.ducklake_metadata",
)


def run(directory: Path, tables: int = 500, runs: int = 5) -> Report:
    """Measure on a new lake with a DuckDB catalog in ``directory``."""
    url = URL.create("ducklake", database=str(directory / "r.ducklake"))
    return run_on(url, directory, tables, runs)


def run_on_sqlite(directory: Path, tables: int = 500, runs: int = 5) -> Report:
    """Measure on a new lake with a SQLite catalog in ``directory``."""
    url = URL.create("ducklake+sqlite", database=str(directory / "r.sqlite"))
    return run_on(url, directory, tables, runs)


def run_on_postgresql(directory: Path, tables: int = 500, runs: int = 5) -> Report:
    """Measure on a new lake with a catalog in a PostgreSQL server of its own."""
    with own_server() as server:
        query = {"host": server.host, "data_path": str(directory / "files")}
        url = URL.create("ducklake+postgresql", "postgres", database="postgres", query=query)
        return run_on(url, directory, tables, runs)


def run_on(url: URL, directory: Path, tables: int, runs: int) -> Report:
    """Measure on the new lake at ``url``, and beside it on SQLite in ``directory``."""
    engine, plain = create_engine(url), create_engine(f"sqlite:///{directory / 'plain.db'}")
    facts: dict[str, object] = {}
    try:
        _fill(engine, tables, more=True)
        _fill(plain, tables, more=False)
        works = {
            FLOOR: lambda: _bare(engine, facts),
            "get_multi_columns": lambda: _columns(engine, facts),
            "all that MetaData.reflect asks": lambda: _answers(engine, facts),
            "MetaData.reflect": lambda: _all(engine, "tables", facts),
            "MetaData.reflect of SQLite, SQLAlchemy's own": (
                lambda: _all(plain, "tables in SQLite", facts)
            ),
            "columns of one table": lambda: _one(engine, facts),
        }
        times = medians({name: _timing(work) for name, work in works.items()}, runs)
    finally:
        engine.dispose()
        plain.dispose()
    title = (
        f"Reflection of {tables} tables of {COLUMNS} columns, {url.drivername}; "
        f"ratios to {FLOOR}"
    )
    return Report(title, times, times[FLOOR], facts)


def _timing(work: Callable[[], object]) -> Callable[[], Timing]:
    return lambda: timed(work)


def _fill(engine: Engine, tables: int, *, more: bool) -> None:
    kinds = [_KINDS[number % len(_KINDS)] for number in range(COLUMNS)]
    columns = ", ".join(f"column_{number} {kind}" for number, kind in enumerate(kinds))
    with engine.begin() as connection:
        for number in range(tables):
            connection.exec_driver_sql(f"CREATE TABLE table_{number} ({columns})")
        for number in range(0, tables if more else 0, 100):
            for change in (
                "COMMENT ON TABLE {} IS 'a comment'",
                "COMMENT ON COLUMN {}.column_1 IS 'another'",
                "ALTER TABLE {} SET PARTITIONED BY (column_0)",
                "ALTER TABLE {} SET SORTED BY (column_1 ASC)",
            ):
                connection.exec_driver_sql(change.format(f"table_{number}"))


def _bare(engine: Engine, facts: dict[str, object]) -> None:
    lake = f"__ducklake_metadata_{DEFAULT_ALIAS}"
    with engine.connect() as connection:
        duck = connection.connection.driver_connection.duck  # type: ignore[union-attr]
        found = [duck.execute(query.format(lake=lake)).fetchall() for query in _BARE]
    facts["columns in the bare queries"] = len(found[0])


def _columns(engine: Engine, facts: dict[str, object]) -> None:
    with engine.connect() as connection:
        found = inspect(connection).get_multi_columns()
    facts["columns"] = sum(map(len, found.values()))


def _answers(engine: Engine, facts: dict[str, object]) -> None:
    asked: dict[str, Any] = {"kind": ObjectKind.TABLE, "scope": ObjectScope.ANY}
    with engine.connect() as connection:
        inspector = inspect(connection)
        names = inspector.get_table_names()
        answers = (
            inspector.get_multi_columns(**asked),
            inspector.get_multi_pk_constraint(**asked),
            inspector.get_multi_foreign_keys(**asked),
            inspector.get_multi_indexes(**asked),
            inspector.get_multi_unique_constraints(**asked),
            inspector.get_multi_table_comment(**asked),
            inspector.get_multi_check_constraints(**asked),
            inspector.get_multi_table_options(**asked),
        )
    facts["answers"] = len(names) * len([each for each in answers if len(each) == len(names)])


def _all(engine: Engine, what: str, facts: dict[str, object]) -> None:
    metadata = MetaData()
    metadata.reflect(engine)
    facts[what] = len(metadata.tables)


def _one(engine: Engine, facts: dict[str, object]) -> None:
    with engine.connect() as connection:
        facts["columns of one"] = len(inspect(connection).get_columns("table_0"))
