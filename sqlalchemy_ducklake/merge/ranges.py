"""Keys that lie far apart: read the few files that can hold them, not all between them.

The engine prunes the files of a join by the lowest and the highest key of the stage, so a
few keys from far back among many recent ones make it read everything between (measured:
13 times the work on 10 files).  So the staged keys are put into buckets, the buckets into
at most eight ranges with the widest gaps between them, and the target is read range by
range.  The rows that are found tell their files, and UPDATE and DELETE read only these.

All of that is worth it only if the ranges cover little of the whole and the table has
files to leave out; if not, the plan goes on as if there were no ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    DateTime,
    Double,
    Integer,
    String,
    and_,
    case,
    cast,
    column,
    func,
    literal,
    select,
    true,
    union_all,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.schema import Table
from sqlalchemy.sql.selectable import FromClause, Select, Subquery, TableClause

from sqlalchemy_ducklake.driver.script import Role, Step
from sqlalchemy_ducklake.merge.checks import Key
from sqlalchemy_ducklake.merge.staging import FILE, FILES, KEY_RANGES
from sqlalchemy_ducklake.merge.steps import Bare, PlannedStep, SetVariable, constant

#: The count that says whether the target is read range by range.
RANGES = "ranges"
_FAR_APART, _MANY_FILES = "far apart", "many files"
#: At most so many ranges are read, each with a scan of its own.
_MOST = 8
_BUCKETS = 1023
#: A table of fewer files is read as a whole.
_FEWEST_FILES = 4


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges of a staged key column in a target."""

    target: Table
    stage: TableClause
    key: Column[Any]

    def steps(self) -> Iterator[PlannedStep]:
        """Find the ranges, if the keys are far apart, and count whether they are used."""
        span = self._distance(func.max(self._staged), func.min(self._staged))
        sparse = span > func.count() * constant(_MOST)
        far: Select[Any] = select(constant(_FAR_APART), _one_if(sparse))
        yield PlannedStep(far.select_from(self.stage), Step(Role.COUNTS))
        yield PlannedStep(self._count_files(), Step(Role.COUNTS, when=(_FAR_APART,)))
        when = (_MANY_FILES,)
        yield PlannedStep(SetVariable(KEY_RANGES, self._ranges()), Step(when=when))
        found = _variable(KEY_RANGES).is_not(None)
        used: Select[Any] = select(constant(RANGES), _one_if(found))
        yield PlannedStep(used, Step(Role.COUNTS, when=when))

    @cached_property
    def scan(self) -> Subquery:
        """Read the target range by range, with the file of each row."""
        stored = self.target.c[self.key.key]
        scans = []
        for number in range(1, _MOST + 1):
            edges = func.list_extract(_variable(KEY_RANGES), constant(number))
            low, high = (func.list_extract(edges, constant(edge)) for edge in (1, 2))
            within = and_(stored >= low, stored <= high)
            scans.append(select(*self.target.c, self._file.label(FILE)).where(within))
        return union_all(*scans).subquery("ranges")

    def note_files(self, effects: FromClause, changing: ColumnElement[bool]) -> PlannedStep:
        """Remember the files of the rows that change."""
        files = select(func.list(effects.c[FILE].distinct())).where(changing)
        return PlannedStep(SetVariable(FILES, files), Step(when=(RANGES,)))

    @property
    def in_files(self) -> ColumnElement[bool]:
        """Say that a row of the target is in one of the remembered files."""
        found: ColumnElement[bool] = func.list_contains(_variable(FILES), self._file)
        return found

    @property
    def _staged(self) -> ColumnElement[Any]:
        return self.stage.c[self.key.name]

    @property
    def _file(self) -> ColumnElement[Any]:
        found = column("filename", String())
        found.table = self.target
        return found

    def _number(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """Give a key as a number; it only decides how keys are grouped, so it may round."""
        return cast(value, Double) if isinstance(self.key.type, Integer) else func.epoch(value)

    def _distance(
        self, high: ColumnElement[Any], low: ColumnElement[Any]
    ) -> ColumnElement[Any]:
        return self._number(high) - self._number(low)

    def _ranges(self) -> Select[Any]:
        """Select the list of ranges, each a list of lowest and highest; NULL if unwise."""
        ranges = self._islands(self._buckets()).subquery("ranges")
        low, high = ranges.c.low, ranges.c.high
        covered = func.sum(self._distance(high, low)) * constant(4)
        narrow = covered < self._distance(func.max(high), func.min(low))
        found = case((narrow, func.list(func.list_value(low, high))))
        return select(found).select_from(ranges)

    def _count_files(self) -> Select[Any]:
        files = func.ducklake_table_info(func.current_database()).table_valued(
            "table_name", "file_count", name="info"
        )
        many = func.max(files.c.file_count) >= constant(_FEWEST_FILES)
        counted: Select[Any] = select(constant(_MANY_FILES), _one_if(many))
        own = files.c.table_name == Bare(literal(self.target.name, String()), String())
        return counted.where(own)

    def _buckets(self) -> Subquery:
        staged = self._staged
        whole = select(func.min(staged).label("low"), func.max(staged).label("high"))
        edges = whole.select_from(self.stage).subquery("edges")
        share = self._distance(staged, edges.c.low) / self._distance(edges.c.high, edges.c.low)
        bucket = cast(share * constant(_BUCKETS), BigInteger)
        low, high = func.min(staged).label("low"), func.max(staged).label("high")
        rows = select(low, high).select_from(self.stage.join(edges, true()))
        rows = rows.where(staged.is_not(None)).group_by(bucket)
        return rows.subquery("buckets")

    def _islands(self, buckets: Subquery) -> Select[Any]:
        low, high = buckets.c.low, buckets.c.high
        before = func.lag(high).over(order_by=low)
        gaps = select(low, high, self._distance(low, before).label("gap")).subquery("gaps")
        widest = gaps.c.gap.desc().nulls_first()
        rank = func.row_number().over(order_by=widest).label("rank")
        ranked = select(gaps.c.low, gaps.c.high, rank).subquery("ranked")
        begins = _one_if(ranked.c.rank <= constant(_MOST))
        island = func.sum(begins).over(order_by=ranked.c.low).label("island")
        placed = select(ranked.c.low, ranked.c.high, island).subquery("placed")
        edges = (func.min(placed.c.low).label("low"), func.max(placed.c.high).label("high"))
        return select(*edges).group_by(placed.c.island)


def ranges_of(target: FromClause, key: Key, stage: TableClause) -> Ranges | None:
    """Give the ranges of the first column of a key that has distances, None without one."""
    if not isinstance(target, Table) or "TEMPORARY" in target._prefixes:  # noqa: SLF001
        return None
    if any(each.name.lower() == "filename" for each in target.c):
        return None  # it hides the engine's own
    for each in key.columns:
        if isinstance(each.type, Integer | Date | DateTime):
            return Ranges(target, stage, each)
    return None


def _variable(name: str) -> ColumnElement[Any]:
    return func.getvariable(constant(name))


def _one_if(condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return case((condition, constant(1)), else_=constant(0))
