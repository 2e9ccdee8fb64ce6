"""A record of what writers and readers did, replayed in the order of the lake's history.

Each operation that wrote tells its snapshot.  Applied one after another in that order to a
dictionary, they must give exactly what each of them counted, what each reader saw at its
snapshot, and what the table holds in the end.  So nothing that was acknowledged is lost,
nothing that was refused is there, and nothing happened twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Rows = dict[int, int]


@dataclass(frozen=True)
class Operation:
    """One operation: what was asked, what came of it, and at which snapshot.

    ``kind`` is ``insert``, ``add`` (an upsert that adds), ``set`` (an upsert of rows),
    ``delete`` or ``read``.  ``counts`` are inserted, updated and deleted rows.  Without an
    effect there is no snapshot; then it took place ``between`` two snapshots, ends included.
    """

    kind: str
    rows: Mapping[int, int]
    counts: tuple[int, int, int] = (0, 0, 0)
    snapshot: int | None = None
    between: tuple[int, int] = (0, 0)
    refused: bool = False


class Contradiction(AssertionError):
    """The record and the history do not agree."""


def applied(state: Rows, operation: Operation) -> tuple[Rows, tuple[int, int, int]]:
    """Give the rows after an operation, and what it counts; a key may refuse an insert."""
    after, rows = dict(state), operation.rows
    if operation.kind == "insert":
        if state.keys() & rows.keys():
            raise Contradiction(f"{operation} was not refused, with {state}")
        after.update(rows)
    elif operation.kind == "add":
        after.update({key: state.get(key, 0) + number for key, number in rows.items()})
    elif operation.kind == "set":
        after.update(rows)
    elif operation.kind == "delete":
        for key in rows:
            after.pop(key, None)
    inserted = len(after.keys() - state.keys())
    deleted = len(state.keys() - after.keys())
    updated = sum(after[key] != state[key] for key in after.keys() & state.keys())
    return after, (inserted, updated, deleted)


def replay(first: Rows, start: int, operations: Iterable[Operation]) -> Rows:
    """Give the rows that the operations must have left, from those at snapshot ``start``.

    Raises Contradiction for what cannot have happened.
    """
    by_snapshot: dict[int, list[Operation]] = defaultdict(list)
    others = []
    for operation in operations:
        if operation.kind == "read" or operation.snapshot is None:
            others.append(operation)
        else:
            by_snapshot[operation.snapshot].append(operation)
    states = {start: first}
    current = first
    for snapshot in sorted(by_snapshot):
        if snapshot <= start:
            raise Contradiction(f"{by_snapshot[snapshot]} before the beginning")
        for operation in by_snapshot[snapshot]:
            current, counts = applied(current, operation)
            if counts != operation.counts:
                raise Contradiction(f"{operation} would count {counts}")
        states[snapshot] = current
    for operation in others:
        _check_without_effect(operation, states)
    return current


def _check_without_effect(operation: Operation, states: Mapping[int, Rows]) -> None:
    low, high = operation.between
    known = sorted(states)
    begin = max((each for each in known if each <= low), default=known[0])
    possible = [states[each] for each in known if begin <= each <= high]
    if not any(_is_possible(operation, state) for state in possible):
        raise Contradiction(f"{operation} in none of {possible}")


def _is_possible(operation: Operation, state: Rows) -> bool:
    if operation.kind == "read":
        return state == operation.rows
    if operation.refused:
        return bool(state.keys() & operation.rows.keys())
    if operation.kind == "insert":
        return not operation.rows  # else it has an effect, or is refused
    return applied(state, operation)[1] == (0, 0, 0)
