"""What data definition is compiled to, and what is refused before the engine sees it."""

from typing import Any

import pytest
from sqlalchemy import (
    CheckConstraint,
    Column,
    Computed,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    Sequence,
    String,
    Table,
    UniqueConstraint,
    exc,
    func,
    schema,
    text,
    types,
)

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.dialect import types as lake
from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
from sqlalchemy_ducklake.driver.script import Role

KEY = "sqlalchemy-ducklake:primary-key:v1:"
CONSTRAINTS = "sqlalchemy-ducklake:constraints:v1:"


def compiled(element: Any, **options: Any) -> str:
    return str(element.compile(dialect=DuckLakeDialect(), **options))


def table(*items: Any, **options: Any) -> Table:
    return Table("t", MetaData(), *items, **options)


def created(*items: Any, **options: Any) -> str:
    return compiled(schema.CreateTable(table(*items, **options)))


def test_a_plain_table_is_one_statement() -> None:
    assert created(Column("n", Integer), Column("order", String)) == (
        'CREATE TABLE t (\n\tn INTEGER, \n\t"order" VARCHAR\n)'
    )


def test_a_key_is_not_null_and_a_tag_behind_the_comment() -> None:
    script = created(
        Column("a", Integer, comment="it's a number"),
        Column("b", String(10), nullable=True),
        PrimaryKeyConstraint("b", "a", name="my key"),
        schema="s",
        comment="the table",
    )
    types_tag = CONSTRAINTS + '{"types": {"b": "VARCHAR(10)"}}'
    assert script == (
        "CREATE TABLE s.t (\n\ta INTEGER NOT NULL, \n\tb VARCHAR(10) NOT NULL\n);\n"
        f"COMMENT ON TABLE s.t IS 'the table\n{types_tag}';\n"
        f"COMMENT ON COLUMN s.t.a IS 'it''s a number\n{KEY}1';\n"
        f"COMMENT ON COLUMN s.t.b IS '{KEY}0:my%20key'"
    )


def test_defaults_are_kept() -> None:
    script = created(
        Column("a", Integer, server_default="5"),
        Column("b", String, server_default="it's"),
        Column("c", Integer, server_default=text("1 + 2"), nullable=False),
        Column("d", String, server_default=func.lower("X")),
    )
    assert "a INTEGER DEFAULT '5'" in script
    assert "b VARCHAR DEFAULT 'it''s'" in script
    assert "c INTEGER DEFAULT 1 + 2 NOT NULL" in script
    assert "d VARCHAR DEFAULT lower('X')" in script


def test_all_other_constraints_are_in_the_tag_of_the_table() -> None:
    metadata = MetaData(
        naming_convention={
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ix": "ix_%(table_name)s",
        }
    )
    Table("parent", metadata, Column("id", Integer, primary_key=True), schema="other")
    child = Table(
        "child",
        metadata,
        Column("id", Integer, Identity(start=7), primary_key=True),
        Column("parent_id", ForeignKey("other.parent.id", name="fk", ondelete="CASCADE")),
        Column("self_id", ForeignKey("child.id", use_alter=True, name="fk_self")),
        Column("n", Integer, CheckConstraint("n > 0"), index=True, unique=True),
        CheckConstraint("n < id", name="less"),
        UniqueConstraint("n", "id"),
        Index("lower_ix", text("lower(n)")),
    )
    script = compiled(schema.CreateTable(child))
    (line,) = [line for line in script.split("\n") if line.startswith("COMMENT ON TABLE")]
    tag = line.removeprefix("COMMENT ON TABLE child IS '").removesuffix("';")
    assert keys.constraints("child", tag) == keys.Constraints(
        unique=(keys.Unique(("n", "id"), "uq_child_n"),),
        foreign_keys=(
            keys.ForeignKey(
                ("parent_id",), "parent", ("id",), "other", "fk", {"ondelete": "CASCADE"}
            ),
            keys.ForeignKey(("self_id",), "child", ("id",), None, "fk_self"),
        ),
        checks=(keys.Check("n > 0"), keys.Check("n < id", "less")),
        identity={"id": {"start": 7, "always": False}},
    )


