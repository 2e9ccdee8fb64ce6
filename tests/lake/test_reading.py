"""Rows come through Arrow, and are what DuckDB's own fetch gives."""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fixtures.keyboard import press_ctrl_c
from sqlalchemy_ducklake import driver, errors

# Over x, a BIGINT or NULL.
EXPRESSIONS = [
    *("x", "x % 2 = 0", "(x % 100)::TINYINT", "(x % 256 + 256)::USMALLINT", "hash(x)"),
    *("x::HUGEINT * x", "x::HUGEINT * x * 2 * sign(x)::HUGEINT", "abs(x::HUGEINT)::UHUGEINT"),
    *("x::FLOAT", "x::DOUBLE / 7", "CASE WHEN x > 0 THEN 'nan'::DOUBLE ELSE '-inf' END"),
    *("(x % 100)::DECIMAL(4, 2)", "(x % 10000)::DECIMAL(9, 3) / 8", "x::DECIMAL(18, 0)"),
    *("x::DECIMAL(38, 10)", "((x % 7)::DECIMAL(38, 0) * 1e-30::DECIMAL(38, 38))"),
    *("x::VARCHAR", "'é😀' || x", "x::VARCHAR::BLOB", "'x'::ENUM('x', 'y')", "x::VARCHAR::BIT"),
    *(
        "DATE '2000-01-01' + (x % 4000000)::INTEGER",
        "make_timestamp(x)",
        "make_timestamp_ns(x)",
    ),
    *("make_timestamp_ms(x)", "make_timestamp(x % 86400000000)::TIME"),
    *("make_timestamp(x)::TIMESTAMPTZ", "make_timestamp(x % 86400000000)::TIMETZ"),
    *("make_timestamp(x % 1000000000000)::TIMESTAMP_S", "uuid()", "('[' || x || ']')::JSON"),
    *("INTERVAL (x % 1000000) MINUTE", "x::BIGNUM", "(x % 9)::VARIANT", "union_value(a := x)"),
    *("[x, NULL, x]", "[[make_timestamp(x)], []]", "[x, 1]::BIGINT[2]"),
    *("{'a': x, 'b c': {'d': uuid(), 'e': x::DECIMAL(30, 2)}}", "MAP {x: [{'a': x}]}"),
    *("MAP {[x]: 'a'}", "MAP {'a': make_timestamp(x)::TIMESTAMPTZ}", "MAP {}", "NULL"),
    *("CASE WHEN x > 0 THEN [x] END", "CASE WHEN x > 0 THEN {'a': x} END"),
    *("CASE WHEN x > 0 THEN uuid() END", "CASE WHEN x > 0 THEN {'a': uuid()} END"),
    *(
        "CASE WHEN x > 0 THEN MAP {uuid(): {'a': uuid()}} END",
        "CASE WHEN x > 0 THEN hash(x) END",
    ),
    "CASE WHEN x > 0 THEN [{'a': [uuid()]}] END",
    *("CASE WHEN x > 0 THEN x::HUGEINT END", "CASE WHEN x > 0 THEN x::VARCHAR::BIT END"),
    *("CASE WHEN x > 0 THEN MAP {x: x} END", "[[x, 1], NULL]::BIGINT[2][]"),
    "'POINT(1 2)'::GEOMETRY",
]
ENDS = [2**63 - 1, 1 - 2**63, 0, None, 253402300799999999, -62135596800000000, -1, 10**15]
# Below, make_timestamp() makes timestamps that the engine's own fetch cannot give.
LOWEST = -9_223_372_022_400_000_000
numbers = st.lists(st.none() | st.integers(LOWEST, 2**63 - 1) | st.sampled_from(ENDS))


