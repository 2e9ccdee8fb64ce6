"""What may be written behind ``python -m sqlalchemy_ducklake``."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    found = argparse.ArgumentParser(
        prog="python -m sqlalchemy_ducklake",
        description="Look into a DuckLake, and keep it fit.",
    )
    found.add_argument("url", help="the lake, for example ducklake:///shop.ducklake")
    commands = found.add_subparsers(dest="command", required=True, metavar="command")
    maintain = commands.add_parser("maintain", help="merge files, forget what is old")
    maintain.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    maintain.add_argument(
        "--expire-older-than",
        type=age,
        default=timedelta(days=7),
        metavar="AGE",
        help="forget snapshots of this age, like 12h or 7d (7d); never: keep all",
    )
    maintain.add_argument(
        "--delete-older-than",
        type=age,
        metavar="AGE",
        help="delete files that nobody needs for this age (as for snapshots)",
    )
    maintain.add_argument(
        "--table", action="append", metavar="TABLE", help="compact this one only; repeatable"
    )
    snapshots = commands.add_parser("snapshots", help="what was committed, newest first")
    snapshots.add_argument("--limit", type=number, default=20, help="how many (20)")
    snapshots.add_argument("--table", help="versions of this table only")
    commands.add_parser("tables", help="the tables, their files and rows")
    diff = commands.add_parser("diff", help="how many rows differ between two snapshots")
    diff.add_argument("table")
    diff.add_argument("first", type=number, help="a snapshot")
    diff.add_argument("last", type=number, help="a snapshot")
    for each in commands.choices.values():
        each.add_argument("--json", action="store_true", help="print JSON")
    return found


def age(text: str) -> timedelta | None:
    """Read an age like ``7d``, ``12h`` or ``90m``; ``never`` is None."""
    if text.lower() == "never":
        return None
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no age; write a number with s, m, h, d or w, like 7d, or never"
        )
    return timedelta(**{_UNITS[found[2]]: float(found[1])})


def number(text: str) -> int:
    """Read a number that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return int(text)
