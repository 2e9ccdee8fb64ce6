"""Time works against each other in one run, and print what came out.

A shared machine makes absolute times worthless and even ratios noisy: so the works take
turns, the medians are compared, and CPU seconds (all threads) stand beside wall seconds.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import duckdb
from sqlalchemy import URL, Engine, create_engine, event


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds on the wall and on all cores."""

    wall: float
    cpu: float

    def __add__(self, other: Timing) -> Timing:
        return Timing(self.wall + other.wall, self.cpu + other.cpu)


def timed(work: Callable[[], object]) -> Timing:
    """Time one call, without the garbage of those before it."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Timing(time.perf_counter() - wall, time.process_time() - cpu)


def medians(works: Mapping[str, Callable[[], Timing]], runs: int) -> dict[str, Timing]:
    """Let the works take turns, after one for practice, and give the median of each."""
    for work in works.values():
        work()
    turns = [{name: work() for name, work in works.items()} for _ in range(runs)]
    return {name: _median([turn[name] for turn in turns]) for name in works}


def _median(timings: Sequence[Timing]) -> Timing:
    return Timing(median(each.wall for each in timings), median(each.cpu for each in timings))


def driver_stub(url: URL) -> Engine:
    """Make an engine whose many parameter sets end where the driver would take them."""
    engine = create_engine(url)

    @event.listens_for(engine, "do_executemany")
    def done(*_: object) -> bool:
        return True

    return engine


@dataclass(frozen=True, slots=True)
class Report:
    """What one benchmark found; ``facts`` say what the works did, not how fast."""

    title: str
    times: Mapping[str, Timing]
    floor: Timing
    facts: Mapping[str, object]

    def print(self) -> None:
        """Print a table of times and their ratios to the floor, then the facts."""
        width = max(map(len, self.times))
        print(f"\n{self.title}")
        print(f"{os.cpu_count()} cores, DuckDB {duckdb.__version__}, medians")
        for name, *cells in (_HEADER, *self._lines()):
            print(f"  {name:{width}}" + "".join(f"{cell:>12}" for cell in cells))
        for name, fact in self.facts.items():
            print(f"  {name}: {fact}")

    def _lines(self) -> Iterator[tuple[str, ...]]:
        for name, timing in self.times.items():
            seconds = (f"{timing.wall:.4f}", f"{timing.cpu:.4f}")
            wall, cpu = timing.wall / self.floor.wall, timing.cpu / self.floor.cpu
            yield name, *seconds, f"{wall:.2f}", f"{cpu:.2f}"


_HEADER = ("", "wall s", "CPU s", "wall ratio", "CPU ratio")
