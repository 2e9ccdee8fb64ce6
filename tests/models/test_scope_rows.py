"""Single rows in a write scope leave what a dictionary holds that was changed alike.

Rows are kept in Python until something reads them, so what is drawn here mixes statements
of single rows with reads, savepoints, statements that the engine runs, and refused ones.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Date,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    Uuid,
    create_engine,
    exc,
    select,
)

from sqlalchemy_ducklake import MergeResult, insert, merge_result, write_table

ROUNDS, STEPS = int(os.environ.get("ROW_ROUNDS", "6")), 60
Key = tuple[Any, ...]
Rows = dict[Key, tuple[int, str | None]]


def _table(name: str, *key: Column[Any]) -> Table:
    more = (Column("n", Integer, nullable=False), Column("s", String))
    return Table(name, MetaData(), *key, *more)


def _id(kind: Any) -> Column[Any]:
    return Column("k", kind, primary_key=True, autoincrement=False)


DAYS = [dt.date(2024, 2, 28) + dt.timedelta(days=each) for each in range(3)]
NAMES = ["a", "A", "", "é", "a ", "'", '"x"']
IDS = [uuid.UUID(int=each << 124 | 5) for each in range(12)]
KINDS: dict[str, tuple[Table, list[Key]]] = {
    "integer": (_table("integer", _id(Integer)), [(each,) for each in range(-3, 12)]),
    "bigint": (_table("bigint", _id(BigInteger)), [(1 << each,) for each in range(3, 63, 6)]),
    "text": (_table("text", _id(String)), [(each,) for each in NAMES]),
    "uuid": (_table("uuid", _id(Uuid)), [(each,) for each in IDS]),
    "two": (
        _table("two", _id(String), Column("d", Date, primary_key=True)),
        [(name, day) for name in NAMES[:4] for day in DAYS],
    ),
}


@dataclass
class Twin:
    """A connection and what its table ought to hold; savepoints bring both back."""

    connection: Connection
    table: Table
    chance: random.Random
    keys: list[Key]
    rows: Rows
    points: list[tuple[Any, Rows]] = field(default_factory=list)

    def named(self, key: Key) -> dict[str, Any]:
        return dict(zip((each.name for each in self.table.primary_key), key, strict=True))

    def some(self, most: int = 4) -> list[Key]:
        return self.chance.sample(self.keys, self.chance.randint(1, most))

    def value(self) -> tuple[int, str | None]:
        return self.chance.randrange(100), self.chance.choice([None, "", "x"])

    def where(self, key: Key) -> Any:
        columns = zip(self.table.primary_key, key, strict=True)
        return [column == value for column, value in columns]

    def add(self) -> None:
        new = {key: self.value() for key in self.some()}
        sets = [{**self.named(key), "n": n, "s": s} for key, (n, s) in new.items()]
        if new.keys() & self.rows.keys():
            with pytest.raises(exc.IntegrityError):
                self.connection.execute(insert(self.table), sets)
            return
        self.connection.execute(insert(self.table), sets if len(sets) > 1 else sets[0])
        self.rows.update(new)

    def change(self) -> None:
        for key in self.some(2):
            n, s = self.value()
            choices: list[dict[str, Any]] = [{"n": n}, {"s": s}, {"n": n, "s": s}]
            values = self.chance.choice(choices)
            statement = self.table.update().where(*self.where(key)).values(values)
            found = self.connection.execute(statement).rowcount
            assert found == (key in self.rows)
            if found:
                old = self.rows[key]
                self.rows[key] = (values.get("n", old[0]), values.get("s", old[1]))

    def remove(self) -> None:
        for key in self.some(2):
            found = self.connection.execute(self.table.delete().where(*self.where(key)))
            assert found.rowcount == (self.rows.pop(key, None) is not None)

    def upsert(self) -> None:
        new = {key: self.value() for key in self.some()}
        sets = [{**self.named(key), "n": n, "s": s} for key, (n, s) in new.items()]
        statement, there = insert(self.table), new.keys() & self.rows.keys()
        draw = self.chance.random()
        if draw < 0.2:
            statement = statement.on_conflict_do_nothing()
            expected = MergeResult(inserted=len(new) - len(there), skipped=len(there))
            new = {key: values for key, values in new.items() if key not in there}
        else:
            only_n = draw < 0.4
            assigned = {"n": statement.excluded.n} if only_n else None
            statement = statement.on_conflict_do_update(set_=assigned)
            if only_n:
                new.update({key: (new[key][0], self.rows[key][1]) for key in there})
            differing = sum(self.rows[key] != new[key] for key in there)
            expected = MergeResult(len(new) - len(there), differing, 0, len(there) - differing)
        found = self.connection.execute(statement, sets if len(sets) > 1 else sets[0])
        assert merge_result(found) == expected
        assert found.rowcount == expected.written
        self.rows.update(new)

    def change_many(self) -> None:
        """Run what the engine has to look at."""
        bound = self.chance.randrange(100)
        statement = self.table.update().where(self.table.c.n < bound)
        found = self.connection.execute(statement.values(n=self.table.c.n + 1)).rowcount
        hit = {key: (n + 1, s) for key, (n, s) in self.rows.items() if n < bound}
        assert found == len(hit)
        self.rows.update(hit)

    def refuse(self) -> None:
        (key,) = self.some(1)
        with pytest.raises(exc.IntegrityError):
            self.connection.execute(insert(self.table), {**self.named(key), "n": None})
        statement = self.table.update().where(*self.where(key)).values(n=None)
        if key in self.rows:
            with pytest.raises(exc.IntegrityError):
                self.connection.execute(statement)

    def read(self) -> None:
        (key,) = self.some(1)
        columns = (self.table.c.n, self.table.c.s)
        row = self.connection.execute(select(*columns).where(*self.where(key))).first()
        assert row == self.rows.get(key)

    def compare(self) -> None:
        found = self.connection.execute(select(self.table)).all()
        amount = len(self.table.primary_key)
        assert {tuple(row[:amount]): tuple(row[amount:]) for row in found} == self.rows
        assert len(found) == len(self.rows)

    def set_point(self) -> None:
        self.points.append((self.connection.begin_nested(), dict(self.rows)))

    def end_point(self) -> None:
        if not self.points:
            return
        point, rows = self.points.pop()
        if self.chance.random() < 0.5:
            point.commit()
        else:
            point.rollback()
            self.rows = rows


STEPS_OF: list[tuple[Callable[[Twin], None], int]] = [
    (Twin.add, 8),
    (Twin.change, 8),
    (Twin.remove, 5),
    (Twin.upsert, 6),
    (Twin.change_many, 1),
    (Twin.refuse, 1),
    (Twin.read, 3),
    (Twin.compare, 2),
    (Twin.set_point, 2),
    (Twin.end_point, 2),
]


@pytest.fixture(params=["copied", "where it is"])
def scoped(request: pytest.FixtureRequest, lake_url: URL) -> Iterator[tuple[Engine, bool]]:
    engine = create_engine(lake_url, ducklake_write_scope=True)
    yield engine, request.param == "where it is"
    engine.dispose()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_what_a_dictionary_says(scoped: tuple[Engine, bool], kind: str) -> None:
    (engine, spread), (table, keys) = scoped, KINDS[kind]
    table.create(engine)
    rows: Rows = {}
    if spread:
        # More files than a table may have that is copied.
        with engine.begin() as connection:
            for number, key in enumerate(keys[:5]):
                names = [each.name for each in table.c]
                one = dict(zip(names, (*key, number, "file"), strict=True))
                write_table(connection, table, [one], mode="append")
                rows[key] = (number, "file")
    for number in range(ROUNDS):
        seed = f"{kind} {number}"
        print("seed", seed)
        chance = random.Random(seed)
        with engine.connect() as connection:
            twin = Twin(connection, table, chance, keys, dict(rows))
            actions, weights = zip(*STEPS_OF, strict=True)
            for action in chance.choices(actions, weights, k=STEPS):
                action(twin)
            while twin.points:
                twin.end_point()
            twin.compare()
            if chance.random() < 0.75:
                connection.commit()
                rows = twin.rows
            else:
                connection.rollback()
        with engine.connect() as connection:
            Twin(connection, table, chance, keys, rows).compare()
