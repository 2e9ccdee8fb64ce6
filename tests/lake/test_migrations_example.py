"""The example of migrations on real flights: up, down, up again, offline, and refused."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Engine, create_engine, inspect, select, text

from fixtures.catalogs import PASSWORD
from lake.test_alembic_revisions import run_script
from migrations_example import quickstart
from migrations_example.flights import Airline, Flight
from sqlalchemy_ducklake import insert, snapshots
from sqlalchemy_ducklake.errors import AmbiguousKeys
from sqlalchemy_ducklake.snapshots import Snapshot

INI = Path(quickstart.__file__).parent / "alembic.ini"
DATA = quickstart.find_data()
EACH = 400


@lru_cache(maxsize=1)
def some_flights() -> list[dict[str, Any]]:
    chunks = quickstart.chunks(DATA / "flights.csv.zip")
    return [row for rows in chunks for row in rows[::EACH]]


class Example:
    """The example on a lake of its own."""

    def __init__(self, url: URL) -> None:
        self.output = io.StringIO()
        self.config = Config(str(INI), output_buffer=self.output, stdout=self.output)
        address = url.render_as_string(hide_password=False).replace("%", "%%")
        self.config.set_main_option("sqlalchemy.url", address)
        self.engine: Engine = create_engine(url)

    def upgrade(self, to: str = "head") -> None:
        command.upgrade(self.config, to)

    def load(self) -> list[dict[str, Any]]:
        """Load some flights of every month as the first revision has them."""
        flights = sa.Table("flights", sa.MetaData(), autoload_with=self.engine)
        rows = [
            {one.name: row.get(one.name) for one in flights.c}
            | {"route": {"origin": row["origin"], "dest": row["dest"]}}
            for row in some_flights()
        ]
        with self.engine.begin() as connection:
            airlines = next(iter(quickstart.chunks(DATA / "airlines.csv")))
            connection.execute(insert(Airline.__table__), airlines)
            connection.execute(insert(flights), rows)
        return rows


@pytest.fixture
def example(any_url: URL) -> Any:
    example = Example(any_url)
    yield example
    example.engine.dispose()


def test_the_example_goes_up_and_down_and_up_again_with_all_its_flights(
    example: Example,
) -> None:
    example.upgrade("0001")
    rows = example.load()
    first = rows_of(example.engine, "flights")
    for _ in range(2):
        example.upgrade()
        command.check(example.config)
        check_flights(example.engine, rows)
        command.downgrade(example.config, "0001")
        assert rows_of(example.engine, "flights") == first
    told = [
        (one.extra["alembic"]["direction"], one.extra["alembic"]["revision"])
        for one in example_snapshots(example.engine)
    ]
    numbers = [f"000{number}" for number in range(2, 7)]
    up = [("upgrade", number) for number in numbers]
    down = [("downgrade", number) for number in reversed(numbers)]
    assert told == [("upgrade", "0001"), *up, *down, *up, *down]


def example_snapshots(engine: Engine) -> list[Snapshot]:
    with engine.connect() as connection:
        found = snapshots(connection)
        return sorted((one for one in found if "alembic" in (one.extra or {})), key=number)


def number(snapshot: Snapshot) -> int:
    return snapshot.id


def rows_of(engine: Engine, table: str) -> list[dict[str, Any]]:
    found = sa.Table(table, sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        query = select(found).order_by(*found.c[: 5 if table == "flights" else 1])
        return sorted(
            (dict(row) for row in connection.execute(query).mappings()),
            key=lambda row: (row["time_hour"], row["carrier"], row["flight"], row["origin"]),
        )


def check_flights(engine: Engine, rows: list[dict[str, Any]]) -> None:
    """Compare what the lake holds at the head with what was loaded."""
    with engine.connect() as connection:
        found = connection.execute(select(Flight.__table__)).all()
        files = text("SELECT count(DISTINCT filename) FROM flights")
        assert (connection.scalar(files) or 0) >= 12
    assert len(found) == len(rows)
    there = {(row.time_hour, row.carrier, row.flight, row.origin): row for row in found}
    for row in rows:
        one = there[row["time_hour"], row["carrier"], row["flight"], row["origin"]]
        assert one.route["miles"] == row["distance"]
        speed = row["distance"] * 60 / row["air_time"] if row["air_time"] else None
        assert one.speed == (None if speed is None else pytest.approx(speed))


def test_data_that_violate_the_new_key_are_named_and_stop_there(example: Example) -> None:
    example.upgrade("0004")
    with example.engine.begin() as connection:
        connection.execute(insert(Airline.__table__), [{"carrier": "UA", "name": "United"}])
        flights = sa.Table("flights", sa.MetaData(), autoload_with=connection)
        hour = datetime(2013, 1, 1, 10, tzinfo=UTC)
        row = {"time_hour": hour, "carrier": "UA", "flight": 7, "origin": "JFK"}
        rows = [{**row, "dest": dest} for dest in ("SFO", "LAX")]
        connection.execute(insert(flights), rows)
    with pytest.raises(AmbiguousKeys, match="'UA', 7, 'JFK'"):
        example.upgrade()
    key = inspect(example.engine).get_pk_constraint("flights")["constrained_columns"]
    assert key == ["time_hour", "carrier", "flight", "origin", "dest"]
    with example.engine.begin() as connection:
        connection.execute(text("DELETE FROM flights WHERE dest = 'LAX'"))
    example.upgrade()
    command.check(example.config)


def test_offline_the_example_is_one_script_that_runs_over_its_rows(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    online = Example(URL.create("ducklake", database=str(tmp_path / "online.ducklake")))
    online.upgrade("0001")
    rows = online.load()
    online.upgrade()
    command.upgrade(example.config, "head", sql=True)
    first, second = example.output.getvalue().split("-- Running upgrade 0001 -> 0002")
    run_script(first.removesuffix("BEGIN;\n\n"))
    assert example.load() == rows
    example.engine.dispose()
    attach = first.partition("BEGIN;")[0]
    run_script(f"{attach}BEGIN;\n{second}")
    assert rows_of(example.engine, "flights") == rows_of(online.engine, "flights")
    command.check(example.config)
    check_flights(example.engine, rows)
    online.engine.dispose()