def test_an_index_comes_into_the_tag_when_it_is_created() -> None:
    one = table(Column("n", Integer, index=True))
    (index,) = one.indexes
    assert CONSTRAINTS not in compiled(schema.CreateTable(one))
    tag = f'{CONSTRAINTS}{{"indexes": [{{"name": "ix_t_n", "columns": ["n"]}}]}}'
    assert compiled(schema.CreateIndex(index)) == f"COMMENT ON TABLE t IS '{tag}'"
    assert compiled(schema.DropIndex(index)) == "COMMENT ON TABLE t IS NULL"


def test_the_tag_of_a_table_is_always_the_same_text() -> None:
    def one() -> str:
        return created(
            Column("a", Integer),
            *(CheckConstraint(f"a > {n}") for n in range(9)),
            *(UniqueConstraint("a", name=f"u{n}") for n in range(9)),
        )

    assert len({one() for _ in range(5)}) == 1


def test_a_temporary_table_has_the_constraints_of_the_engine() -> None:
    script = created(
        Column("a", Float, CheckConstraint("a > 0"), primary_key=True, comment="plain"),
        UniqueConstraint("a"),
        prefixes=["TEMPORARY"],
    )
    assert "PRIMARY KEY (a)" in script
    assert "UNIQUE (a)" in script
    assert "CHECK (a > 0)" in script
    # The engine forgets the names of constraints, so temporary tables have tags too.
    assert script.endswith(f"COMMENT ON COLUMN t.a IS 'plain\n{KEY}0'")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (types.Float(), "DOUBLE cannot be a key: equality of floats"),
        (types.REAL(), "FLOAT cannot be a key: equality of floats"),
        (types.JSON(), "JSON cannot be a key"),
        (lake.VARIANT(), "VARIANT cannot be a key"),
        (lake.GEOMETRY(), "GEOMETRY cannot be a key"),
        (types.Interval(), "INTERVAL cannot be a key"),
        (types.ARRAY(Integer), "nested value cannot be a key"),
        (lake.STRUCT({"a": Integer}), "nested value cannot be a key"),
        (lake.MAP(String, Integer), "nested value cannot be a key"),
    ],
    ids=repr,
)
def test_s43_a_key_of_a_type_without_exact_equality_is_refused(kind: Any, reason: str) -> None:
    with pytest.raises(exc.CompileError, match=f"in table 't', column 'k'.*{reason}"):
        created(Column("k", kind, primary_key=True))


@pytest.mark.parametrize(
    "kind",
    [
        Integer(),
        lake.HUGEINT(),
        Numeric(10, 2),
        types.Boolean(),
        String(),
        types.Uuid(),
        LargeBinary(),
        types.Date(),
        types.Time(),
        types.DateTime(),
        types.DateTime(timezone=True),
        types.Enum("a"),
    ],
    ids=repr,
)
def test_s43_a_key_of_an_exact_type_is_taken(kind: Any) -> None:
    assert "NOT NULL" in created(Column("k", kind, primary_key=True))


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([Column("c", Integer, Computed("1", persisted=False))], "column 'c'.*stores what it"),
        ([Column("c", Numeric(40, 2))], "column 'c'.*cannot be stored"),
        ([Column("c", String(collation="C"))], "column 'c'.*no collations"),
        ([Column("c", Integer, comment=f"{KEY}0")], "column 'c' of table 't'.*tag"),
        ([Column("c", Integer, comment="x\nsqlalchemy-ducklake:y")], "column 'c' of table 't'"),
    ],
)
def test_what_a_lake_has_not_is_refused_by_name(items: list[Any], reason: str) -> None:
    with pytest.raises(exc.CompileError, match=reason):
        created(*items)


def test_a_table_comment_that_would_read_as_a_tag_is_refused() -> None:
    with pytest.raises(exc.CompileError, match="table 't'"):
        created(Column("c", Integer), comment=f"{CONSTRAINTS}{{}}")


def test_with_if_not_exists_the_tags_are_written_only_if_the_table_was_missing() -> None:
    plain, keyed = table(Column("a", Integer)), table(Column("a", Integer, primary_key=True))
    assert "IF NOT EXISTS" in compiled(schema.CreateTable(plain, if_not_exists=True))
    element = schema.CreateTable(keyed, if_not_exists=True)
    script = element.compile(dialect=DuckLakeDialect()).script  # type: ignore[attr-defined]
    assert [(step.role, step.when) for step in script.steps] == [
        (Role.COUNTS, ()),
        (Role.RUN, ()),
        (Role.RUN, ("missing",)),
    ]


