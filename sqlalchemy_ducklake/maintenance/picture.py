"""A picture of ranges: one bar for each file, in lanes, so that overlaps pile up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import Any

_WIDTH, _MARGIN, _LANE, _BAR = 900, 20, 14, 10
_HEAD = 46


@dataclass(frozen=True, slots=True)
class Bar:
    """A file: its name, the range of its values, its rows and how many are deleted."""

    name: str
    low: Any
    high: Any
    rows: int
    deleted: int = 0


def picture(title: str, bars: Sequence[Bar]) -> str:
    """Draw bars as SVG; what users named is escaped."""
    scale = _scale(bars)
    lanes = _lanes(bars)
    height = _HEAD + _LANE * max(len(lanes), 1) + _MARGIN
    drawn = "".join(
        _drawn(bar, scale, lane) for lane, several in enumerate(lanes) for bar in several
    )
    low, high = _ends(bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 2 * _MARGIN}" '
        f'height="{height}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_MARGIN}" y="18" font-size="14">{escape(title)}</text>'
        f'<text x="{_MARGIN}" y="36" fill="#555">{escape(low)}</text>'
        f'<text x="{_WIDTH + _MARGIN}" y="36" fill="#555" text-anchor="end">'
        f"{escape(high)}</text>{drawn}</svg>\n"
    )


def _drawn(bar: Bar, scale: dict[Any, float], lane: int) -> str:
    left, right = scale[bar.low], scale[bar.high]
    kept = 1 - bar.deleted / bar.rows if bar.rows else 1.0
    tip = f"{bar.name}: {bar.low} to {bar.high}, {bar.rows} rows, {bar.deleted} deleted"
    return (
        f'<rect x="{_MARGIN + left:.1f}" y="{_HEAD + lane * _LANE}" '
        f'width="{max(right - left, 1.5):.1f}" height="{_BAR}" fill="#2a6f97" '
        f'fill-opacity="{0.25 + 0.75 * kept:.2f}"><title>{escape(tip)}</title></rect>'
    )


def _lanes(bars: Sequence[Bar]) -> list[list[Bar]]:
    """Put each bar into the first lane where it lies behind all others."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda each: (each.low, each.high)):
        lane = next((each for each in lanes if each[-1].high < bar.low), None)
        if lane is None:
            lanes.append(lane := [])
        lane.append(bar)
    return lanes


def _scale(bars: Sequence[Bar]) -> dict[Any, float]:
    """Give each value its place: numbers by their size, all else by their order."""
    values = sorted({each.low for each in bars} | {each.high for each in bars})
    if len(values) < 2:
        return dict.fromkeys(values, 0.0)
    if all(isinstance(each, Decimal) and each.is_finite() for each in values):
        span = values[-1] - values[0]
        return {each: float((each - values[0]) / span) * _WIDTH for each in values}
    step = _WIDTH / (len(values) - 1)
    return {each: place * step for place, each in enumerate(values)}


def _ends(bars: Sequence[Bar]) -> tuple[str, str]:
    if not bars:
        return "no files", ""
    return str(min(each.low for each in bars)), str(max(each.high for each in bars))
