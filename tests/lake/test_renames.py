"""A rename after an alteration in one transaction would ruin the lake, so it is refused."""

from __future__ import annotations

import pytest

from sqlalchemy_ducklake import driver, errors
from sqlalchemy_ducklake.driver.renames import altered_name, defined_name


@pytest.mark.parametrize(
    "alteration",
    [
        "ALTER TABLE a ADD COLUMN c INTEGER",
        "ALTER TABLE main.A RENAME COLUMN v TO vv",
        "COMMENT ON TABLE a IS 'x'",
        "comment on column lake.main.a.id is 'x'",
        "ALTER TABLE IF EXISTS a SET PARTITIONED BY (id)",
    ],
)
def test_a_table_that_was_altered_is_not_renamed_in_the_same_transaction(
    connection: driver.Connection, alteration: str
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE a (id INTEGER, v INTEGER); CREATE TABLE b (id INTEGER)")
    connection.commit()
    cursor.execute(alteration)
    with pytest.raises(errors.StatementRefused, match="Rename it first"):
        cursor.execute('ALTER TABLE "A" RENAME TO z')
    cursor.execute("ALTER TABLE b RENAME TO bb")
    connection.commit()
    cursor.execute("ALTER TABLE a RENAME TO z")
    cursor.execute("ALTER TABLE z ADD COLUMN later INTEGER")
    connection.commit()
    assert cursor.execute("SELECT count(*) FROM z").fetchone() == (0,)
    assert cursor.execute("SELECT count(*) FROM bb").fetchone() == (0,)


def test_a_view_that_was_commented_on_is_not_renamed_either(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE VIEW w AS SELECT 1 AS x")
    connection.commit()
    cursor.execute("COMMENT ON VIEW w IS 'x'")
    with pytest.raises(errors.StatementRefused):
        cursor.execute("ALTER VIEW w RENAME TO w2")


def test_the_connection_tells_whether_something_was_defined(
    connection: driver.Connection,
) -> None:
    cursor = connection.cursor()
    assert not connection.changed_catalog
    cursor.execute("CREATE TABLE t (a INTEGER)")
    assert connection.changed_catalog
    connection.commit()
    cursor.execute("INSERT INTO t VALUES (1)")
    assert not connection.changed_catalog
    cursor.execute("DROP TABLE t")
    assert connection.changed_catalog
    connection.rollback()
    assert not connection.changed_catalog


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('ALTER TABLE IF EXISTS s."we ird" RENAME TO x', ("we ird", True)),
        ("alter view v rename to w", ("v", True)),
        ("ALTER TABLE t RENAME COLUMN a TO b", ("t", False)),
        ('ALTER TABLE "a.b"."c""D" ADD COLUMN rename INT', ('c"d', False)),
        ("alter table t /* rename to */ rename a to b", ("t", False)),
        ("alter table date rename to day", ("date", True)),
        ("COMMENT ON COLUMN main.T.id IS 'a'", ("t", False)),
        ("COMMENT ON TABLE lake . main . \"T\" IS 'rename to'", ("t", False)),
        ('alter table "größe 𝄞"."ä" rename to ü', ("ä", True)),
        ("CREATE TABLE t (a INTEGER)", None),
    ],
)
def test_the_altered_name_is_read_by_the_engines_own_lexer(
    query: str, expected: tuple[str, bool] | None
) -> None:
    assert altered_name(query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('CREATE TABLE IF NOT EXISTS "größe"."Ä b" (a INTEGER)', "Ä b".lower()),
        ("create or replace temp table lake.main.T as select 1", "t"),
        ("DROP VIEW IF EXISTS v", "v"),
        ("DROP SCHEMA s CASCADE", None),
        ("CREATE MACRO m() AS 1", None),
        ("DROP", None),
    ],
)
def test_the_defined_name_is_read_too(query: str, expected: str | None) -> None:
    assert defined_name(query) == expected
