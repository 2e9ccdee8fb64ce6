"""Tables, keys and comments made on a real lake, and what other tools do to them."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    CHAR,
    NVARCHAR,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    Enum,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    exc,
    func,
    insert,
    inspect,
    schema,
    select,
    text,
)
from sqlalchemy.schema import CreateSchema, CreateTable

from sqlalchemy_ducklake import errors

Snapshots = Callable[[], int]


def accounts(metadata: MetaData | None = None, **options: Any) -> Table:
    return Table(
        "accounts",
        metadata or MetaData(),
        Column("region", String, comment="where it is kept"),
        Column("number", Integer),
        Column("owner", String, comment="a; b 'c'\nand more"),
        PrimaryKeyConstraint("number", "region", name="the key"),
        comment="all accounts",
        **options,
    )


def test_a_table_with_key_and_comments_is_one_snapshot(
    engine: Engine, snapshots: Snapshots
) -> None:
    before = snapshots()
    accounts().create(engine)
    assert snapshots() == before + 1
    inspector = inspect(engine)
    assert inspector.get_pk_constraint("accounts") == {
        "constrained_columns": ["number", "region"],
        "name": "the key",
    }
    comments = {each["name"]: each["comment"] for each in inspector.get_columns("accounts")}
    assert comments == {
        "region": "where it is kept",
        "number": None,
        "owner": "a; b 'c'\nand more",
    }
    assert inspector.get_table_comment("accounts") == {"text": "all accounts"}


def test_create_all_of_many_tables_is_one_snapshot(
    engine: Engine, snapshots: Snapshots
) -> None:
    metadata = MetaData()
    for name in "abc":
        Table(
            name,
            metadata,
            Column("id", Integer, primary_key=True),
            Column("n", Integer, index=True),
        )
    before = snapshots()
    metadata.create_all(engine)
    assert snapshots() == before + 1
    metadata.create_all(engine)
    assert snapshots() == before + 1


def test_creation_in_a_transaction_is_undone_by_its_rollback(engine: Engine) -> None:
    with engine.connect() as connection:
        accounts().create(connection)
        connection.rollback()
        assert not inspect(connection).has_table("accounts")
        accounts().create(connection)
        connection.commit()
    assert inspect(engine).has_table("accounts")


def test_s46_edge_14_a_creation_that_fails_at_its_end_leaves_nothing(engine: Engine) -> None:
    broken = accounts()
    create = str(schema.CreateTable(broken).compile(engine))
    with engine.connect() as connection, pytest.raises(exc.DBAPIError):
        connection.exec_driver_sql(f"{create};\nSELECT no_such_column FROM accounts")
    assert not inspect(engine).has_table("accounts")
    broken.create(engine)
    assert inspect(engine).get_pk_constraint("accounts")["name"] == "the key"


def test_the_key_follows_its_columns_through_renames(engine: Engine) -> None:
    accounts().create(engine)
    # DuckLake 1.5.5 ruins a lake in which a table is altered and then renamed in one
    # transaction; so each change has its own here.
    for change in (
        "ALTER TABLE accounts RENAME COLUMN number TO no",
        "ALTER TABLE accounts RENAME TO ledger",
        "ALTER TABLE ledger ALTER no TYPE BIGINT",
        "ALTER TABLE ledger ADD COLUMN more INTEGER",
    ):
        with engine.begin() as connection:
            connection.exec_driver_sql(change)
    key = inspect(engine).get_pk_constraint("ledger")
    assert key == {"constrained_columns": ["no", "region"], "name": "the key"}


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("COMMENT ON COLUMN accounts.number IS NULL", "has the ordinal 0"),
        ("ALTER TABLE accounts DROP COLUMN number", "no column of the key has the ordinal 0"),
        ("ALTER TABLE accounts ALTER number DROP NOT NULL", "must be NOT NULL"),
        (
            "COMMENT ON COLUMN accounts.number IS 'sqlalchemy-ducklake:primary-key:v1:01'",
            "'01' is not an ordinal",
        ),
        (
            "COMMENT ON COLUMN accounts.number IS 'sqlalchemy-ducklake:primary-key:v9:0'",
            "another version",
        ),
        (
            "COMMENT ON TABLE accounts IS 'sqlalchemy-ducklake:constraints:v1:{'",
            "malformed tag",
        ),
    ],
)
def test_a_damaged_tag_is_told_and_its_table_skipped(
    engine: Engine, damage: str, says: str
) -> None:
    accounts().create(engine)
    Table("sound", MetaData(), Column("id", Integer, primary_key=True)).create(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(damage)
    with pytest.raises(
        exc.UnreflectableTableError, match=f"(?s)accounts.*{says}|{says}.*accounts"
    ):
        Table("accounts", MetaData(), autoload_with=engine)
    metadata = MetaData()
    with pytest.warns(exc.SAWarning, match="Skipping table accounts"):
        metadata.reflect(engine)
    assert list(metadata.tables) == ["sound"]


def test_constraints_are_reflected_as_they_were_declared(engine: Engine) -> None:
    metadata = MetaData()
    Table("parent", metadata, Column("id", Integer, primary_key=True))
    Table(
        "child",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("parent_id", ForeignKey("parent.id", name="fk", ondelete="CASCADE")),
        Column("mail", String, unique=True),
        CheckConstraint("id > 0", name="positive"),
        UniqueConstraint("parent_id", "mail", name="uq"),
        Index("ix", "mail", text("lower(mail)"), unique=True),
    )
    metadata.create_all(engine)
    again = MetaData()
    again.reflect(engine)
    child = again.tables["child"]
    (foreign,) = child.foreign_key_constraints
    assert (foreign.name, foreign.ondelete, foreign.referred_table.name) == (
        "fk",
        "CASCADE",
        "parent",
    )
    inspector = inspect(engine)
    assert inspector.get_unique_constraints("child") == [
        {"name": None, "column_names": ["mail"]},
        {"name": "uq", "column_names": ["parent_id", "mail"]},
    ]
    assert inspector.get_check_constraints("child") == [
        {"name": "positive", "sqltext": "id > 0"}
    ]
    (index,) = inspector.get_indexes("child")
    assert (index["name"], index["unique"]) == ("ix", True)
    assert index["column_names"] == ["mail", None]
    assert index["expressions"] == ["mail", "lower(mail)"]


def test_how_an_index_sorts_and_what_it_carries_along_is_reflected(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("a", Integer), Column("b", Integer))
    Index("ix", table.c.a.desc().nulls_last(), table.c.b, ducklake_include=["b"])
    table.create(engine)
    (index,) = inspect(engine).get_indexes("t")
    assert index["column_names"] == ["a", "b"]
    assert index["column_sorting"]["a"] == ("desc", "nulls_last")  # type: ignore[comparison-overlap]
    assert index["dialect_options"] == {"ducklake_include": ["b"]}


def test_lengths_of_text_are_reflected_until_the_column_is_another(engine: Engine) -> None:
    kinds = (String(30), CHAR(2), NVARCHAR(5), String(), Enum("a", "bb"))
    columns = (Column(f"c{number}", kind) for number, kind in enumerate(kinds))
    Table("t", MetaData(), *columns).create(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE t RENAME COLUMN c0 TO other")
    found = [column["type"] for column in inspect(engine).get_columns("t")]
    assert [(type(kind).__name__, getattr(kind, "length", None)) for kind in found] == [
        ("VARCHAR", None),
        ("CHAR", 2),
        ("NVARCHAR", 5),
        ("VARCHAR", None),
        ("VARCHAR", None),
    ]


def test_an_identity_is_reflected_with_all_its_options(engine: Engine) -> None:
    Table("t", MetaData(), Column("a", SmallInteger, Identity(start=5))).create(engine)
    (column,) = inspect(engine).get_columns("t")
    assert column["identity"] == {
        "always": False,
        "start": 5,
        "increment": 1,
        "minvalue": 1,
        "maxvalue": 32767,
        "cycle": False,
        "cache": 1,
    }


def test_if_not_exists_leaves_the_keys_of_a_table_that_is_there(engine: Engine) -> None:
    old = Table("t", MetaData(), Column("a", Integer, primary_key=True), comment="old")
    new = Table("T", MetaData(), Column("b", Integer, primary_key=True), comment="new")
    with engine.begin() as connection:
        connection.execute(CreateTable(old, if_not_exists=True))
        assert inspect(connection).has_table("t")
        connection.execute(CreateTable(new, if_not_exists=True))
    inspector = inspect(engine)
    assert inspector.get_pk_constraint("t")["constrained_columns"] == ["a"]
    assert inspector.get_table_comment("t")["text"] == "old"


def test_a_name_that_no_folder_can_have_is_refused(engine: Engine) -> None:
    fits, odd, temporary = "a" * 255, "ä" * 400, "t" * 400
    with engine.begin() as connection:
        with pytest.raises(errors.NameTooLong) as caught:
            Table("b" * 256, MetaData(), Column("id", Integer)).create(connection)
        error = caught.value
        assert (error.kind, error.found, error.expected) == ("table", 256, 255)
        with pytest.raises(errors.NameTooLong, match="the schema"):
            connection.execute(CreateSchema("s" * 256))
        for name in (fits, odd):
            Table(name, MetaData(), Column("id", Integer)).create(connection)
            connection.exec_driver_sql(f"INSERT INTO {name} SELECT range FROM range(20)")
        Table(temporary, MetaData(), Column("id", Integer), prefixes=["TEMPORARY"]).create(
            connection
        )
    assert inspect(engine).get_table_names() == [fits, odd]


def test_a_foreign_key_into_a_translated_schema_is_kept_under_its_real_name(
    engine: Engine,
) -> None:
    metadata = MetaData()
    Table("parent", metadata, Column("id", Integer, primary_key=True), schema="there")
    Table("child", metadata, Column("parent_id", ForeignKey("there.parent.id")))
    translated = engine.execution_options(schema_translate_map={"there": "an other"})
    with translated.begin() as connection:
        connection.execute(CreateSchema("an other"))
        metadata.create_all(connection)
    (foreign,) = inspect(engine).get_foreign_keys("child")
    assert foreign["referred_schema"] == "an other"


def test_a_constraint_whose_column_another_tool_renamed_is_told(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("a", Integer), UniqueConstraint("a", name="uq"))
    table.create(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE t RENAME COLUMN a TO b")
    with pytest.raises(exc.UnreflectableTableError, match=r"unique constraint 'uq'.*'t'.*'a'"):
        inspect(engine).get_unique_constraints("t")


def test_foreign_keys_in_a_circle_are_created_and_dropped(engine: Engine) -> None:
    metadata = MetaData()
    for one, other in ("ab", "ba"):
        Table(
            one,
            metadata,
            Column("id", Integer, primary_key=True),
            Column("other_id", ForeignKey(f"{other}.id", name=f"fk_{one}")),
        )
    for _ in range(2):
        metadata.create_all(engine)
        names = [inspect(engine).get_foreign_keys(name)[0]["name"] for name in "ab"]
        assert names == ["fk_a", "fk_b"]
        metadata.drop_all(engine)
        assert inspect(engine).get_table_names() == []


def test_an_index_comes_and_goes(engine: Engine) -> None:
    table = Table("t", MetaData(), Column("a", Integer), comment="kept")
    table.create(engine)
    index = Index("ix", table.c.a)
    index.create(engine)
    assert inspect(engine).has_index("t", "ix")
    index.drop(engine)
    assert not inspect(engine).has_index("t", "ix")
    assert inspect(engine).get_table_comment("t") == {"text": "kept"}


def test_comments_change_and_the_key_stays(engine: Engine) -> None:
    table = accounts()
    table.create(engine)
    table.comment, table.c.number.comment = "new", "new too"
    with engine.begin() as connection:
        connection.execute(schema.SetTableComment(table))
        connection.execute(schema.SetColumnComment(table.c.number))
        connection.execute(schema.DropColumnComment(table.c.region))
    again = Table("accounts", MetaData(), autoload_with=engine)
    assert (again.comment, again.c.number.comment, again.c.region.comment) == (
        "new",
        "new too",
        None,
    )
    assert [column.name for column in again.primary_key] == ["number", "region"]


def test_a_comment_on_a_column_that_is_gone_harms_nothing(engine: Engine) -> None:
    table = accounts()
    table.create(engine)
    with engine.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE accounts DROP COLUMN owner")
        with pytest.raises(exc.ProgrammingError, match="owner"):
            connection.execute(schema.SetColumnComment(table.c.owner))
        assert connection.scalar(select(func.count()).select_from(table)) == 0


def test_defaults_fill_columns_that_are_not_given(engine: Engine) -> None:
    table = Table(
        "t",
        MetaData(),
        Column("id", Integer),
        Column("n", Integer, server_default="5"),
        Column("word", String, server_default="NULL"),
        Column("mood", String, server_default="it's fine"),
        Column("sum", Integer, server_default=text("1 + 2")),
    )
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(insert(table), {"id": 1})
        assert connection.execute(select(table)).one() == (1, 5, "NULL", "it's fine", 3)


def test_a_temporary_table_is_only_of_its_connection(engine: Engine) -> None:
    table = Table(
        "t",
        MetaData(),
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("n", Integer, CheckConstraint("n > 0"), unique=True),
        prefixes=["TEMPORARY"],
    )
    with engine.connect() as connection:
        table.create(connection)
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 1)")
        inspector = inspect(connection)
        assert inspector.get_temp_table_names() == ["t"]
        assert inspector.get_table_names() == []
        assert inspector.get_pk_constraint("t")["constrained_columns"] == ["id"]
        assert inspector.get_unique_constraints("t")[0]["column_names"] == ["n"]
        assert inspector.get_check_constraints("t")[0]["sqltext"] == "n > 0"
        with pytest.raises(exc.IntegrityError):
            connection.exec_driver_sql("INSERT INTO t VALUES (1, 2)")


@pytest.mark.parametrize(
    "name",
    [
        "select",
        "Mixed Case",
        "dot.ted",
        'say "hi"',
        "it's",
        "50%",
        "größe",
        "a;b",
        "$1",
        ":x",
        "x" * 255,
    ],
)
def test_any_name_will_do(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        connection.execute(schema.CreateSchema(name))
        table = Table(
            name,
            MetaData(),
            Column(name, Integer, primary_key=True, comment=name),
            UniqueConstraint(name, name=name),
            schema=name,
            comment=name,
        )
        table.create(connection)
        again = Table(name, MetaData(), schema=name, autoload_with=connection)
        assert again.primary_key.columns.keys() == [name]
        assert (again.comment, again.c[name].comment) == (name, name)
        table.drop(connection)
        connection.execute(schema.DropSchema(name))


def test_schemas_are_translated_in_tags_too(engine: Engine) -> None:
    metadata = MetaData()
    Table("parent", metadata, Column("id", Integer, primary_key=True), schema="a")
    Table("child", metadata, Column("p", ForeignKey("a.parent.id")), schema="b")
    with engine.begin() as connection:
        for name in ("x", "y"):
            connection.execute(schema.CreateSchema(name))
        translated = connection.execution_options(schema_translate_map={"a": "x", "b": "y"})
        metadata.create_all(translated)
    (foreign,) = inspect(engine).get_foreign_keys("child", schema="y")
    assert foreign["referred_schema"] == "x"


def keyed_by_another_writer(connection: Connection) -> None:
    connection.exec_driver_sql("CREATE TABLE t (a INTEGER NOT NULL, b INTEGER NOT NULL)")
    connection.exec_driver_sql("COMMENT ON COLUMN t.a IS 'sixb:primary-key:v1:1'")
    connection.exec_driver_sql("COMMENT ON COLUMN t.b IS 'sixb:primary-key:v1:0'")


def test_the_key_of_another_writer_is_a_key(engine: Engine) -> None:
    with engine.begin() as connection:
        keyed_by_another_writer(connection)
    table = Table("t", MetaData(), autoload_with=engine)
    assert table.primary_key.columns.keys() == ["b", "a"]
    assert table.c.a.comment is None
