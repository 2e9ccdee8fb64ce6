"""Foreign keys, checks and unique keys: refused before anything is written, on every road."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    CheckConstraint,
    Column,
    Computed,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    create_engine,
    delete,
    exc,
    func,
    select,
    text,
    update,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.schema import CreateSchema

from sqlalchemy_ducklake import delete_keys, errors, insert, merge

Snapshots = Callable[[], int]
metadata = MetaData()
houses = Table(
    "houses",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("street", String),
    Column("number", Integer),
    UniqueConstraint("street", "number", name="one_address"),
)
people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("house", Integer, ForeignKey("houses.id", name="lives_in")),
    Column("boss", Integer, ForeignKey("people.id", name="works_for")),
    Column("age", Integer, CheckConstraint("age >= 0 AND people.age < 150", name="sane_age")),
    Column("code", String, unique=True),
    Column("pay", Numeric(10, 2)),
    Column("note", String),
)
people.append_constraint(CheckConstraint(people.c.pay > people.c.age, name="pay_over_age"))
visits = Table(
    "visits",
    metadata,
    Column("street", String),
    Column("number", Integer),
    Column("day", String, CheckConstraint("day <> ''")),
    ForeignKeyConstraint(["street", "number"], ["houses.street", "houses.number"]),
)

first_houses: list[dict[str, Any]] = [
    {"id": n, "street": "High", "number": n} for n in (1, 2, 3)
]
first_people: list[dict[str, Any]] = [
    {"id": 1, "house": 1, "boss": None, "age": 40, "code": "a", "pay": 100},
    {"id": 2, "house": 2, "boss": 1, "age": 20, "code": "b", "pay": 50},
]


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    everything = engine.execution_options(enforce_constraints="all")
    with everything.begin() as connection:
        connection.execute(insert(houses), first_houses)
        connection.execute(insert(people), first_people)
    return everything


def rows(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(select(table).order_by(*table.c))]


def refused(engine: Engine, statement: Any, given: Any = None) -> Any:
    """Execute what is refused; nothing is written, and the transaction goes on."""
    before = [rows(engine, table) for table in (houses, people, visits)]
    with engine.begin() as connection:
        connection.execute(insert(houses), {"id": 77, "street": "Other", "number": 1})
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(statement, given)
        assert connection.scalar(select(func.count()).where(houses.c.id == 77)) == 1
        left = (
            "SELECT table_name FROM duckdb_tables() "
            "WHERE temporary AND NOT starts_with(table_name, '_log')"
        )
        assert connection.execute(text(left)).all() == []
        connection.execute(delete(houses).where(houses.c.id == 77))
    assert [rows(engine, table) for table in (houses, people, visits)] == before
    return caught.value.orig


GOOD = {"id": 5, "house": 1, "boss": 1, "age": 1, "code": "x", "pay": 9, "note": "n"}


def row(**changed: Any) -> dict[str, Any]:
    return {**GOOD, **changed}


Road = Callable[[str, Any], tuple[Any, Any]]


def in_waves(column: str, value: Any) -> tuple[Any, Any]:
    statement = insert(people)
    taken = {"note": people.c.note + "x", column: statement.excluded[column]}
    given = [row(id=2, code="y"), row(**{"id": 2, "code": "y", column: value})]
    return statement.on_conflict_do_update(set_=taken), given


def by_expression(column: str, value: Any) -> tuple[Any, Any]:
    new = func.coalesce(bindparam("new", type_=people.c[column].type), people.c[column])
    statement = update(people).where(people.c.id == bindparam("key")).values({column: new})
    return statement, [{"key": 2, "new": value}, {"key": 2, "new": None}]


ROADS: dict[str, Road] = {
    "insert": lambda column, value: (insert(people), row(**{column: value})),
    "values": lambda column, value: (
        insert(people).values([row(id=6, code="y"), row(**{column: value})]),
        None,
    ),
    "many rows": lambda column, value: (
        insert(people),
        [row(id=6, code="y"), row(**{column: value})],
    ),
    "returning": lambda column, value: (
        insert(people).returning(people.c.id),
        row(**{column: value}),
    ),
    "upsert of a new row": lambda column, value: (
        insert(people).on_conflict_do_update(),
        [row(id=6, code="y"), row(**{column: value})],
    ),
    "upsert of an old row": lambda column, value: (
        insert(people).on_conflict_do_update(),
        [row(id=2, **{column: value})],
    ),
    "upsert in waves": in_waves,
    "upsert that inserts only": lambda column, value: (
        insert(people).on_conflict_do_nothing(["id"]),
        [row(**{column: value})],
    ),
    "update": lambda column, value: (
        update(people).where(people.c.id == 2).values({column: value}),
        None,
    ),
    "update that returns": lambda column, value: (
        update(people).where(people.c.id == 2).values({column: value}).returning(people.c.id),
        None,
    ),
    "update by many sets": lambda column, value: (
        update(people)
        .where(people.c.id == bindparam("key"))
        .values({column: bindparam("new")}),
        [{"key": 2, "new": None}, {"key": 2, "new": value}],
    ),
    "update in waves": by_expression,
    "merge that inserts": lambda column, value: (
        merge(people).using([row(**{column: value})], on=["id"]).when_not_matched_insert(),
        None,
    ),
    "merge that updates": lambda column, value: (
        merge(people).using([row(id=2, **{column: value})], on=["id"]).when_matched_update(),
        None,
    ),
    "changes": lambda column, value: (
        merge(people).changes([row(**{column: value})]),
        None,
    ),
}

VIOLATIONS: dict[str, tuple[Any, Any, str | None, Any]] = {
    "house": (99, errors.ForeignKeyViolation, "lives_in", (99,)),
    "boss": (98, errors.ForeignKeyViolation, "works_for", (98,)),
    "age": (-1, errors.CheckViolation, "sane_age", None),
    "pay": (0, errors.CheckViolation, "pay_over_age", None),
    "code": ("a", errors.KeyViolation, None, ("a",)),
}


@pytest.mark.parametrize("road", ROADS)
def test_a_violation_is_refused_on_every_road_and_the_transaction_goes_on(
    lake: Engine, road: str
) -> None:
    for column, (value, kind, name, example) in VIOLATIONS.items():
        violation = refused(lake, *ROADS[road](column, value))
        assert type(violation) is kind
        assert (violation.table, violation.constraint) == ("people", name)
        assert column in violation.columns
        assert example is None or violation.examples == (example,)
        again = pickle.loads(pickle.dumps(violation))
        assert (str(again), again.examples) == (str(violation), violation.examples)
        assert "nothing was written" in str(violation)


@pytest.mark.parametrize("road", ROADS)
def test_null_and_good_values_pass_on_every_road(lake: Engine, road: str) -> None:
    good = {"house": 3, "boss": 2, "age": 2, "pay": 70, "code": "new"}
    for column, value in [*good.items(), *dict.fromkeys(good).items()]:
        with lake.connect() as connection:
            connection.execute(*ROADS[road](column, value))
            taken = select(func.count()).where(people.c[column].is_not_distinct_from(value))
            # NULL leaves the value alone in the statement that acts in waves.
            assert connection.scalar(taken) or (road, value) == ("update in waves", None)
            connection.rollback()


@pytest.mark.parametrize("road", ROADS)
def test_what_is_not_enforced_is_stored(lake: Engine, road: str) -> None:
    for column, (value, kind, *_) in VIOLATIONS.items():
        unique = kind is errors.KeyViolation
        options: Any = {"enforce_constraints": "none" if unique else "keys"}
        with lake.connect() as connection:
            statement, given = ROADS[road](column, value)
            connection.execute(statement, given, execution_options=options)
            found = select(func.count()).where(people.c[column] == value)
            assert connection.scalar(found) == (2 if unique else 1)
            connection.rollback()


def test_the_level_is_an_option_of_engine_connection_and_statement(lake: Engine) -> None:
    bad = insert(people).values(row(house=99))
    url = lake.url
    with create_engine(url, enforce_constraints="all").begin() as connection:
        with pytest.raises(exc.IntegrityError):
            connection.execute(bad)
        lenient = bad.execution_options(enforce_constraints="keys")
        assert connection.execute(lenient).rowcount == 1
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(people).values(row(id=8, code="z", house=99)))
        connection.execution_options(enforce_constraints="none")
        connection.execute(bad)
        assert connection.scalar(select(func.count()).where(people.c.id == 5)) == 2
        connection.rollback()
    with create_engine(url).begin() as connection:
        connection.execute(bad)
        with pytest.raises(exc.IntegrityError):
            connection.execute(bad)
        connection.rollback()


def test_one_compiled_statement_serves_every_level(lake: Engine) -> None:
    statement, given = insert(people), row(house=99)
    with lake.connect() as connection:
        with pytest.raises(exc.IntegrityError):
            connection.execute(statement, given)
        size = len(lake._compiled_cache or ())
        connection.execute(statement, given, execution_options={"enforce_constraints": "keys"})
        assert len(lake._compiled_cache or ()) == size
        connection.rollback()


@pytest.mark.parametrize("level", ["some", None, True, ["all"]])
def test_another_level_is_an_error(lake: Engine, level: Any) -> None:
    for attempt in (
        lambda: create_engine(lake.url, enforce_constraints=level),
        lambda: lake.execution_options(enforce_constraints=level),
        lambda: lake.connect().execution_options(enforce_constraints=level),
    ):
        with pytest.raises(exc.ArgumentError, match="'keys', 'all' or 'none'"):
            attempt()
    with create_engine(lake.url).begin() as connection:
        statement = insert(houses).execution_options(enforce_constraints=level)
        with pytest.raises(exc.ArgumentError):
            connection.execute(statement, {"id": 9})


def test_null_in_a_key_is_refused_at_every_level(lake: Engine) -> None:
    keyed = Table("keyed", MetaData(), Column("a", String, primary_key=True))
    keyed.create(lake)
    with lake.begin() as connection:
        connection.execution_options(enforce_constraints="none")
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(insert(keyed), [{"a": None}])
    assert isinstance(caught.value.orig, errors.NullKey)


# What deletes.


def test_what_others_refer_to_is_not_deleted(lake: Engine) -> None:
    for statement, given in (
        (delete(houses).where(houses.c.id == 1), None),
        (delete(houses), None),
        (delete(houses).where(houses.c.id == 1).returning(houses.c.id), None),
        (delete(houses).where(houses.c.id == bindparam("i")), [{"i": 3}, {"i": 1}]),
        (delete_keys(houses, [{"id": 3}, {"id": 1}]), None),
        (merge(houses).using([{"id": 1}], on=["id"]).when_matched_delete(), None),
        (
            merge(houses)
            .using([{"id": 2}], on=["id"])
            .when_matched_do_nothing()
            .when_not_matched_by_source_delete(),
            None,
        ),
    ):
        violation = refused(lake, statement, given)
        assert isinstance(violation, errors.RowReferenced)
        assert (violation.table, violation.parent) == ("people", "houses")
        assert (1,) in violation.examples
        assert "ON DELETE" in str(violation)


def test_what_nobody_refers_to_is_deleted_and_counted(lake: Engine) -> None:
    with lake.begin() as connection:
        assert connection.execute(delete(houses).where(houses.c.id == 3)).rowcount == 1
        connection.execute(update(people).where(people.c.id == 2).values(house=1))
        by_id = delete(houses).where(houses.c.id == bindparam("i"))
        assert connection.execute(by_id, [{"i": 2}, {"i": 2}, {"i": 9}]).rowcount == 1
        assert connection.execute(delete(people)).rowcount == 2
        assert connection.scalars(delete(houses).returning(houses.c.id)).all() == [1]


def test_a_referenced_key_does_not_move_away(lake: Engine) -> None:
    for statement, given in (
        (update(houses).where(houses.c.id == 1).values(id=9), None),
        (update(houses).values(id=houses.c.id + 10), None),
        (
            update(houses).where(houses.c.id == bindparam("i")).values(id=bindparam("new")),
            [{"i": 1, "new": 8}],
        ),
        (
            merge(houses)
            .using([{"street": "High", "number": 1}], on=["street", "number"])
            .when_matched_update({"id": houses.c.id + 20}),
            None,
        ),
    ):
        assert isinstance(refused(lake, statement, given), errors.RowReferenced)
    with lake.begin() as connection:
        swap = update(houses).where(houses.c.id < 3).values(id=3 - houses.c.id)
        assert connection.execute(swap).rowcount == 2
        connection.execute(update(houses).where(houses.c.id == 3).values(id=4))
        connection.execute(update(houses).where(houses.c.id == 1).values(street="Low"))


# Rows that refer to rows of the same statement, and to their own table.


def test_rows_of_one_statement_may_refer_to_each_other(lake: Engine) -> None:
    circle = [
        row(id=5, boss=6, code="p"),
        row(id=6, boss=7, code="q"),
        row(id=7, boss=5, code="r"),
    ]
    for statement in (
        insert(people),
        insert(people).on_conflict_do_update(),
        insert(people).returning(people.c.id),
    ):
        with lake.connect() as connection:
            connection.execute(statement, circle)
            with pytest.raises(exc.IntegrityError):
                connection.execute(delete(people).where(people.c.id == 6))
            assert connection.execute(delete(people).where(people.c.id > 4)).rowcount == 3
            connection.rollback()
    with lake.begin() as connection:
        connection.execute(merge(people).changes(circle))
        itself = update(people).where(people.c.id == 5).values(boss=5)
        connection.execute(itself)


def test_a_self_reference_must_not_lose_its_row(lake: Engine) -> None:
    assert isinstance(
        refused(lake, delete(people).where(people.c.id == 1)), errors.RowReferenced
    )
    with lake.begin() as connection:
        connection.execute(delete(people))  # both at once


def test_a_key_moves_together_with_who_refers_to_it(lake: Engine) -> None:
    moved = update(people).values(id=people.c.id + 10, boss=people.c.boss + 10)
    with lake.begin() as connection:
        assert connection.execute(moved).rowcount == 2
    assert [row[:3] for row in rows(lake, people)] == [(11, 1, None), (12, 2, 11)]


def test_a_merge_may_delete_a_parent_with_all_its_children(lake: Engine) -> None:
    given = [row(id=1, boss=None, code="a"), row(id=3, boss=3, code="c")]
    only_these = (
        merge(people)
        .using(given, on=["id"])
        .when_matched_delete()
        .when_not_matched_insert()
        .when_not_matched_by_source_delete()
    )
    with lake.begin() as connection:
        connection.execute(only_these)
    assert [row[0] for row in rows(lake, people)] == [3]
    orphan = merge(people).using([row(id=3)], on=["id"]).when_matched_delete()
    lasting = insert(people).values(row(id=4, boss=3, code="d"))
    with lake.begin() as connection:
        connection.execute(lasting)
    assert isinstance(refused(lake, orphan), errors.RowReferenced)


def test_parents_of_the_same_transaction_count(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(houses), {"id": 50, "street": "New", "number": 50})
        connection.execute(insert(people), row(house=50))
        connection.execute(delete(people).where(people.c.id == 5))
        connection.execute(delete(houses).where(houses.c.id == 50))
        with pytest.raises(exc.IntegrityError):
            connection.execute(insert(people), row(house=50))


# Composite keys, schemas, tables without a key.


def test_a_composite_foreign_key_is_simple(lake: Engine) -> None:
    good: dict[str, Any] = {"street": "High", "number": 1, "day": "mon"}
    for bad in (
        {**good, "number": 9},
        {**good, "street": "Low"},
        {"street": "High1", "number": 1, "day": "tue"},
    ):
        violation = refused(lake, insert(visits), [good, bad])
        assert isinstance(violation, errors.ForeignKeyViolation)
        assert violation.columns == ("street", "number")
        assert violation.parent_columns == ("street", "number")
        assert violation.examples == ((bad["street"], bad["number"]),)
        assert isinstance(refused(lake, insert(visits), bad), errors.ForeignKeyViolation)
    assert isinstance(refused(lake, insert(visits), {**good, "day": ""}), errors.CheckViolation)
    with lake.begin() as connection:
        # MATCH SIMPLE: one NULL is enough.
        nowhere = {"street": "Nowhere", "number": None, "day": None}
        free = [good, {**good, "number": None}, nowhere]
        assert connection.execute(insert(visits), free).rowcount == 3
    assert isinstance(
        refused(lake, update(houses).where(houses.c.id == 1).values(number=4)),
        errors.RowReferenced,
    )
    assert isinstance(
        refused(lake, update(visits).values(street="Low")), errors.ForeignKeyViolation
    )
    with lake.begin() as connection:
        found = insert(visits).from_select(
            ["street", "number"], select(houses.c.street, houses.c.number)
        )
        assert connection.execute(found).rowcount == 3


def test_the_parent_may_live_in_another_schema_or_another_metadata(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(CreateSchema("far"))
    far = MetaData()
    parent = Table("parent", far, Column("a b", Integer, primary_key=True), schema="far")
    child = Table("child", far, Column("p", ForeignKey("far.parent.a b")), schema="far")
    far.create_all(lake)
    for table in (
        child,
        Table("child", MetaData(), schema="far", autoload_with=lake, resolve_fks=False),
        Table("child", MetaData(), Column("p", ForeignKey("far.parent.a b")), schema="far"),
        Table("child", MetaData(schema="here"), Column("p", ForeignKey("here.parent.a b"))),
    ):
        translated = lake.execution_options(schema_translate_map={"here": "far"})
        with translated.connect() as connection:
            with pytest.raises(exc.IntegrityError) as caught:
                connection.execute(insert(table), [{"p": 1}, {"p": None}])
            assert isinstance(caught.value.orig, errors.ForeignKeyViolation)
            connection.execute(insert(parent), {"a b": 1})
            connection.execute(insert(table), [{"p": 1}, {"p": None}])
            connection.rollback()


def test_a_reflected_table_enforces_what_the_lake_keeps(lake: Engine) -> None:
    found = MetaData()
    found.reflect(lake)
    own = found.tables["people"]
    for column, (value, kind, name, _) in VIOLATIONS.items():
        violation = refused(lake, insert(own), row(**{column: value}))
        assert type(violation) is kind
        assert violation.constraint == name
    gone = delete(found.tables["houses"]).where(found.tables["houses"].c.id == 1)
    assert isinstance(refused(lake, gone), errors.RowReferenced)


def test_a_check_knows_the_type_of_a_column_without_a_value(engine: Engine) -> None:
    table = Table(
        "t",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("name", String, CheckConstraint("length(name) > 2")),
        Column("n", Integer),
        CheckConstraint("name IS NOT NULL OR n IS NOT NULL", name="something"),
    )
    table.create(engine)
    strict = engine.execution_options(enforce_constraints="all")
    with strict.begin() as connection:
        connection.execute(insert(table), [{"id": 1, "n": 1}])
        with pytest.raises(exc.IntegrityError, match="something"):
            connection.execute(insert(table), [{"id": 2}])
        with pytest.raises(exc.IntegrityError, match=r"length\(name\) > 2"):
            connection.execute(insert(table), {"id": 2, "name": "ab"})


# M18: unique keys on every road.


def addresses(engine: Engine) -> list[Any]:
    return [row[1:] for row in rows(engine, houses)]


def at(number: int | None, street: str | None = "High") -> dict[str, Any]:
    return {"street": street, "number": number}


def test_m18_1_an_insert_onto_a_held_term_is_refused(lake: Engine) -> None:
    for given in ({"id": 9, **at(1)}, [{"id": 9, **at(1)}, {"id": 8, **at(8)}]):
        for statement in (insert(houses), insert(houses).on_conflict_do_update()):
            assert isinstance(refused(lake, statement, given), errors.KeyViolation)


def test_m18_2_an_update_onto_a_held_term_is_refused(lake: Engine) -> None:
    third = houses.c.id == 3
    for statement, given in (
        (update(houses).where(third).values(number=1), None),
        (insert(houses).on_conflict_do_update(), [{"id": 3, **at(1)}]),
        (merge(houses).changes([{"id": 3, **at(1)}]), None),
        (
            merge(houses).using([{"id": 3, "number": 1}], on=["id"]).when_matched_update(),
            None,
        ),
        (update(houses).values(number=7), None),
        (insert(houses).on_conflict_do_update(), [{"id": 2, **at(7)}, {"id": 3, **at(7)}]),
    ):
        assert isinstance(refused(lake, statement, given), errors.KeyViolation)


def test_m18_3_a_swap_inside_one_statement_is_fine(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(update(houses).values(number=4 - houses.c.number))
        swap = [{"id": 1, **at(1)}, {"id": 3, **at(3)}]
        connection.execute(insert(houses).on_conflict_do_update(), swap)
        back = [{"id": 1, "number": 3}, {"id": 3, "number": 1}]
        connection.execute(merge(houses).using(back, on=["id"]).when_matched_update())
    assert addresses(lake) == [("High", 3), ("High", 2), ("High", 1)]


def test_m18_4_a_term_retired_earlier_in_the_transaction_is_free(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(update(houses).where(houses.c.id == 1).values(number=100))
        connection.execute(update(houses).where(houses.c.id == 2).values(number=1))
        connection.execute(delete(houses).where(houses.c.id == 3))
        connection.execute(insert(houses), {"id": 4, **at(3)})
    assert addresses(lake) == [("High", 100), ("High", 1), ("High", 3)]


def test_m18_5_a_batch_that_repeats_a_term_is_refused(lake: Engine) -> None:
    given = [{"id": 8, **at(8)}, {"id": 9, **at(8)}]
    for statement in (insert(houses), insert(houses).on_conflict_do_update()):
        assert isinstance(refused(lake, statement, given), errors.KeyViolation)


def test_m18_6_a_null_component_takes_no_part(lake: Engine) -> None:
    given = [{"id": n, **at(None)} for n in (7, 8, 9)]
    with lake.begin() as connection:
        connection.execute(insert(houses), given)
        connection.execute(update(houses).where(houses.c.id > 7).values(street="Low"))
        connection.execute(insert(houses).on_conflict_do_update(), given)
    assert addresses(lake)[3:] == [("High", None)] * 3


def test_m18_7_null_retires_the_term(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(update(houses).where(houses.c.id == 1).values(number=None))
        connection.execute(insert(houses), {"id": 4, **at(1)})
        given = [{"id": 2, **at(None)}, {"id": 5, **at(2)}]
        connection.execute(insert(houses).on_conflict_do_update(), given)
    assert addresses(lake) == [(*at(n).values(),) for n in (None, None, 3, 1, 2)]


def test_m18_8_an_upsert_retires_the_term_it_replaces(lake: Engine) -> None:
    given = [{"id": 1, **at(11)}, {"id": 4, **at(1)}]
    with lake.begin() as connection:
        connection.execute(insert(houses).on_conflict_do_update(), given)
        connection.execute(merge(houses).changes([{"id": 2, **at(12)}, {"id": 5, **at(2)}]))
        arms = merge(houses).using([{"id": 3, **at(13)}, {"id": 6, **at(3)}], on=["id"])
        connection.execute(arms.when_matched_update().when_not_matched_insert())
    assert addresses(lake) == [("High", n) for n in (11, 12, 13, 1, 2, 3)]


def test_an_upsert_by_a_unique_key_refuses_one_that_is_there_twice(lake: Engine) -> None:
    again = insert(houses).values(id=9, **at(1))
    with lake.begin() as connection:
        connection.execute(again, execution_options={"enforce_constraints": "none"})
        by_address = insert(houses).on_conflict_do_nothing(["street", "number"])
        with pytest.raises(exc.IntegrityError) as caught:
            connection.execute(by_address, {"id": 10, **at(1)})
    assert isinstance(caught.value.orig, errors.AmbiguousKeys)


# The ORM, and the tables that have nothing to check.


def test_the_orm_writes_parents_first_and_deletes_children_first(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Node(Base):
        __tablename__ = "node"
        key: Mapped[int] = mapped_column(primary_key=True)
        up_key: Mapped[int | None] = mapped_column(ForeignKey("node.key"))
        size: Mapped[int] = mapped_column(CheckConstraint("size > 0"), default=1)
        up: Mapped[Node | None] = relationship(remote_side=[key], back_populates="down")
        down: Mapped[list[Node]] = relationship(back_populates="up", cascade="all")

    Base.metadata.create_all(engine)
    strict = engine.execution_options(enforce_constraints="all")
    with Session(strict) as session:
        session.add(Node(down=[Node(down=[Node(), Node()]), Node()]))
        session.commit()
        top = session.scalars(select(Node).where(Node.up_key.is_(None))).one()
        top.down[0].size = 5
        session.commit()
        top.down[0].size = 0
        with pytest.raises(exc.IntegrityError):
            session.flush()
        session.rollback()
        session.delete(top)
        session.commit()
        assert session.scalars(select(Node)).all() == []


def test_an_update_of_a_table_without_constraints_stays_one_statement(
    lake: Engine,
) -> None:
    free = Table(
        "free", MetaData(), Column("id", Integer, primary_key=True), Column("n", Integer)
    )
    compiled = [
        update(free).values(n=1),
        delete(free),
        update(people).values(note="x"),
    ]
    for statement in compiled[:2]:
        assert ";" not in str(statement.compile(lake))
    # A text may be about any column.
    assert ";" in str(compiled[2].compile(lake))


def test_computed_columns_are_checked_as_they_will_be(engine: Engine) -> None:
    boxes = Table(
        "boxes",
        MetaData(),
        Column("id", Integer, primary_key=True),
        Column("a", Integer),
        Column("b", Integer, server_default="2"),
        Column("area", Integer, Computed("a * b"), CheckConstraint("area < 100")),
        UniqueConstraint("area"),
    )
    boxes.create(engine)
    strict = engine.execution_options(enforce_constraints="all")
    by_id = update(boxes).where(boxes.c.id == bindparam("key")).values(a=bindparam("n"))
    with strict.begin() as connection:
        connection.execute(insert(boxes), [{"id": 1, "a": 1}, {"id": 2, "a": 2}])
        for column, kind in ((50, errors.CheckViolation), (1, errors.KeyViolation)):
            new = [{"id": 3, "a": column, "b": 2}]
            old = [{"id": 2, "a": column, "b": 2}]
            for statement, given in (
                (insert(boxes), {"id": 3, "a": column}),
                (insert(boxes).on_conflict_do_update(set_={"a": column}), new),
                (insert(boxes).on_conflict_do_update(set_={"a": column}), old),
                (update(boxes).where(boxes.c.id == 2).values(a=column), None),
                (by_id, [{"key": 2, "n": column}]),
                (merge(boxes).using(new, on=["id"]).when_not_matched_insert(), None),
                (merge(boxes).using(old, on=["id"]).when_matched_update(), None),
            ):
                with pytest.raises(exc.IntegrityError) as caught:
                    connection.execute(statement, given)
                assert isinstance(caught.value.orig, kind)
        connection.execute(update(boxes).values(a=3 - boxes.c.a))
        connection.execute(update(boxes).where(boxes.c.id == 1).values(a=49))
        assert connection.scalars(select(boxes.c.area).order_by(boxes.c.id)).all() == [98, 2]
