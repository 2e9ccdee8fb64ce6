"""ON CONFLICT and merge() in terms of mapped classes; SQLite says what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, String, and_, cast, create_engine, exc, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, mapped_column

from sqlalchemy_ducklake import MergeResult, insert, merge, merge_result


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    # The attribute is not called like its column.
    points: Mapped[int | None] = mapped_column("n", server_default="7")


class Pet(Base):
    __tablename__ = "pet"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[int | None] = mapped_column(ForeignKey("person.id"))


ROWS = [{"id": 1, "name": "a", "points": 10}, {"id": 5, "name": "e", "points": 50}]
STATEMENTS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "bulk": lambda add: (
        add.on_conflict_do_update(index_elements=["id"], set_={"n": Person.points + 1}),
        ROWS,
    ),
    "excluded": lambda add: (
        add.on_conflict_do_update(
            index_elements=[Person.id],
            set_={
                Person.points: Person.points + add.excluded.n,
                Person.name: Person.name + "!",
            },
            where=Person.points < 3,
        ),
        ROWS,
    ),
    "values": lambda add: (
        add.values(id=1, name="z", n=3).on_conflict_do_update(
            index_elements=[Person.id],
            set_={"name": add.excluded.name, "n": func.coalesce(Person.points, 0) * 2},
        ),
        None,
    ),
    "by a unique name": lambda add: (
        add.values(
            [{"id": 8, "name": "a", "n": 1}, {"id": 9, "name": "i", "n": 2}]
        ).on_conflict_do_update(index_elements=[Person.name], set_={"n": add.excluded.n}),
        None,
    ),
    "a subquery": lambda add: (
        add.values(id=2, name="b", n=0).on_conflict_do_update(
            index_elements=["id"],
            set_={"n": select(func.count(Pet.id)).where(Pet.owner == 2).scalar_subquery()},
        ),
        None,
    ),
    "from select": lambda add: (
        add.from_select(
            ["id", "name", "n"],
            select(Person.id + 1, Person.name + "+", Person.points).where(Person.id > 0),
        ).on_conflict_do_update(index_elements=["id"], set_={"n": Person.points + 100}),
        None,
    ),
}


def filled(engine: Engine) -> Engine:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Person(id=1, name="a", points=1), Person(id=2, name="b", points=2)])
        session.flush()
        session.add_all([Pet(id=1, owner=2), Pet(id=2, owner=2), Pet(id=3, owner=1)])
        session.commit()
    return engine


def people(session: Session) -> list[Any]:
    found = session.execute(select(Person.id, Person.name, Person.points).order_by(Person.id))
    return list(map(tuple, found))


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_on_conflict_by_attributes_does_what_it_does_on_sqlite(
    engine: Engine, name: str
) -> None:
    outcomes = []
    for database, add in (
        (engine, insert(Person)),
        (create_engine("sqlite://"), sqlite.insert(Person)),
    ):
        with Session(filled(database)) as session:
            statement, given = STATEMENTS[name](add)
            session.execute(statement, *([] if given is None else [given]))
            outcomes.append(people(session))
    lake, oracle = outcomes
    assert lake == oracle


def test_merges_of_mapped_classes_by_their_attributes(engine: Engine) -> None:
    with Session(filled(engine)) as session:
        rows = merge(Person).using([{"id": 2, "n": 5}, {"id": 7, "n": 70}])
        given = rows.source.c
        both = rows.when_matched_update(
            {Person.points: Person.points + given.n}, where=Person.points > 1
        ).when_not_matched_insert(
            {Person.id: given.id, Person.name: "p" + cast(given.id, String)}
        )
        assert merge_result(session.execute(both)) == MergeResult(inserted=1, updated=1)
        assert people(session) == [(1, "a", 1), (2, "b", 7), (7, "p7", 7)]
        owned = merge(Pet).using(Person, on=and_(Pet.owner == Person.id, Person.points > 1))
        moved = owned.when_matched_update({Pet.owner: Person.id - 1})
        assert merge_result(session.execute(moved)) == MergeResult(updated=2)
        same = merge(Person).using(select(Person.id, Person.points.label("n")))
        same = same.when_matched_update()
        assert merge_result(session.execute(same)) == MergeResult(unchanged=3)


def test_an_alias_is_nothing_to_merge_into() -> None:
    with pytest.raises(exc.ArgumentError, match="table or mapped class"):
        merge(aliased(Person))