def alike(ours: Any, theirs: Any) -> bool:
    """Tell whether two values and their types are the same; NaN is, and zones may differ."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(ours, dict):
        return alike([*ours.items()], [*theirs.items()])
    if isinstance(ours, dt.datetime) and ours.tzinfo is not None:
        return theirs.tzinfo is not None and ours == theirs
    return repr(ours) == repr(theirs)


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[driver.Connection]:
    path = tmp_path_factory.mktemp("reading") / "a.ducklake"
    with driver.connect(str(path), autocommit=True) as connection:
        connection.cursor().execute("CREATE TEMP TABLE n (place BIGINT, x BIGINT)")
        yield connection


def fill(connection: driver.Connection, values: list[int | None]) -> None:
    cursor = connection.cursor().execute("DELETE FROM n")
    cursor.executemany("INSERT INTO n VALUES (?, ?)", list(enumerate(values)))


def stored_once(connection: driver.Connection, expression: str) -> str:
    """Keep what an expression gives, of the values that it takes, and give its table."""
    query = f"CREATE OR REPLACE TEMP TABLE v AS SELECT place, TRY({expression}) AS v FROM n"
    if "uuid" in expression or "VARIANT" in expression:  # TRY takes neither
        query = f"CREATE OR REPLACE TEMP TABLE v AS SELECT place, {expression} AS v FROM n"
    connection.cursor().execute(query)
    return "SELECT v, place FROM v ORDER BY place"


@pytest.mark.parametrize(
    ("expression", "zone"),
    [(each, "UTC") for each in EXPRESSIONS]
    + [(each, "Asia/Kathmandu") for each in EXPRESSIONS if "TZ" in each],
)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=numbers)
@example(values=ENDS)
@example(values=[None, None])
@example(values=[1721, None, -86400000001, 10**15 + 1])
# Many values are made of columns, few one by one.
@example(values=[1721, None, -86400000001, 10**15 + 1] * 5)
@example(values=[1721, -86400000001, 10**15 + 1] * 6)
def test_rows_are_those_of_the_engine(
    reading: driver.Connection, expression: str, zone: str, values: list[int | None]
) -> None:
    fill(reading, values)
    reading.cursor().execute(f"SET TimeZone = '{zone}'")
    query = stored_once(reading, expression)
    theirs = reading.duck.execute(query).fetchall()
    ours = reading.cursor().execute(query).fetchall()
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert alike(one, other), (one, other)


def test_a_row_without_names_is_a_tuple(reading: driver.Connection) -> None:
    query = "SELECT row(1, NULL), row([row(2)])"
    assert reading.cursor().execute(query).fetchall() == [((1, None), ([(2,)],))]


def test_a_time_with_zone_is_in_the_zone_of_the_session(reading: driver.Connection) -> None:
    cursor = reading.cursor().execute("SET TimeZone = 'Europe/Berlin'")
    query = "SELECT TIMESTAMPTZ '2024-10-27 00:30:00Z' + to_hours(range) FROM range(2)"
    found = [value for (value,) in cursor.execute(query)]
    assert [value.tzinfo for value in found] == [ZoneInfo("Europe/Berlin")] * 2
    assert [(value.hour, value.fold, value.utcoffset()) for value in found] == [
        (2, 0, dt.timedelta(hours=2)),
        (2, 1, dt.timedelta(hours=1)),
    ]
    cursor.execute("SET TimeZone = 'UTC'")
    ((value,),) = cursor.execute("SELECT TIMESTAMPTZ '2024-10-27 00:30:00Z'").fetchall()
    assert value.tzinfo is dt.UTC


def rows_one_by_one(cursor: driver.Cursor) -> list[Any]:
    return list(cursor)


def rows_by_size(cursor: driver.Cursor) -> list[Any]:
    return [row for size in (1, 3, 40, 9000, 30_000) for row in cursor.fetchmany(size)]


def rows_of_both(cursor: driver.Cursor) -> list[Any]:
    rows = [cursor.fetchone(), *cursor.fetchmany(70)]
    cursor.connection.commit()
    return [*rows, cursor.fetchone(), *cursor.fetchall()]


def rows_and_arrow(cursor: driver.Cursor) -> list[Any]:
    rows = [cursor.fetchone(), *cursor.fetchmany(7000), cursor.fetchone()]
    rest = cursor.fetch_arrow_table()
    return [*rows, *zip(*(column.to_pylist() for column in rest.columns), strict=True)]


def arrow_after_another_statement(cursor: driver.Cursor) -> list[Any]:
    reader = cursor.fetch_record_batch(1000)
    batches = [reader.read_next_batch()]
    cursor.connection.commit()
    cursor.execute("SELECT 1")
    table = pa.Table.from_batches([*batches, *reader])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    "read",
    [
        rows_one_by_one,
        rows_by_size,
        rows_of_both,
        rows_and_arrow,
        arrow_after_another_statement,
    ],
)
@pytest.mark.parametrize("size", [9005, 25_000])
def test_no_row_is_lost_however_they_are_fetched(
    connection: driver.Connection, read: Callable[[driver.Cursor], list[Any]], size: int
) -> None:
    query = "SELECT range, 'n' || range FROM range(?) WHERE range % 7 <> 3"
    expected = connection.duck.execute(query, [size]).fetchall()
    assert read(connection.cursor().execute(query, (size,))) == expected


@pytest.mark.parametrize("kind", ["INTERVAL (range) DAY", "range::VARIANT"])
def test_what_arrow_cannot_hold_comes_as_rows(connection: driver.Connection, kind: str) -> None:
    query = f"SELECT {kind}, range FROM range(5000)"
    expected = connection.duck.execute(query).fetchall()
    cursor = connection.cursor().execute(query)
    begun = cursor.fetchmany(5)
    with pytest.raises(duckdb.NotSupportedError, match="again"):
        cursor.fetch_arrow_table()
    connection.commit()
    assert begun + cursor.fetchall() == expected
    assert cursor.execute(query).fetch_arrow_table().num_rows == 5000


def test_a_long_interval_survives_the_next_statement(connection: driver.Connection) -> None:
    cursor = connection.cursor().execute("SELECT INTERVAL '3000000 hours'")
    connection.commit()
    assert cursor.fetchall() == [(dt.timedelta(hours=3_000_000),)]


def test_an_error_in_the_stream_is_of_the_class_that_the_engine_means(
    connection: driver.Connection,
) -> None:
    connection.cursor().execute("SET threads = 1")
    cursor = connection.cursor().execute(_BAD)
    with pytest.raises(duckdb.ConversionException, match="x500000"):
        cursor.fetchall()
    with pytest.raises(errors.TransactionAborted):
        connection.commit()


def test_an_error_of_one_thread_that_stops_the_others_says_where_its_cause_went(
    connection: driver.Connection,
) -> None:
    connection.cursor().execute("SET threads = 4")
    for _ in range(30):
        cursor = connection.cursor().execute(_BAD)
        with pytest.raises((duckdb.ConversionException, duckdb.InterruptException)) as caught:
            cursor.fetchall()
        connection.rollback()
        cause_lost = isinstance(caught.value, duckdb.InterruptException)
        notes = getattr(caught.value, "__notes__", [])
        assert any("SET threads = 1" in note for note in notes) == cause_lost


_BAD = """SELECT CASE WHEN range = 500000 THEN CAST('x' || range AS BIGINT) ELSE range END
    FROM range(1000000)"""


def test_streaming_needs_memory_for_a_batch_only(connection: driver.Connection) -> None:
    cursor = connection.cursor().execute("SELECT range, 'x' || range FROM range(400000)")
    tracemalloc.start()
    try:
        assert sum(len(part) for part in iter(lambda: cursor.fetchmany(2000), [])) == 400_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6_000_000  # the rows together take 60 MB


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM range(60000000000) a(i) WHERE hash(i) % 7 = 1",
        # One task of this takes minutes, in which DuckDB itself looks for no signal.
        "SELECT count(*) FROM range(3000000) a(i), range(300000) b(j) WHERE i * j % 100003 = 7",
        "SELECT i, hash(i) FROM range(40000000000) a(i) WHERE i % 1000000 = 1",
    ],
)
def test_ctrl_c_stops_whatever_the_engine_does(
    connection: driver.Connection, threads: int, query: str
) -> None:
    cursor = connection.cursor().execute(f"SET threads = {threads}")
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c(lambda: cursor.execute(query).fetchall())
    connection.rollback()
    # What comes next was not meant, as late as the engine may be interrupted once more.
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    assert signal.set_wakeup_fd(-1) == -1


def test_a_program_that_handles_ctrl_c_itself_is_left_alone(
    connection: driver.Connection,
) -> None:
    told: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        long = "SELECT count(*) FROM range(300000000) a(i) WHERE hash(i) % 7 = 1"
        ((number,),) = connection.cursor().execute(long).fetchall()
    finally:
        signal.signal(signal.SIGINT, before)
    assert number > 0
    assert told == [signal.SIGINT]
