"""M38: twin databases. One program on a lake with a write scope, without one, and on SQLite.

After every step the same queries give the same rows, after every commit the tables hold the
same.  What the program does is drawn by a seed: rows added, changed, deleted and given new
keys by the ORM and by statements, unique values that swap, savepoints that are kept and
undone, statements that are refused.  A lake without a scope has no savepoints, so programs
without them have twins of their own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    URL,
    CheckConstraint,
    Engine,
    ForeignKey,
    String,
    create_engine,
    delete,
    event,
    exc,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from sqlalchemy_ducklake import insert
from sqlalchemy_ducklake.scope.options import WriteScope


class Base(DeclarativeBase):
    """The twins' tables."""


class Team(Base):
    """A parent."""

    __tablename__ = "team"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String, unique=True)
    people: Mapped[list[Person]] = relationship(back_populates="team", order_by="Person.id")


class Person(Base):
    """A child, which may be without a parent."""

    __tablename__ = "person"
    __table_args__ = (CheckConstraint("age >= 0", name="born"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    age: Mapped[int]
    note: Mapped[str | None]
    team_id: Mapped[int | None] = mapped_column(ForeignKey("team.id"))
    team: Mapped[Team | None] = relationship(back_populates="people")


class Thing(Base):
    """A row that nothing but its key is known of, so that it is kept in Python."""

    __tablename__ = "thing"

    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[int]
    note: Mapped[str | None]


QUERIES: Sequence[Any] = (
    select(Person.id, Person.age, Person.note, Person.team_id).order_by(Person.id),
    select(Team.id, Team.name).order_by(Team.id),
    select(Thing.id, Thing.n, Thing.note).order_by(Thing.id),
    select(func.coalesce(Thing.note, ""), func.count(), func.sum(Thing.n))
    .group_by(Thing.note)
    .order_by(func.coalesce(Thing.note, "")),
    select(Team.name, func.count(Person.id), func.sum(Person.age))
    .outerjoin(Person)
    .group_by(Team.name)
    .order_by(Team.name),
    select(Person.id)
    .where(Person.team_id.in_(select(Team.id).where(Team.id > 2)))
    .order_by("id"),
    text(
        "WITH old AS (SELECT * FROM person WHERE age > 3) "
        "SELECT t.name, o.id FROM team AS t JOIN old AS o ON o.team_id = t.id ORDER BY 2"
    ),
)

PEOPLE: Any = Person.__table__
THINGS: Any = Thing.__table__
_KEYS = range(1, 8)
#: How many sessions there are with savepoints, and a quarter as many without; each test runs
#: some of them, one on what the other has left.
SESSIONS = int(os.environ.get("TWIN_SESSIONS", "800"))
STEPS_OF_SESSION, TOGETHER = 5, 20
Step = Callable[[Session, random.Random], Any]


def _add(session: Session, chance: random.Random) -> None:
    key = chance.choice(_KEYS)
    if session.get(Person, key) is None:
        session.add(
            Person(id=key, age=chance.randrange(9), team_id=_some_team(session, chance))
        )
    session.flush()


def _add_team(session: Session, chance: random.Random) -> None:
    key = chance.choice(_KEYS)
    if session.get(Team, key) is None:
        session.add(Team(id=key, name=f"t{key}"))
    session.flush()


def _some_team(session: Session, chance: random.Random) -> int | None:
    known = list(session.scalars(select(Team.id).order_by(Team.id)))
    return chance.choice([None, *known])


def _change(session: Session, chance: random.Random) -> None:
    person = session.get(Person, chance.choice(_KEYS))
    if person is not None:
        person.age, person.note = chance.randrange(9), chance.choice([None, "x", "y'"])
        person.team_id = _some_team(session, chance)
    session.flush()


def _remove(session: Session, chance: random.Random) -> None:
    person = session.get(Person, chance.choice(_KEYS))
    if person is not None:
        session.delete(person)
    session.flush()


def _swap(session: Session, chance: random.Random) -> None:
    """Move the names of all teams round, in one statement (SQLite looks at each row)."""
    longer = chance.choice(["_", "+"])
    session.execute(update(Team).values(name=Team.name + longer))


def _move(session: Session, chance: random.Random) -> int:
    old, new = chance.sample(_KEYS, 2)
    return _count(session, update(Person).where(Person.id == old).values(id=new))


def _set_ages(session: Session, chance: random.Random) -> int:
    statement = update(Person).where(Person.age > chance.randrange(9))
    return _count(session, statement.values(age=Person.age - chance.randrange(3)))


def _set_many(session: Session, chance: random.Random) -> None:
    keys = chance.sample(_KEYS, 3)
    known = set(session.scalars(select(Person.id)))
    sets = [{"id": key, "age": chance.randrange(9)} for key in keys if key in known]
    if sets:
        session.execute(update(Person), sets)


def _remove_some(session: Session, chance: random.Random) -> int:
    statement = delete(Person).where(Person.age == chance.randrange(9))
    return _count(session, statement)


def _remove_team(session: Session, chance: random.Random) -> int:
    return _count(session, delete(Team).where(Team.id == chance.choice(_KEYS)))


def _insert_many(session: Session, chance: random.Random) -> None:
    rows = [{"id": key, "age": key, "note": "m"} for key in chance.sample(_KEYS, 2)]
    session.connection().execute(PEOPLE.insert(), rows)


def _upsert(session: Session, chance: random.Random) -> None:
    lake = session.get_bind().dialect.name == "ducklake"
    statement: Any = (insert if lake else sqlite_insert)(PEOPLE)
    rows = [{"id": key, "age": chance.randrange(9)} for key in chance.choices(_KEYS, k=3)]
    new = PEOPLE.c.age + statement.excluded.age if chance.random() < 0.5 else 5
    session.connection().execute(
        statement.on_conflict_do_update(index_elements=["id"], set_={"age": new}), rows
    )


def _returning(session: Session, chance: random.Random) -> list[Any]:
    statement = update(Person).where(Person.id < chance.choice(_KEYS)).values(note="r")
    found = session.execute(statement.returning(Person.id, Person.note, Person.age))
    return sorted(map(tuple, found))


def _add_things(session: Session, chance: random.Random) -> list[int]:
    things = [Thing(n=chance.randrange(9)) for _ in range(chance.randint(1, 3))]
    session.add_all(things)
    session.flush()
    return [thing.id for thing in things]


def _change_things(session: Session, chance: random.Random) -> None:
    for thing in session.scalars(select(Thing).order_by(Thing.id)).all():
        draw = chance.random()
        if draw < 0.2:
            session.delete(thing)
        elif draw < 0.6:
            thing.n += chance.randrange(2)
        elif draw < 0.7:
            thing.note = chance.choice([None, "x", "é"])
    session.flush()


def _upsert_things(session: Session, chance: random.Random) -> int:
    lake = session.get_bind().dialect.name == "ducklake"
    statement: Any = (insert if lake else sqlite_insert)(THINGS)
    rows = [{"id": key, "n": chance.randrange(9)} for key in chance.sample(range(1, 12), 3)]
    if chance.random() < 0.3:
        statement = statement.on_conflict_do_nothing(index_elements=["id"])
    else:
        new = {"n": statement.excluded.n}
        statement = statement.on_conflict_do_update(index_elements=["id"], set_=new)
    session.connection().execute(statement, rows)
    return len(rows)


def _insert_things(session: Session, chance: random.Random) -> int:
    rows = [{"id": key, "n": key} for key in chance.sample(range(1, 15), 2)]
    return int(session.connection().execute(THINGS.insert(), rows).rowcount)


def _count(session: Session, statement: Any) -> int:
    result: Any = session.execute(statement.execution_options(synchronize_session=False))
    return int(result.rowcount)


STEPS: Sequence[Step] = (
    _add,
    _add,
    _add_team,
    _change,
    _change,
    _remove,
    _swap,
    _move,
    _set_ages,
    _set_many,
    _remove_some,
    _remove_team,
    _insert_many,
    _upsert,
    _returning,
    _add_things,
    _add_things,
    _change_things,
    _change_things,
    _upsert_things,
    _insert_things,
)


class Twins:
    """Sessions that do the same; each step is drawn anew from one number."""

    def __init__(self, engines: Sequence[Engine], chance: random.Random) -> None:
        self.sessions = [Session(engine) for engine in engines]
        self.chance = chance

    def all(self, work: Callable[[Session], Any]) -> Any:
        """Let each do something, and give what all of them say."""
        said = [work(each) for each in self.sessions]
        assert all(each == said[0] for each in said[1:]), said
        return said[0]

    def step(self, number: int) -> None:
        """Do one step in a savepoint, because SQLite may refuse half of one; and compare."""
        step = STEPS[number % len(STEPS)]
        self.all(partial(_in_savepoint, step=step, number=number))
        self.look(self.chance.sample(QUERIES, 2))

    def look(self, queries: Sequence[Any] = QUERIES) -> None:
        """Ask questions."""
        for query in queries:
            self.all(partial(_rows, query=query))


def _rows(session: Session, *, query: Any) -> list[Any]:
    return list(map(tuple, session.execute(query)))


def _in_savepoint(session: Session, *, step: Step, number: int) -> Any:
    with_savepoint = _has_savepoints(session)
    nested = session.begin_nested() if with_savepoint else None
    try:
        said = step(session, random.Random(number))
    except exc.IntegrityError:
        if nested is not None:
            nested.rollback()
        said = "refused"
    else:
        if nested is not None:
            nested.commit()
    session.expire_all()
    return said


def _has_savepoints(session: Session) -> bool:
    """Tell whether there are: a lake without a scope undoes a refused statement alone."""
    return getattr(session.get_bind().dialect, "write_scope", True) is not None


def run(twins: Twins, steps: int, *, savepoints: bool) -> None:
    """Run a few transactions of some steps each, with savepoints among them."""
    depth, chance = 0, twins.chance
    for _ in range(steps):
        draw = chance.random()
        if draw < 0.1 and depth < 3 and savepoints:
            twins.all(_enter)
            depth += 1
        elif draw < 0.2 and depth:
            undo = chance.random() < 0.5
            twins.all(partial(_leave, undo=undo))
            depth -= 1
            twins.look()
        elif draw < 0.25:
            undo = chance.random() < 0.5
            twins.all(partial(_end, undo=undo))
            depth = 0
            twins.look()
        else:
            twins.step(chance.randrange(1 << 30))
    twins.all(partial(_end, undo=False))
    twins.look()


def _enter(session: Session) -> None:
    session.begin_nested()


def _leave(session: Session, *, undo: bool) -> None:
    nested = session.get_nested_transaction()
    assert nested is not None
    if undo:
        nested.rollback()
    else:
        nested.commit()
    session.expire_all()


def _end(session: Session, *, undo: bool) -> None:
    transaction = session.get_transaction()
    if transaction is None:
        return
    if undo:
        session.rollback()
        session.close()
    else:
        while session.in_nested_transaction():
            _leave(session, undo=False)
        session.commit()


def _open(directory: Path, scopes: Mapping[str, Any]) -> Iterator[list[Engine]]:
    made = [create_engine(f"sqlite:///{directory / 'twin.sqlite'}")]
    for name, scope in scopes.items():
        url = URL.create("ducklake", database=str(directory / f"{name}.ducklake"))
        options = {"enforce_constraints": "all", "ducklake_write_scope": scope}
        made.append(create_engine(url, **options))
    event.listen(made[0], "connect", _as_strict_as_a_lake)
    event.listen(made[0], "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    for engine in made:
        Base.metadata.create_all(engine)
    yield made
    for engine in made:
        engine.dispose()


def _as_strict_as_a_lake(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")


@pytest.fixture(scope="module")
def with_savepoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    small = WriteScope(max_rows=4, max_bytes=512, direct_rows=3)
    yield from _open(tmp_path_factory.mktemp("twins"), {"twin": True, "small": small})


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    yield from _open(tmp_path_factory.mktemp("twins"), {"twin": True, "without": False})


def _agree(engines: list[Engine], seeds: range, *, savepoints: bool) -> None:
    """Run sessions of a few steps, each on what the sessions before it have left."""
    for seed in seeds:
        print("seed", seed)
        twins = Twins(engines, random.Random(seed))
        try:
            run(twins, STEPS_OF_SESSION, savepoints=savepoints)
        finally:
            for session in twins.sessions:
                session.close()


@pytest.mark.parametrize("first", range(0, SESSIONS, TOGETHER))
def test_twins_agree_after_every_step(with_savepoints: list[Engine], first: int) -> None:
    """M12, M38: with thresholds of a few rows too."""
    _agree(with_savepoints, range(first, first + TOGETHER), savepoints=True)


@pytest.mark.parametrize("first", range(0, SESSIONS // 4, TOGETHER))
def test_a_lake_without_a_scope_agrees(without: list[Engine], first: int) -> None:
    """M38: and a lake without a scope, in transactions without savepoints."""
    _agree(without, range(first, first + TOGETHER), savepoints=False)
