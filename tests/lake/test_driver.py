"""PEP 249 on a lake: results, counts, transactions."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable

import duckdb
import pytest

from sqlalchemy_ducklake import driver, errors

Open = Callable[[], driver.Connection]


def filled(connection: driver.Connection, rows: int = 5000) -> driver.Cursor:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id BIGINT, name VARCHAR)")
    cursor.execute("INSERT INTO t SELECT range, 'n' || range FROM range(?)", (rows,))
    return cursor


def test_a_second_statement_inside_a_loop_cuts_nothing(connection: driver.Connection) -> None:
    filled(connection)
    outer, inner = connection.cursor(), connection.cursor()
    outer.execute("SELECT id FROM t ORDER BY id")
    seen = []
    for (number,) in outer:
        inner.execute("SELECT name FROM t WHERE id = ?", (number,))
        assert inner.fetchone() == (f"n{number}",)
        seen.append(number)
    assert seen == list(range(5000))


@pytest.mark.parametrize("fetched_first", [0, 1, 3000])
def test_an_open_result_survives_commit_rollback_and_a_second_execute(
    connection: driver.Connection, fetched_first: int
) -> None:
    filled(connection)
    connection.commit()
    ends: list[Callable[[], object]] = [
        connection.commit,
        connection.rollback,
        lambda: connection.cursor().execute("SELECT 1"),
        lambda: connection.cursor().execute("INSERT INTO t VALUES (-1, NULL)"),
    ]
    for end in ends:
        cursor = connection.cursor().execute("SELECT id FROM t WHERE id >= 0 ORDER BY id")
        rows = cursor.fetchmany(fetched_first)
        end()
        rows += cursor.fetchall()
        assert rows == [(number,) for number in range(5000)]
        assert cursor.fetchone() is None


def test_closing_another_cursor_leaves_a_result_alone(connection: driver.Connection) -> None:
    filled(connection)
    first, second = connection.cursor(), connection.cursor()
    first.execute("SELECT id FROM t ORDER BY id")
    assert first.fetchone() == (0,)
    second.execute("SELECT 1")
    second.close()
    assert len(first.fetchall()) == 4999


def test_results_with_every_kind_of_value_survive_detaching(
    connection: driver.Connection,
) -> None:
    query = """SELECT 1::HUGEINT, 1.50::DECIMAL(9, 2), uuid(), [1, 2], {'a': 1},
        map {'k': 'v'}, 'x'::BLOB, '{"a": 1}'::JSON, INTERVAL 1 DAY, TIME '01:02:03',
        TIMESTAMPTZ '2020-01-01 00:00:00+02', 42::VARIANT, NULL"""
    cursor, other = connection.cursor(), connection.cursor()
    cursor.execute(f"CREATE TEMP TABLE kinds AS {query}")
    direct = cursor.execute("FROM kinds").fetchall()
    cursor.execute("FROM kinds")
    other.execute("SELECT 1")
    assert cursor.fetchall() == direct
    assert list(map(type, direct[0])) == list(
        map(type, cursor.execute("FROM kinds").fetchone() or ())
    )


def test_an_error_while_streaming_is_told_to_the_cursor_that_fetches(
    connection: driver.Connection,
) -> None:
    bad, other = connection.cursor(), connection.cursor()
    # With more threads the engine may lose the cause (test_reading has that case).
    other.execute("SET threads = 1")
    bad.execute(
        "SELECT CASE WHEN range < 900000 THEN range ELSE CAST('x' || range AS BIGINT) END "
        "FROM range(1000000)"
    )
    with pytest.raises(errors.TransactionAborted):
        other.execute("SELECT 1")
    with pytest.raises(duckdb.ConversionException):
        bad.fetchall()
    connection.rollback()
    assert other.execute("SELECT 1").fetchall() == [(1,)]


def test_row_counts_are_true_and_changes_give_no_result_set(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE t (id BIGINT, name VARCHAR)")
    assert (cursor.rowcount, cursor.description) == (-1, None)
    for statement, count in [
        ("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')", 3),
        ("UPDATE t SET name = 'x' WHERE id > 1", 2),
        ("DELETE FROM t WHERE id = 99", 0),
        ("DELETE FROM t WHERE id = 1", 1),
        ("CREATE TABLE copy AS FROM t", 2),
    ]:
        cursor.execute(statement)
        assert (cursor.rowcount, cursor.description) == (count, None), statement
        with pytest.raises(errors.InterfaceError):
            cursor.fetchone()


def test_a_column_that_is_called_count_is_a_result(connection: driver.Connection) -> None:
    cursor = connection.cursor().execute('SELECT 7::BIGINT AS "Count"')
    assert cursor.fetchall() == [(7,)]
    assert cursor.rowcount == -1


def test_placeholders_are_question_marks_numbers_or_names(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    assert cursor.execute("SELECT ?, ?", (1, "a")).fetchall() == [(1, "a")]
    assert cursor.execute("SELECT $2, $1", (1, "a")).fetchall() == [("a", 1)]
    assert cursor.execute("SELECT $x, $y", {"x": 1, "y": 2}).fetchall() == [(1, 2)]


@pytest.mark.parametrize("parameters", [(), (1,), (1, 2, 3), {"x": 1}])
def test_parameters_that_do_not_fit_are_named(
    connection: driver.Connection, parameters: object
) -> None:
    cursor = connection.cursor()
    with pytest.raises(errors.ParameterError) as caught:
        cursor.execute("SELECT ?, ?", parameters)  # type: ignore[arg-type]
    assert caught.value.expected == ("1", "2")
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_several_statements_share_numbered_parameters_but_not_question_marks(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TEMP TABLE x AS SELECT $1 AS a; SELECT a + $2 FROM x", (1, 2))
    assert cursor.fetchall() == [(3,)]
    with pytest.raises(errors.ParameterError):
        cursor.execute("SELECT ?; SELECT ?", (1, 2))


def test_a_transaction_begins_by_itself_and_commits_one_snapshot(connect: Open) -> None:
    writer, reader = connect(), connect()
    writer.cursor().execute("CREATE TABLE t (id BIGINT)")
    writer.commit()
    writer.cursor().execute("INSERT INTO t VALUES (1)")
    assert reader.cursor().execute("SELECT count(*) FROM t").fetchone() == (0,)
    reader.rollback()
    writer.commit()
    assert reader.cursor().execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_rollback_undoes_and_never_fails(connection: driver.Connection) -> None:
    connection.rollback()
    filled(connection, 1)
    connection.rollback()
    connection.rollback()
    with pytest.raises(duckdb.CatalogException):
        connection.cursor().execute("FROM t")


def test_commit_after_an_aborting_error_raises_and_names_the_cause(
    connection: driver.Connection,
) -> None:
    cursor = filled(connection, 1)
    with pytest.raises(duckdb.ConversionException) as first:
        cursor.execute("SELECT CAST('x' AS INTEGER)").fetchall()
    with pytest.raises(errors.TransactionAborted):
        cursor.execute("SELECT 1")
    with pytest.raises(errors.TransactionAborted) as caught:
        connection.commit()
    assert caught.value.cause is first.value
    assert caught.value.sqlstate == "25P02"
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("statement", ["SELEC 1", "FROM missing", "SELECT missing FROM t"])
def test_an_error_that_leaves_the_transaction_alive_does_not_end_it(
    connection: driver.Connection, statement: str
) -> None:
    cursor = filled(connection, 1)
    with pytest.raises(duckdb.ProgrammingError):
        cursor.execute(statement)
    connection.commit()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_autocommit_publishes_each_statement(connect: Open) -> None:
    writer, reader = connect(), connect()
    writer.autocommit = True
    filled(writer, 3)
    assert reader.cursor().execute("SELECT count(*) FROM t").fetchone() == (3,)
    with pytest.raises(duckdb.ConversionException):
        writer.cursor().execute("INSERT INTO t VALUES ('x', 'y')")
    writer.cursor().execute("INSERT INTO t VALUES (4, 'y')")
    reader.rollback()
    assert reader.cursor().execute("SELECT count(*) FROM t").fetchone() == (4,)


def test_begin_commit_and_rollback_as_text_move_the_connection_along(
    connection: driver.Connection,
) -> None:
    connection.autocommit = True
    cursor = filled(connection, 1)
    cursor.execute("BEGIN TRANSACTION")
    assert connection.in_transaction
    cursor.execute("DELETE FROM t")
    cursor.execute("ROLLBACK;")
    cursor.execute("begin")
    cursor.execute("INSERT INTO t VALUES (2, 'b')")
    cursor.execute("commit")
    assert not connection.in_transaction
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_the_second_of_two_writers_that_changed_rows_is_told(connect: Open) -> None:
    early, late = connect(), connect()
    filled(early, 3)
    early.commit()
    late.cursor().execute("UPDATE t SET name = 'late' WHERE id = 1")
    early.cursor().execute("INSERT INTO t VALUES (9, 'early')")
    early.commit()
    with pytest.raises(errors.SerializationFailure) as caught:
        late.commit()
    assert caught.value.sqlstate == "40001"
    assert isinstance(caught.value.__cause__, duckdb.TransactionException)
    late.cursor().execute("UPDATE t SET name = 'late' WHERE id = 1")
    late.commit()
    rows = early.cursor().execute("SELECT * FROM t ORDER BY id").fetchall()
    assert rows == [(0, "n0"), (1, "late"), (2, "n2"), (9, "early")]


def test_a_guarded_commit_leaves_the_retry_setting_as_it_was(
    connection: driver.Connection,
) -> None:
    cursor = filled(connection, 3)
    cursor.execute("DELETE FROM t")
    connection.commit()
    setting = cursor.execute("SELECT current_setting('ducklake_max_retry_count')").fetchone()
    assert setting == (10,)


def test_executemany_runs_in_one_transaction_and_counts_all(
    connection: driver.Connection,
) -> None:
    cursor = filled(connection, 3)
    connection.commit()
    cursor.executemany("DELETE FROM t WHERE id = ?", [(0,), (1,), (7,)])
    assert cursor.rowcount == 2
    with pytest.raises(duckdb.ConversionException):
        cursor.executemany("INSERT INTO t VALUES (?, 'x')", [(5,), ("no",)])
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (3,)
    cursor.executemany("DELETE FROM t WHERE id = ?", [])
    assert cursor.rowcount == 0


def files_of(cursor: driver.Cursor, table: str) -> int:
    listed = cursor.execute("FROM ducklake_list_files('lake', ?)", (table,))
    return len(listed.fetchall())


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (?, ?)",
        "insert into main.t (name, id) values ($2, $1);",
        "INSERT INTO t (id, name) VALUES (?, ?) -- values",
    ],
)
def test_many_rows_by_text_are_one_file(connection: driver.Connection, statement: str) -> None:
    cursor = filled(connection, 0)
    rows = [(number, f"n{number}" if number % 3 else None) for number in range(3000)]
    if statement.endswith("-- values"):
        rows = rows[:20]  # the word comes twice, so it is left to run set by set
    cursor.executemany(statement, rows)
    assert (cursor.rowcount, cursor.description) == (len(rows), None)
    assert cursor.execute("FROM t ORDER BY id").fetchall() == rows
    connection.commit()
    if len(rows) == 3000:
        assert files_of(cursor, "t") == 1


def test_columns_of_mixed_types_are_stored_as_each_value_alone_would_be(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE mixed (a VARCHAR, b DOUBLE)")
    cursor.executemany("INSERT INTO mixed VALUES (?, ?)", [(1, 1), ("x", 2.5), (None, None)])
    assert cursor.execute("FROM mixed").fetchall() == [("1", 1.0), ("x", 2.5), (None, None)]
    with pytest.raises(errors.ParameterError):
        cursor.executemany("INSERT INTO mixed VALUES (?, ?)", [(1, 2), (3,)])


def test_adding_a_column_with_an_expression_as_default_is_refused_in_time(
    connection: driver.Connection,
) -> None:
    cursor = filled(connection, 1)
    with pytest.raises(errors.StatementRefused, match="with a literal"):
        cursor.execute("ALTER TABLE t ADD COLUMN made TIMESTAMP DEFAULT now()")
    connection.commit()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_pivot_which_the_parser_rewrites_runs_as_one_statement(
    connection: driver.Connection,
) -> None:
    cursor = filled(connection, 2)
    cursor.execute("PIVOT t ON name USING count(*) GROUP BY id ORDER BY id")
    assert cursor.fetchall() == [(0, 1, 0), (1, 0, 1)]


def test_fetch_sizes_follow_arraysize_and_iteration_ends(
    connection: driver.Connection,
) -> None:
    cursor = filled(connection, 10)
    cursor.execute("SELECT id FROM t ORDER BY id")
    assert cursor.fetchmany() == [(0,)]
    cursor.arraysize = 4
    assert cursor.fetchmany() == [(1,), (2,), (3,), (4,)]
    assert cursor.fetchmany(2) == [(5,), (6,)]
    assert [row for row in cursor] == [(7,), (8,), (9,)]  # noqa: C416 - iteration is meant
    assert cursor.fetchmany(5) == []
    assert cursor.fetchall() == []


def test_arrow_comes_whole_or_batch_by_batch(connection: driver.Connection) -> None:
    cursor = filled(connection, 5000)
    table = cursor.execute("SELECT * FROM t ORDER BY id").fetch_arrow_table()
    assert table.num_rows == 5000
    assert table.column_names == ["id", "name"]
    reader = cursor.execute("SELECT * FROM t ORDER BY id").fetch_record_batch(2048)
    assert sum(batch.num_rows for batch in reader) == 5000
    other = connection.cursor()
    cursor.execute("SELECT * FROM t ORDER BY id")
    other.execute("SELECT 1")
    assert cursor.fetch_arrow_table().equals(table)
    cursor.execute("SELECT * FROM t ORDER BY id")
    cursor.fetchone()
    assert cursor.fetch_arrow_table().equals(table[1:])
    assert cursor.fetchall() == []
    cursor.execute("SELECT * FROM t").fetchall()
    with pytest.raises(duckdb.NotSupportedError, match="again"):
        cursor.fetch_arrow_table()


def test_a_closed_connection_or_cursor_says_so_and_closing_twice_is_no_error(
    connection: driver.Connection,
) -> None:
    cursor, closed = connection.cursor(), connection.cursor()
    closed.close()
    closed.close()
    with pytest.raises(errors.ClosedError, match="cursor is closed"):
        closed.execute("SELECT 1")
    connection.close()
    connection.close()
    connection.rollback()
    for use in (cursor.fetchone, connection.commit, connection.cursor):
        with pytest.raises(errors.InterfaceError, match="connection is closed"):
            use()


def test_as_a_context_manager_a_connection_commits_or_rolls_back_and_closes(
    connect: Open,
) -> None:
    with connect() as first:
        filled(first, 2)
    second = connect()
    with pytest.raises(ZeroDivisionError), second:
        second.cursor().execute("DELETE FROM t").execute(str(1 // 0))
    assert first.closed
    assert second.closed
    with connect() as third, third.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_another_thread_can_interrupt_a_statement(connection: driver.Connection) -> None:
    cursor = connection.cursor()

    def stop() -> None:
        time.sleep(0.3)
        connection.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(duckdb.InterruptException):
        cursor.execute("SELECT count(*) FROM range(10000000) a, range(10000000) b").fetchall()
    thread.join()
    connection.rollback()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_python_variables_are_not_tables(connection: driver.Connection) -> None:
    numbers = duckdb.sql("SELECT 1 AS a").to_arrow_table()
    with pytest.raises(duckdb.CatalogException):
        connection.cursor().execute("SELECT * FROM numbers")
    assert numbers.num_rows == 1


def test_the_module_and_the_connection_offer_the_exceptions_of_pep_249(
    connection: driver.Connection,
) -> None:
    names = [
        *("Warning", "Error", "InterfaceError", "DatabaseError", "DataError"),
        *("OperationalError", "IntegrityError", "InternalError", "ProgrammingError"),
        "NotSupportedError",
    ]
    for name in names:
        assert getattr(driver, name) is getattr(connection, name)
    assert (driver.apilevel, driver.threadsafety, driver.paramstyle) == ("2.0", 1, "qmark")
    with pytest.raises(driver.NotSupportedError):
        connection.cursor().callproc("anything")


@pytest.mark.parametrize(
    "error",
    [
        errors.ParameterError(["1"], ["1", "2"]),
        errors.KeyViolation("t", "pk", ["a", "b"], [(1, "x")]),
        errors.SerializationFailure(3, 5, "reason"),
        errors.TransactionAborted(ValueError("x")),
        errors.ValueRefused("c", "DATE", 5, 2, "why"),
    ],
)
def test_errors_survive_pickling_with_their_data(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_empty_text_is_no_statement(connection: driver.Connection) -> None:
    cursor = connection.cursor().execute("  -- nothing")
    assert (cursor.rowcount, cursor.description) == (-1, None)