def test_sequences_are_refused() -> None:
    for element in (schema.CreateSequence(Sequence("s")), schema.DropSequence(Sequence("s"))):
        with pytest.raises(exc.CompileError, match="no sequences, so 's'"):
            compiled(element)


def test_comments_keep_the_tags_behind_them() -> None:
    one = table(
        Column("a", Integer, primary_key=True, comment="new"),
        UniqueConstraint("a", name="u"),
        comment="new",
    )
    tag = f'{CONSTRAINTS}{{"unique": [{{"columns": ["a"], "name": "u"}}]}}'
    assert compiled(schema.SetTableComment(one)) == f"COMMENT ON TABLE t IS 'new\n{tag}'"
    assert compiled(schema.DropTableComment(one)) == f"COMMENT ON TABLE t IS '{tag}'"
    guard = "SELECT a FROM t WHERE false;\n"
    set_column = compiled(schema.SetColumnComment(one.c.a))
    assert set_column == f"{guard}COMMENT ON COLUMN t.a IS 'new\n{KEY}0'"
    drop_column = compiled(schema.DropColumnComment(one.c.a))
    assert drop_column == f"{guard}COMMENT ON COLUMN t.a IS '{KEY}0'"


def test_constraints_and_indexes_come_and_go_in_the_tag() -> None:
    one = table(Column("a", Integer), Index("i", "a"), UniqueConstraint("a", name="u"))
    (index,) = one.indexes
    (unique,) = [each for each in one.constraints if isinstance(each, UniqueConstraint)]
    whole = compiled(schema.CreateIndex(index))
    assert whole == compiled(schema.AddConstraint(unique))
    assert '"name": "i"' in whole
    assert '"name": "u"' in whole
    assert '"name": "i"' not in compiled(schema.DropIndex(index))
    assert '"name": "u"' not in compiled(schema.DropConstraint(unique))


def test_a_constraint_that_was_added_alone_stays_with_its_table() -> None:
    one = table(Column("a", Integer), UniqueConstraint("a", name="u"), CheckConstraint("a > 0"))
    before = compiled(schema.CreateTable(one))
    for constraint in one.constraints - {one.primary_key}:
        compiled(schema.AddConstraint(constraint))
        compiled(schema.DropConstraint(constraint))
    assert compiled(schema.CreateTable(one)) == before


def test_a_constraint_for_another_database_is_left_out() -> None:
    constraint = CheckConstraint("a > 0").ddl_if(dialect="postgresql")
    assert "CHECK" not in created(Column("a", Integer), constraint).upper()


def test_the_check_of_an_enum_is_kept_if_the_user_wants_one() -> None:
    wanted, not_wanted = (types.Enum("x", name="e", create_constraint=c) for c in (True, False))
    assert "e IN (''x'')" in created(Column("e", wanted))
    assert "checks" not in created(Column("e", not_wanted))


def test_a_primary_key_cannot_be_added_or_dropped_alone() -> None:
    one = table(Column("a", Integer, primary_key=True))
    for element in (
        schema.AddConstraint(one.primary_key),
        schema.DropConstraint(one.primary_key),
    ):
        with pytest.raises(exc.CompileError, match="primary key of table 't' is made with"):
            compiled(element)


def test_the_tag_is_not_written_from_a_table_that_is_half_known() -> None:
    half = table(Column("a", types.NullType()), Index("i", "a"), comment="new")
    empty = table(comment="new")
    for element in (
        schema.CreateIndex(next(iter(half.indexes))),
        schema.SetTableComment(half),
        schema.SetTableComment(empty),
        schema.DropTableComment(empty),
    ):
        with pytest.raises(exc.CompileError, match="not known completely"):
            compiled(element)


def test_a_foreign_key_to_a_translated_schema_names_the_real_one() -> None:
    metadata = MetaData()
    Table("parent", metadata, Column("id", Integer, primary_key=True), schema="a")
    child = Table("child", metadata, Column("p", Integer), schema="b")
    child.append_constraint(ForeignKeyConstraint(["p"], ["a.parent.id"]))
    script = compiled(
        schema.CreateTable(child),
        schema_translate_map={"a": "x", "b": "y"},
        render_schema_translate=True,
    )
    assert '"schema": "x"' in script
    assert "COMMENT ON TABLE y.child" in script
