"""Statements that would ruin a table or end the engine: refused by name, or made harmless."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, Table, insert, text
from sqlalchemy.exc import DBAPIError

from sqlalchemy_ducklake import driver, errors
from sqlalchemy_ducklake.driver.hazards import Alteration, alteration, written_name

FILL = "INSERT INTO t SELECT range, range FROM range({})"
BUCKETS = 'ALTER TABLE main."T" SET PARTITIONED BY (v, bucket (4, id))'
FOUND = "SELECT count(*) FROM t WHERE id = 3"


@pytest.fixture
def cursor(connection: driver.Connection) -> driver.Cursor:
    cursor = connection.cursor().execute("CREATE TABLE t (id INTEGER, v INTEGER)")
    connection.commit()
    return cursor


def found(cursor: driver.Cursor) -> object:
    return cursor.execute(FOUND).fetchall()[0][0]


@pytest.mark.parametrize("rows", [5, 2000])
def test_rows_are_not_hidden_by_buckets(cursor: driver.Cursor, rows: int) -> None:
    connection = cursor.connection
    cursor.execute(FILL.format(rows))
    connection.commit()
    with pytest.raises(errors.RowsWouldHide, match=r"op\.set_ducklake_partitioning") as caught:
        cursor.execute(BUCKETS)
    assert (caught.value.table, caught.value.statement) == ("t", BUCKETS)
    assert errors.classify(caught.value).kind == "not supported"
    assert found(cursor) == 1
    # The transaction goes on, other keys are no hazard, and an empty table has none to lose.
    cursor.execute("ALTER TABLE t SET PARTITIONED BY (id)")
    cursor.execute("DELETE FROM t")
    cursor.execute(BUCKETS)
    cursor.execute(FILL.format(rows))
    connection.commit()
    assert found(cursor) == 1


def test_control_buckets_hide_rows(cursor: driver.Cursor) -> None:
    cursor.execute(FILL.format(2000))
    cursor.connection.commit()
    cursor.connection.duck.execute(BUCKETS)
    assert found(cursor) == 0


@pytest.mark.parametrize(
    "write",
    [
        FILL.format(30),
        "UPDATE t SET v = 9 WHERE id = 1",
        "WITH a AS (SELECT 1 AS b) INSERT INTO lake.t SELECT b, b FROM a",
        "MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_table_is_not_written_after_a_reset(cursor: driver.Cursor, write: str) -> None:
    connection = cursor.connection
    cursor.execute("ALTER TABLE t SET PARTITIONED BY (id)").execute(FILL.format(20))
    connection.commit()
    cursor.execute("ALTER TABLE t RESET PARTITIONED BY")
    with pytest.raises(errors.WriteAfterReset, match="commit first") as caught:
        cursor.execute(write)
    assert (caught.value.table, caught.value.statement) == ("t", write)
    cursor.execute("DELETE FROM t WHERE id = 2")
    connection.commit()
    cursor.execute(write)
    connection.commit()
    cursor.execute("ALTER TABLE t RESET PARTITIONED BY")
    cursor.execute("ALTER TABLE t SET PARTITIONED BY (v)").execute(write)
    connection.commit()


def test_nor_by_a_statement_of_sqlalchemy(engine: Engine) -> None:
    table = Table(
        "T", MetaData(), Column("id", Integer, primary_key=True), ducklake_partition_by=["id"]
    )
    table.create(engine)
    with engine.connect() as connection:
        connection.execute(text('ALTER TABLE "T" RESET PARTITIONED BY'))
        with pytest.raises(DBAPIError) as caught:
            connection.execute(insert(table), [{"id": number} for number in range(30)])
        assert isinstance(caught.value.orig, errors.WriteAfterReset)
        connection.commit()
        connection.execute(insert(table), [{"id": number} for number in range(30)])
        connection.commit()


@pytest.mark.parametrize("rows", [0, 5, 2000])
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ALTER id TYPE BIGINT",
        "alter table T alter column id set data type BIGINT",
    ],
)
def test_a_filter_by_a_column_of_another_type_ends_nothing(
    cursor: driver.Cursor, change: str, rows: int
) -> None:
    connection = cursor.connection
    cursor.execute(FILL.format(rows))
    connection.commit()
    before = found(cursor)
    cursor.execute(change)
    assert found(cursor) == before
    connection.commit()
    assert found(cursor) == before
    assert cursor.execute("SELECT count(*), sum(id) FROM t").fetchall() == [
        (rows, sum(range(rows)) if rows else None)
    ]


def test_a_field_of_another_type(connection: driver.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute('CREATE TABLE "a b" ("s.t" STRUCT(i INTEGER))')
    cursor.execute("""INSERT INTO "a b" SELECT {'i': range} FROM range(50)""")
    connection.commit()
    query = """SELECT count(*) FROM "a b" WHERE "s.t".i = 3"""
    assert cursor.execute(query).fetchone() == (1,)
    cursor.execute('ALTER TABLE "a b" ALTER "s.t" TYPE STRUCT(i BIGINT)')
    connection.commit()
    assert cursor.execute(query).fetchone() == (1,)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ALTER TABLE t RESET PARTITIONED BY", Alteration("reset", "t", "t")),
        (
            'alter table if exists "S.x" . "T""t" set partitioned by (bucket)',
            Alteration("partition", '"S.x" . "T""t"', 't"t'),
        ),
        (
            "ALTER TABLE t SET PARTITIONED BY (a, /* ( */ BUCKET\n(3, b))",
            Alteration("partition", "t", "t", buckets=True),
        ),
        ("ALTER TABLE t ALTER type TYPE INT", Alteration("retype", "t", "t", column="type")),
        (
            'ALTER TABLE t ALTER COLUMN "a.b".c SET DATA TYPE INT',
            Alteration("retype", "t", "t", column='"a.b"'),
        ),
        ("ALTER TABLE t ALTER type SET DEFAULT 3", None),
        ("ALTER TABLE t ALTER type DROP NOT NULL", None),
        ("ALTER TABLE t RENAME type TO bucket", None),
        ("ALTER VIEW t RENAME TO u", None),
    ],
)
def test_what_an_alteration_does_is_read_by_the_engines_lexer(
    query: str, expected: Alteration | None
) -> None:
    assert alteration(query) == expected


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ('INSERT INTO s."T" VALUES (1)', "t"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "t"),
        ("WITH a AS (SELECT 'into x') UPDATE t SET b = 1", "t"),
        ("COPY t FROM 'into'", "t"),
        ("DELETE FROM t", None),
    ],
)
def test_what_is_written_is_read_by_it_too(query: str, name: str | None) -> None:
    assert written_name(query) == name


@pytest.mark.parametrize(
    ("statement", "spoiled"),
    [
        ("CREATE TABLE x (a TIME_NS)", "time_ns"),
        ("create table if not exists main.x (a INT, b hugeint NOT NULL)", "hugeint"),
        ("CREATE TABLE lake.main.x (a STRUCT(b UHUGEINT)[])", "uhugeint"),
        ("CREATE TABLE x (a MAP(VARCHAR, HUGEINT))", "hugeint"),
        ("CREATE TABLE x AS SELECT '12:00'::TIME_NS AS a", "time_ns"),
        ('CREATE TABLE "größe" ("ä" VARCHAR, b HUGEINT)', "hugeint"),
        ("ALTER TABLE t ADD COLUMN a INT128", "int128"),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a uint128", "uint128"),
        ('ALTER TABLE main."T" ALTER COLUMN v SET DATA TYPE HUGEINT', "hugeint"),
        ("CREATE TEMP TABLE x (a HUGEINT, b TIME_NS)", None),
        ("CREATE TABLE memory.main.x (a HUGEINT)", None),
        ('CREATE TABLE x (hugeint INTEGER, "time_ns" INTEGER)', None),
        ("CREATE TABLE hugeint (a INTEGER)", None),
        ('CREATE TABLE "größe" ("ä" VARCHAR, hugeint INTEGER)', None),
        ("CREATE TABLE x AS SELECT sum(v) AS a, 1::HUGEINT::INTEGER AS b FROM t", None),
        ("ALTER TABLE t RENAME COLUMN v TO hugeint", None),
        ("ALTER TABLE t ADD COLUMN hugeint INTEGER", None),
        ("CREATE VIEW x AS SELECT v::HUGEINT AS a FROM t", None),
    ],
)
def test_types_that_files_cannot_hold_are_refused(
    cursor: driver.Cursor, statement: str, spoiled: str | None
) -> None:
    if spoiled is None:
        cursor.execute(statement)
    else:
        with pytest.raises(errors.TypeSpoiled) as caught:
            cursor.execute(statement)
        assert caught.value.type_name == spoiled
        assert caught.value.instead in str(caught.value)
    # The transaction goes on.
    assert cursor.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    cursor.connection.commit()
