"""What an Inspector tells about a real lake, also in the middle of a transaction."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    create_engine,
    event,
    exc,
    inspect,
    types,
)
from sqlalchemy.engine.reflection import ObjectKind, ObjectScope

from sqlalchemy_ducklake import driver

SCRIPT = """
    CREATE SCHEMA other;
    CREATE TABLE plain (
        id INTEGER NOT NULL, name VARCHAR DEFAULT 'it''s', n INTEGER DEFAULT -5,
        price DECIMAL(10, 2) DEFAULT 1.5, flag BOOLEAN DEFAULT true,
        made TIMESTAMP DEFAULT now(),
        day DATE DEFAULT '2020-01-01', size DOUBLE DEFAULT 'nan', none VARCHAR DEFAULT NULL,
        sum INTEGER DEFAULT 1 + 2
    );
    COMMENT ON TABLE plain IS 'a table';
    COMMENT ON COLUMN plain.id IS 'a column';
    CREATE TABLE other.nested (
        point STRUCT(x DOUBLE, "the tags" VARCHAR[]), rates MAP(VARCHAR, DECIMAL(5, 2)),
        grid INTEGER[][], tiny UTINYINT, moment TIMESTAMP WITH TIME ZONE
    );
    CREATE VIEW adults AS SELECT id, name FROM plain WHERE n > 17;
    COMMENT ON VIEW adults IS 'a view';
    CREATE VIEW other."a view AS seen" AS SELECT 1 AS one;
