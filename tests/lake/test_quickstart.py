"""The quickstart on its real data: what it prints, and what the lake then holds."""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from sqlalchemy import Engine, create_engine, exc, func, insert, inspect, select

from migrations_example import quickstart
from migrations_example.models import Airline, Base, Flight, Plane, Weather

DATA = quickstart.find_data()


def load(engine: Engine, name: str) -> None:
    quickstart.load(
        engine, Base.metadata.tables[quickstart.FILES[name].__tablename__], DATA / name
    )


def mean_delays() -> dict[str, float]:
    """Work out from the files alone what the quickstart asks the lake."""
    names = {
        row["carrier"]: row["name"]
        for rows in quickstart.chunks(DATA / "airlines.csv")
        for row in rows
    }
    delays = defaultdict(list)
    for rows in quickstart.chunks(DATA / "flights.csv.zip"):
        for row in rows:
            if row["arr_delay"] is not None:
                delays[names[row["carrier"]]].append(row["arr_delay"])
    return {name: fmean(minutes) for name, minutes in delays.items()}


FIRST_RUN = (
    r"flights\.ducklake is new",
    r"airports +1,458 rows in",
    r"planes +3,322 rows in",
    r"weather +26,115 rows in",
    r"flights +336,776 rows in",
    r"25,500 rows in .*: 500 inserted, 20,000 updated, 5,000 unchanged\n  snapshot 7",
    r"25,500 rows in .*: 0 inserted, 0 updated, 25,500 unchanged\n  no new snapshot",
    r"8,255 rows deleted in .* s, 329,021 left\n  snapshot 8",
    r"ExpressJet Airlines Inc\. +15\.8 +11\.3  <- corrected",
)
SECOND_RUN = (
    r"flights\.ducklake exists",
    r"flights +329,021 rows, loaded before",
    r"500 inserted, 20,000 updated, 5,000 unchanged\n  snapshot 9",
    r"0 inserted, 0 updated, 25,500 unchanged\n  no new snapshot",
    r"0 rows deleted in .* s, 329,521 left\n  no new snapshot, it stays at 9",
    r"ExpressJet Airlines Inc\. +11\.3 +6\.8  <- corrected",
)


def test_the_quickstart_tells_its_story_and_runs_again_on_its_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for told in (FIRST_RUN, SECOND_RUN):
        assert quickstart.main([str(tmp_path)]) == 0
        output = capsys.readouterr().out
        assert [line for line in told if not re.search(line, output)] == []

    engine = create_engine(f"ducklake:///{tmp_path}/flights.ducklake")
    with engine.connect() as connection:
        assert quickstart.lateness(connection, 6) == pytest.approx(mean_delays())
        corrected = connection.scalar(
            select(func.count()).where(Flight.carrier == quickstart.LATE_CARRIER)
        )
    engine.dispose()
    assert corrected == 54_173 + 2 * 500 - 2_817  # flights, new ones, those that never left


def test_tables_have_the_keys_of_the_data(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    load(engine, "airlines.csv")
    keys = inspect(engine).get_pk_constraint
    assert keys(Weather.__tablename__)["constrained_columns"] == ["time_hour", "origin"]
    assert keys(Flight.__tablename__)["constrained_columns"] == [
        "time_hour",
        "carrier",
        "flight",
        "origin",
    ]
    with engine.begin() as connection, pytest.raises(exc.IntegrityError, match="'AA'"):
        connection.execute(insert(Airline), [{"carrier": "AA", "name": "Another"}])


def test_a_load_brings_every_row_in_one_snapshot_and_happens_once(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    before = quickstart.newest_snapshot(engine)
    for _ in range(2):
        load(engine, "planes.csv")
        assert quickstart.newest_snapshot(engine) == before + 1
    (rows,) = quickstart.chunks(DATA / "planes.csv")
    planes = Base.metadata.tables[Plane.__tablename__]
    with engine.connect() as connection:
        loaded = connection.execute(select(planes).order_by(Plane.tailnum)).mappings()
        assert [dict(row) for row in loaded] == sorted(rows, key=lambda row: row["tailnum"])


def test_without_the_flights_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert quickstart.main([str(tmp_path / "new.ducklake")]) == 1
    message = capsys.readouterr().err
    assert 'pip install "sqlalchemy_ducklake[bundled,examples]"' in message
    assert list(tmp_path.iterdir()) == []
