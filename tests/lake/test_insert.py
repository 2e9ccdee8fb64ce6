"""INSERT: many rows are one statement, keys are kept, RETURNING and integer keys work."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    exc,
    func,
    insert,
    literal,
    select,
    text,
    update,
)

from sqlalchemy_ducklake import errors

Snapshots = Callable[[], int]
metadata = MetaData()
people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(30)),
    Column("pay", Numeric(10, 2)),
    Column("made", DateTime, server_default=func.now()),
    Column("kind", String, server_default="plain"),
)
pairs = Table(
    "pairs",
    metadata,
    Column("right", String, primary_key=True),
    Column("left", String, primary_key=True),
    Column("email", String),
    UniqueConstraint("email", name="one_email"),
)
unkeyed = Table("unkeyed", metadata, Column("pay", Numeric(10, 2)))
notes = Table("notes", metadata, Column("n", BigInteger), Column("text", String))


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


def rows(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(table).order_by(*table.c)).all())


def test_many_rows_are_one_file_and_one_snapshot(lake: Engine, snapshots: Snapshots) -> None:
    for table in (notes, people):
        before = snapshots()
        column = table.c[1].name
        with lake.begin() as connection:
            result = connection.execute(insert(table), [{column: f"x{n}"} for n in range(1000)])
            assert result.rowcount == 1000
            files = text("SELECT count(*) FROM ducklake_list_files('lake', :name)")
        assert snapshots() == before + 1
        with lake.connect() as connection:
            assert connection.scalar(files, {"name": table.name}) == 1
            assert connection.scalar(select(func.count()).select_from(table)) == 1000


def test_integer_keys_are_counted_up_and_told(lake: Engine) -> None:
    with lake.begin() as connection:
        assert connection.execute(insert(people), {"name": "a"}).inserted_primary_key == (1,)
        connection.execute(insert(people), {"id": 10, "name": "b"})
        connection.execute(insert(people), [{"name": "c"}, {"name": "d"}])
        connection.execute(insert(people), [{"id": None, "name": "e"}, {"id": 20, "name": "f"}])
        connection.execute(insert(people).from_select(["name"], select(people.c.name + "!")))
    found = [(row.id, row.name) for row in rows(lake, people)]
    assert found[:6] == [(1, "a"), (10, "b"), (11, "c"), (12, "d"), (20, "f"), (21, "e")]
    assert [number for number, _ in found[6:]] == list(range(22, 28))


def test_returning_gives_rows_in_the_order_of_the_parameter_sets(lake: Engine) -> None:
    statement = insert(people).returning(
        people.c.id, (people.c.name + "!").label("loud"), people.c.kind
    )
    names = [f"n{number % 7}-{number}" for number in range(300)]
    with lake.begin() as connection:
        found = connection.execute(statement, [{"name": name} for name in names]).all()
    assert [row.loud for row in found] == [f"{name}!" for name in names]
    assert [row.id for row in found] == list(range(1, 301))
    assert {row.kind for row in found} == {"plain"}


def test_a_parameter_inside_returning_belongs_to_its_own_set(lake: Engine) -> None:
    statement = insert(notes).returning(notes.c.n + bindparam("plus", type_=Integer))
    with lake.begin() as connection:
        sets = [{"n": 1, "plus": 10}, {"n": 2, "plus": 20}, {"n": 3, "plus": 30}]
        assert connection.scalars(statement, sets).all() == [11, 22, 33]
        assert connection.scalar(statement, {"n": 5, "plus": 7}) == 12


def test_defaults_of_the_lake_are_stored_and_returned_alike(lake: Engine) -> None:
    with lake.begin() as connection:
        made = connection.scalar(insert(people).returning(people.c.made), {"name": "a"})
        connection.execute(insert(people), {"name": "b"})
    assert isinstance(made, dt.datetime)
    first, second = rows(lake, people)
    assert first.made == made
    assert (second.kind, type(second.made)) == ("plain", dt.datetime)


def test_a_default_that_only_the_lake_knows_is_not_overwritten(lake: Engine) -> None:
    partial = Table("people", MetaData(), Column("id", Integer, primary_key=True))
    with lake.begin() as connection:
        connection.execute(insert(partial), [{"id": 1}, {"id": 2}])
    assert [row.kind for row in rows(lake, people)] == ["plain", "plain"]


@pytest.mark.parametrize(
    "given",
    [
        [{"id": 1, "name": "again"}],
        [{"id": 5, "name": "a"}, {"id": 5, "name": "b"}],
        [{"id": 6, "name": "a"}, {"id": 1, "name": "b"}],
    ],
)
def test_a_key_twice_is_refused_by_name_and_the_transaction_goes_on(
    lake: Engine, given: list[dict[str, Any]]
) -> None:
    with lake.begin() as connection:
        connection.execute(insert(people), {"id": 1, "name": "first"})
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(insert(people), given)
        connection.execute(insert(people), {"id": 2, "name": "second"})
    violation = caught.value.orig
    assert isinstance(violation, errors.KeyViolation)
    assert (violation.table, violation.columns) == ("people", ("id",))
    assert violation.examples == ((given[-1]["id"],),)
    assert [row.name for row in rows(lake, people)] == ["first", "second"]


def test_a_named_unique_constraint_is_kept_and_null_takes_no_part(lake: Engine) -> None:
    def row(name: str, email: str | None) -> dict[str, Any]:
        return {"right": name, "left": "l", "email": email}

    with lake.begin() as connection:
        connection.execute(insert(pairs), [row("a", "x"), row("b", None), row("c", None)])
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(insert(pairs), row("d", "x"))
    assert isinstance(caught.value.orig, errors.KeyViolation)
    assert caught.value.orig.constraint == "one_email"
    assert len(rows(lake, pairs)) == 3


def test_null_in_a_key_is_refused_before_the_engine_sees_it(lake: Engine) -> None:
    with lake.begin() as connection:
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(insert(pairs), [{"right": "a", "left": None}])
        connection.execute(insert(pairs), {"right": "a", "left": "b"})
    assert isinstance(caught.value.orig, errors.NullKey)
    assert caught.value.orig.column == "left"


def test_composite_keys_are_compared_column_by_column(lake: Engine) -> None:
    with lake.begin() as connection:
        given = [("a|b", "c"), ("a", "b|c"), ("a", ""), ("", "a")]
        connection.execute(insert(pairs), [{"right": r, "left": x} for r, x in given])
    assert len(rows(lake, pairs)) == 4


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("pay", [Decimal("1.005"), Decimal("123456789"), 0.001])
def test_a_decimal_that_would_be_rounded_is_refused(
    lake: Engine, pay: Any, *, many: bool
) -> None:
    given = {"name": "a", "pay": pay}
    with lake.begin() as connection:
        with pytest.raises(exc.DataError) as caught:
            connection.execute(insert(people), [given, given] if many else given)
        connection.execute(insert(people), {"name": "b", "pay": Decimal("1.10")})
    assert isinstance(caught.value.orig, errors.ValueRefused)
    assert caught.value.orig.column == "pay"
    assert [row.pay for row in rows(lake, people)] == [Decimal("1.10")]


@pytest.mark.parametrize("pay", [Decimal("1.005"), Decimal("123456789"), float("nan")])
def test_a_plain_insert_or_update_refuses_what_would_be_rounded_too(
    lake: Engine, pay: Any
) -> None:
    statements: list[Any] = [
        insert(unkeyed).values(pay=pay),
        update(unkeyed).values(pay=pay),
        update(people).where(people.c.id == 1).values(pay=pay),
    ]
    with lake.begin() as connection:
        connection.execute(insert(people), {"name": "a", "pay": Decimal(1)})
        connection.execute(insert(unkeyed), {"pay": Decimal(1)})
        for statement in statements:
            with pytest.raises(exc.DataError) as caught:
                connection.execute(statement)
            assert isinstance(caught.value.orig, errors.ValueRefused)
        with pytest.raises(exc.DataError):
            connection.execute(update(unkeyed), {"pay": pay})
    assert [row.pay for row in rows(lake, people)] == [1]
    assert rows(lake, unkeyed) == [(1,)]


def test_a_comparison_with_what_no_column_could_hold_is_no_error(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(people), {"name": "a", "pay": Decimal("1.10")})
        above = people.c.pay > Decimal("1.0999")
        assert connection.execute(update(people).where(above).values(name="b")).rowcount == 1
        assert connection.scalar(select(people.c.name).where(people.c.id < 2**40)) == "b"


def test_rows_from_select_values_and_cte_are_inserted(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(notes).values([{"n": 1, "text": "a"}, {"n": 2, "text": "b"}]))
        connection.execute(insert(people).values([{"name": "v1"}, {"name": "v2"}]))
        source = select(notes.c.text.label("name")).where(notes.c.n > 1).cte("source")
        connection.execute(insert(people).from_select(["name"], select(source.c.name)))
        connection.execute(
            insert(notes).from_select(["n", "text"], select(notes.c.n + 10, literal("z")))
        )
    assert [row.name for row in rows(lake, people)] == ["v1", "v2", "b"]
    assert [row.n for row in rows(lake, notes)] == [1, 2, 11, 12]


def test_a_row_of_defaults_can_be_inserted(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(people), {})
        connection.execute(insert(people).values())
    assert [(row.id, row.kind) for row in rows(lake, people)] == [(1, "plain"), (2, "plain")]


def test_columns_whose_names_look_like_ours_or_differ_in_case_of_parameters(
    engine: Engine,
) -> None:
    odd = Table(
        "sequence",
        MetaData(),
        Column("seq", Integer, primary_key=True),
        Column("kind", String),
        Column("rank", String),
        Column("p0", String),
        Column("given", String),
        Column("a%b", String),
        Column("first", String),
    )
    odd.create(engine)
    names = [column.name for column in odd.c]
    with engine.begin() as connection:
        connection.execute(insert(odd), [dict.fromkeys(names[1:], str(n)) for n in range(3)])
        found = connection.execute(insert(odd).returning(odd), {"kind": "x"}).one()
    assert tuple(found) == (4, "x", None, None, None, None, None)
    assert rows(engine, odd)[0] == (1, *["0"] * 6)


def test_s20_nothing_of_a_script_stays_behind(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(people), [{"name": "a"}, {"name": "b"}])
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(people).returning(people.c.id), {"id": 1})
        left = connection.execute(
            # A write scope, if one is on, keeps its log to the end of the transaction.
            text(
                "SELECT table_name FROM duckdb_tables() "
                "WHERE temporary AND NOT starts_with(table_name, '_log')"
            )
        ).all()
        assert left == []
        views = (
            "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal "
            "AND NOT starts_with(view_name, '_log')"
        )
        assert connection.execute(text(views)).all() == []


def test_no_rows_are_no_snapshot(lake: Engine, snapshots: Snapshots) -> None:
    before = snapshots()
    with lake.begin() as connection:
        empty = select(notes.c.text).where(notes.c.n < 0)
        assert connection.execute(insert(people).from_select(["name"], empty)).rowcount == 0
    assert snapshots() == before
