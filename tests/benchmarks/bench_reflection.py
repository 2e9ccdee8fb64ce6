"""Reflection of a schema, against the bare query for its columns in the catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import URL, Engine, MetaData, create_engine, inspect

from benchmarks.measure import Report, Timing, medians, timed
from sqlalchemy_ducklake.lake.config import DEFAULT_ALIAS

COLUMNS = 20
FLOOR = "the bare catalog query"
_KINDS = ("BIGINT", "VARCHAR", "DECIMAL(18, 2)", "TIMESTAMP", "DOUBLE")
# All that is known of the columns of all tables, as it is stored.
_BARE = """
SELECT t.table_name, c.*, g.value FROM {0}.ducklake_table t
JOIN {0}.ducklake_schema s ON s.schema_id = t.schema_id
JOIN {0}.ducklake_column c ON c.table_id = t.table_id
LEFT JOIN {0}.ducklake_column_tag g
    ON g.table_id = c.table_id AND g.column_id = c.column_id AND g.end_snapshot IS NULL
WHERE t.end_snapshot IS NULL AND c.end_snapshot IS NULL AND s.schema_name = 'main'
ORDER BY t.table_id, c.column_order
"""


def run(directory: Path, tables: int = 500, runs: int = 5) -> Report:
    """Measure on a new lake with a DuckDB catalog in ``directory``."""
    return run_on(URL.create("ducklake", database=str(directory / "r.ducklake")), tables, runs)


def run_on_sqlite(directory: Path, tables: int = 500, runs: int = 5) -> Report:
    """Measure on a new lake with a SQLite catalog in ``directory``."""
    database = str(directory / "r.sqlite")
    return run_on(URL.create("ducklake+sqlite", database=database), tables, runs)


def run_on(url: URL, tables: int, runs: int) -> Report:
    """Measure on the new lake at ``url``."""
    engine = create_engine(url)
    try:
        _fill(engine, tables)
        facts: dict[str, object] = {}
        works = {
            FLOOR: lambda: _bare(engine, facts),
            "get_multi_columns": lambda: _columns(engine, facts),
            "MetaData.reflect": lambda: _all(engine, facts),
            "columns of one table": lambda: _one(engine, facts),
        }
        times = medians({name: _timing(work) for name, work in works.items()}, runs)
    finally:
        engine.dispose()
    title = (
        f"Reflection of {tables} tables of {COLUMNS} columns, {url.drivername}; "
        f"ratios to {FLOOR}"
    )
    return Report(title, times, times[FLOOR], facts)


def _timing(work: Callable[[], object]) -> Callable[[], Timing]:
    return lambda: timed(work)


def _fill(engine: Engine, tables: int) -> None:
    kinds = [_KINDS[number % len(_KINDS)] for number in range(COLUMNS)]
    columns = ", ".join(f"column_{number} {kind}" for number, kind in enumerate(kinds))
    with engine.begin() as connection:
        for number in range(tables):
            connection.exec_driver_sql(f"CREATE TABLE table_{number} ({columns})")


def _bare(engine: Engine, facts: dict[str, object]) -> None:
    query = _BARE.format(f"__ducklake_metadata_{DEFAULT_ALIAS}")
    with engine.connect() as connection:
        facts["rows of the bare query"] = len(connection.exec_driver_sql(query).fetchall())


def _columns(engine: Engine, facts: dict[str, object]) -> None:
    with engine.connect() as connection:
        found = inspect(connection).get_multi_columns()
    facts["columns"] = sum(map(len, found.values()))


def _all(engine: Engine, facts: dict[str, object]) -> None:
    metadata = MetaData()
    metadata.reflect(engine)
    facts["tables"] = len(metadata.tables)


def _one(engine: Engine, facts: dict[str, object]) -> None:
    with engine.connect() as connection:
        facts["columns of one"] = len(inspect(connection).get_columns("table_0"))