"""


@pytest.fixture(params=["in the transaction", "after the commit", "in autocommit"])
def connection(request: pytest.FixtureRequest, engine: Engine) -> Iterator[Connection]:
    """A connection that sees the objects of SCRIPT, committed or not."""
    with engine.connect() as connection:
        connection.exec_driver_sql(SCRIPT)
        if request.param != "in the transaction":
            connection.commit()
        if request.param == "in autocommit":
            connection.execution_options(isolation_level="AUTOCOMMIT")
        yield connection


def test_names_are_listed(connection: Connection) -> None:
    inspector = inspect(connection)
    assert inspector.get_schema_names() == ["main", "other"]
    assert inspector.get_table_names() == ["plain"]
    assert inspector.get_table_names("other") == ["nested"]
    assert inspector.get_table_names("none such") == []
    assert inspector.get_view_names() == ["adults"]
    assert inspector.get_view_names("other") == ["a view AS seen"]
    assert inspector.get_materialized_view_names() == []
    assert inspector.get_temp_table_names() == []
    assert inspector.get_sequence_names() == []


def test_what_is_there_is_told_from_what_is_not(connection: Connection) -> None:
    inspector = inspect(connection)
    assert inspector.has_table("plain")
    assert inspector.has_table("PLAIN")
    assert inspector.has_table("adults")
    assert inspector.has_table("nested", schema="other")
    assert not inspector.has_table("nested")
    assert not inspector.has_table("plain", schema="other")
    assert not inspector.has_table("none such")
    assert inspector.has_schema("OTHER")
    assert not inspector.has_schema("none such")
    assert not inspector.has_sequence("plain")


def test_defaults_are_sql_and_no_default_is_none(connection: Connection) -> None:
    columns = inspect(connection).get_columns("plain")
    assert {column["name"]: column["default"] for column in columns} == {
        "id": None,
        "name": "'it''s'",
        "n": "-5",
        "price": "1.5",
        "flag": "true",
        "made": "now()",
        "day": "'2020-01-01'",
        "size": "'nan'",
        "none": None,
        "sum": "(1 + 2)",
    }
    assert [column["name"] for column in columns if not column["nullable"]] == ["id"]
    assert columns[0]["comment"] == "a column"


def test_nested_types_are_whole(connection: Connection) -> None:
    columns = inspect(connection).get_columns("nested", schema="other")
    assert {column["name"]: repr(column["type"]) for column in columns} == {
        "point": "STRUCT((('x', DOUBLE()), ('the tags', ARRAY(VARCHAR()))))",
        "rates": "MAP(VARCHAR(), DECIMAL(precision=5, scale=2))",
        "grid": "ARRAY(INTEGER(), dimensions=2)",
        "tiny": "UTINYINT()",
        "moment": "TIMESTAMP(timezone=True)",
    }


def test_a_sum_is_a_whole_number_of_the_engine(connection: Connection) -> None:
    connection.exec_driver_sql("CREATE TABLE sums AS SELECT sum(1) AS big")
    (column,) = inspect(connection).get_columns("sums")
    assert repr(column["type"]) == "HUGEINT()"


def test_a_view_has_columns_a_comment_and_a_definition(connection: Connection) -> None:
    inspector = inspect(connection)
    columns = inspector.get_columns("adults")
    assert [(one["name"], type(one["type"])) for one in columns] == [
        ("id", types.INTEGER),
        ("name", types.VARCHAR),
    ]
    assert inspector.get_table_comment("adults") == {"text": "a view"}
    assert inspector.get_pk_constraint("adults") == {"constrained_columns": [], "name": None}
    assert (
        inspector.get_view_definition("adults") == 'SELECT id, "name" FROM plain WHERE (n > 17)'
    )
    assert inspector.get_view_definition("a view AS seen", "other") == "SELECT 1 AS one"


def test_a_table_without_tags_has_no_key_and_no_constraints(connection: Connection) -> None:
    inspector = inspect(connection)
    assert inspector.get_pk_constraint("plain") == {"constrained_columns": [], "name": None}
    assert inspector.get_unique_constraints("plain") == []
    assert inspector.get_foreign_keys("plain") == []
    assert inspector.get_check_constraints("plain") == []
    assert inspector.get_indexes("plain") == []
    assert inspector.get_table_comment("plain") == {"text": "a table"}
    assert inspector.get_table_comment("nested", "other") == {"text": None}
    assert inspector.get_table_options("plain") == {}


QUESTIONS = [
    "get_columns",
    "get_pk_constraint",
    "get_unique_constraints",
    "get_foreign_keys",
    "get_check_constraints",
    "get_indexes",
    "get_table_comment",
    "get_table_options",
    "get_view_definition",
]


def test_a_table_that_is_not_there_is_an_error(connection: Connection) -> None:
    inspector = inspect(connection)
    for question in QUESTIONS:
        for name, schema in [("none such", None), ("plain", "other")]:
            with pytest.raises(exc.NoSuchTableError, match=name):
                getattr(inspector, question)(name, schema=schema)


def test_a_definition_is_only_of_views(connection: Connection) -> None:
    with pytest.raises(exc.NoSuchTableError):
        inspect(connection).get_view_definition("plain")


def test_many_tables_are_asked_at_once(connection: Connection) -> None:
    inspector = inspect(connection)
    everything: dict[str, Any] = {"kind": ObjectKind.ANY, "scope": ObjectScope.ANY}
    assert inspector.get_multi_columns().keys() == {(None, "plain")}
    assert inspector.get_multi_columns(**everything).keys() == {
        (None, "plain"),
        (None, "adults"),
    }
    assert inspector.get_multi_columns(kind=ObjectKind.VIEW).keys() == {(None, "adults")}
    assert inspector.get_multi_columns(scope=ObjectScope.TEMPORARY) == {}
    assert inspector.get_multi_table_comment(schema="other", **everything).keys() == {
        ("other", "nested"),
        ("other", "a view AS seen"),
    }
    assert inspector.get_multi_columns(filter_names=["none such", "PLAIN"]).keys() == {
        (None, "PLAIN")
    }


def test_metadata_reflects_tables_and_views(connection: Connection) -> None:
    metadata = MetaData()
    metadata.reflect(connection, views=True)
    metadata.reflect(connection, schema="other")
    assert sorted(metadata.tables) == ["adults", "other.nested", "plain"]


def test_the_open_transaction_sees_what_it_changed(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE kept (a INTEGER); CREATE TABLE gone (a INTEGER)"
        )
        connection.commit()
        connection.exec_driver_sql(
            "ALTER TABLE kept RENAME COLUMN a TO b; COMMENT ON TABLE kept IS 'new';"
            "DROP TABLE gone; CREATE TABLE made (a INTEGER)"
        )
        inspector = inspect(connection)
        assert inspector.get_table_names() == ["kept", "made"]
        assert not inspector.has_table("gone")
        assert inspector.get_columns("kept")[0]["name"] == "b"
        assert inspector.get_table_comment("kept") == {"text": "new"}
        connection.rollback()
        assert inspect(connection).get_table_names() == ["gone", "kept"]


def test_a_transaction_does_not_see_what_others_commit(engine: Engine) -> None:
    with engine.connect() as reader, engine.connect() as writer:
        assert inspect(reader).get_table_names() == []
        writer.exec_driver_sql("CREATE TABLE t (a INTEGER)")
        writer.commit()
        assert inspect(reader).get_table_names() == []
        assert not inspect(reader).has_table("t")
        reader.rollback()
        assert inspect(reader).get_table_names() == ["t"]


def test_a_temporary_table_hides_a_table_of_the_same_name(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE t (stored INTEGER)")
        connection.exec_driver_sql("CREATE TEMP TABLE t (fleeting INTEGER)")
        connection.exec_driver_sql("CREATE TEMP VIEW v AS SELECT 1 AS one")
        inspector = inspect(connection)
        assert [column["name"] for column in inspector.get_columns("t")] == ["fleeting"]
        assert [column["name"] for column in inspector.get_columns("t", "main")] == ["stored"]
        assert inspector.get_temp_view_names() == ["v"]
        assert inspector.has_table("v")


@pytest.mark.parametrize(
    "making",
    [
        ["CREATE TEMP TABLE plain (mine INTEGER)"],
        ["CREATE OR REPLACE TEMPORARY VIEW plain AS SELECT 1 AS mine"],
        ["CREATE TEMP TABLE plain AS PIVOT (SELECT 1 AS mine, 'x' AS a) ON a USING sum(mine)"],
    ],
)
def test_whatever_makes_a_temporary_table_is_noticed(engine: Engine, making: list[str]) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE plain (id INTEGER, name VARCHAR)")
        connection.commit()
        for statement in making:
            connection.exec_driver_sql(statement)
        connection.commit()
        assert {column["name"] for column in inspect(connection).get_columns("plain")} <= {
            "mine",
            "x",
        }


def test_what_is_asked_of_a_schema_does_not_grow_with_its_tables(engine: Engine) -> None:
    asked: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def ask(_: Any, __: Any, statement: str, *___: Any) -> None:
        asked.append(statement)

    def reflect(tables: int) -> list[str]:
        with engine.begin() as connection:
            for number in range(tables):
                connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS t{number} (id INTEGER)")
        asked.clear()
        MetaData().reflect(engine)
        inspect(engine).get_columns("t0")
        return list(asked)

    few, many = reflect(2), reflect(120)
    assert len(many) <= len(few) == 13
    assert "duckdb_" not in "".join(few + many)


def test_a_listing_that_was_kept_leaves_out_what_was_dropped_since(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE a (id INTEGER); CREATE TABLE b (id INTEGER)")
        connection.commit()
        inspector = inspect(connection)
        assert inspector.get_table_names() == ["a", "b"]
        connection.exec_driver_sql("DROP TABLE a")
        connection.commit()
        assert inspector.get_columns("b")[0]["name"] == "id"
        assert not inspector.has_table("a")


def test_a_view_whose_table_is_gone_does_not_disturb_the_others(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql(SCRIPT)
        connection.exec_driver_sql("CREATE TABLE base (a INTEGER)")
        connection.exec_driver_sql("CREATE VIEW broken AS SELECT a FROM base")
        connection.exec_driver_sql("DROP TABLE base")
        connection.commit()
        inspector = inspect(connection)
        assert inspector.get_view_names() == ["adults", "broken"]
        assert inspector.get_view_definition("broken") == "SELECT a FROM base"
        assert len(inspector.get_columns("adults")) == 2


def test_the_schema_of_the_address_is_the_default_one(engine: Engine, lake_url: URL) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(SCRIPT)
    engine.dispose()
    other = create_engine(lake_url.update_query_dict({"schema": "other"}))
    try:
        inspector = inspect(other)
        assert inspector.get_table_names() == ["nested"]
        assert inspector.has_table("nested")
        assert inspector.get_table_names("main") == ["plain"]
    finally:
        other.dispose()


def test_foreign_keys_name_the_schema_of_the_other_table(engine: Engine) -> None:
    metadata = MetaData()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA other")
        Table("near", metadata, Column("id", Integer, primary_key=True))
        Table("far", metadata, Column("id", Integer, primary_key=True), schema="other")
        for name, schema in [("here", None), ("there", "other")]:
            near, far = ForeignKey("near.id"), ForeignKey("other.far.id")
            Table(name, metadata, Column("n", near), Column("f", far), schema=schema)
        metadata.create_all(connection)

        def referred(name: str, schema: str | None) -> list[str | None]:
            found = inspect(connection).get_foreign_keys(name, schema=schema)
            by_column = {one["constrained_columns"][0]: one["referred_schema"] for one in found}
            return [by_column["n"], by_column["f"]]

        assert referred("here", None) == [None, "other"]
        assert referred("there", "other") == [None, "other"]
        assert referred("here", "main") == ["main", "other"]


def test_a_lake_in_its_past_is_reflected_as_it_was(
    lake_url: URL, connect: Callable[[], driver.Connection]
) -> None:
    with connect() as first:
        first.cursor().execute("CREATE TABLE t (a INTEGER)")
    with connect() as second:
        second.cursor().execute("ALTER TABLE t ADD COLUMN b INTEGER")
        cursor = second.cursor().execute("SELECT min(snapshot_id) + 1 FROM lake.snapshots()")
        (then,) = cursor.fetchone() or (None,)
    past = create_engine(lake_url.update_query_dict({"snapshot": str(then)}))
    try:
        assert [column["name"] for column in inspect(past).get_columns("t")] == ["a"]
    finally:
        past.dispose()
