"""How errors show the examples they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def tuples(examples: Sequence[Sequence[Any]]) -> str:
    """Write rows of values, each in parentheses."""
    return ", ".join("(" + ", ".join(map(repr, each)) + ")" for each in examples)


def named(constraint: str | None) -> str:
    """Write the name of a constraint behind its kind, or nothing."""
    return f" {constraint!r}" if constraint else ""
