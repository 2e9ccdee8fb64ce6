"""What is left of several changes to one key, as a pure function: the model of a scope's log.

A transaction may insert a key, change it, delete it and insert it again; the lake is told
only what all that comes to.  ``compose`` is the table of it.  The log of a scope keeps rows,
not changes, and must come to the same: a row of the lake that is gone, a row of the lake
with other values, a row that is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    """What a change does to its key."""

    INSERT = "a row that was not there"
    UPSERT = "a complete row, whether one was there or not"
    UPDATE = "new values for some columns of a row that is there"
    DELETE = "no row any more"


@dataclass(frozen=True, slots=True)
class Effect:
    """A change to one key: its kind, and the values that it assigns.

    A column that is not among the ``values`` is left alone; one that is assigned NULL is.
    """

    kind: Kind
    values: Mapping[str, Any] = field(default_factory=dict)


class Impossible(ValueError):
    """A change that cannot follow another: the statement was refused before it came here."""


def compose(before: Effect | None, change: Effect) -> Effect | None:
    """Give what a change comes to after what is kept for its key; None if nothing is left.

    Raises Impossible for the update of a key that is deleted, and for the insert of one
    that is there.
    """
    if before is None:
        return change
    if change.kind is Kind.DELETE:
        # Nothing was there before an insert, so nothing is left.
        return None if before.kind is Kind.INSERT else change
    if before.kind is Kind.DELETE:
        return _after_delete(change)
    if change.kind is Kind.UPDATE:
        return Effect(before.kind, {**before.values, **change.values})
    if change.kind is Kind.INSERT:
        raise Impossible("a key that is there was inserted")
    return Effect(Kind.INSERT if before.kind is Kind.INSERT else Kind.UPSERT, change.values)


def _after_delete(change: Effect) -> Effect:
    """Replace the row in place: the lake still holds the one that was deleted."""
    if change.kind is Kind.UPDATE:
        raise Impossible("a key that is deleted was updated")
    return Effect(Kind.UPSERT, change.values)
