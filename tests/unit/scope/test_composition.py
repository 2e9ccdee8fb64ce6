"""M1, M2: what several changes to one key come to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.composition import Effect, Impossible, Kind, compose

_OLD, _NEW = {"a": 1, "b": 2}, {"a": 3, "b": None}
_INSERT, _UPSERT, _UPDATE, _DELETE = Kind.INSERT, Kind.UPSERT, Kind.UPDATE, Kind.DELETE

# The table of M1: kept, next, what they come to (None: nothing).
_TABLE: list[tuple[Kind | None, Kind, Kind | None]] = [
    *((None, each, each) for each in Kind),
    (_INSERT, _UPSERT, _INSERT),
    (_INSERT, _UPDATE, _INSERT),
    (_INSERT, _DELETE, None),
    (_UPSERT, _UPSERT, _UPSERT),
    (_UPSERT, _UPDATE, _UPSERT),
    (_UPSERT, _DELETE, _DELETE),
    (_UPDATE, _UPSERT, _UPSERT),
    (_UPDATE, _UPDATE, _UPDATE),
    (_UPDATE, _DELETE, _DELETE),
    (_DELETE, _INSERT, _UPSERT),
    (_DELETE, _UPSERT, _UPSERT),
    (_DELETE, _DELETE, _DELETE),
]
_IMPOSSIBLE = [(_DELETE, _UPDATE), (_INSERT, _INSERT), (_UPSERT, _INSERT), (_UPDATE, _INSERT)]


def _effect(kind: Kind, values: dict[str, Any]) -> Effect:
    return Effect(kind, {} if kind is _DELETE else values)


@pytest.mark.parametrize(("before", "change", "left"), _TABLE)
def test_every_pair_of_changes_comes_to_what_the_table_says(
    before: Kind | None, change: Kind, left: Kind | None
) -> None:
    kept = None if before is None else _effect(before, _OLD)
    found = compose(kept, _effect(change, _NEW))
    assert (found and found.kind) == left
    if found is not None and left is not _DELETE:
        assert found.values == _NEW


@pytest.mark.parametrize(("before", "change"), _IMPOSSIBLE)
def test_what_a_statement_refused_never_comes_here(before: Kind, change: Kind) -> None:
    with pytest.raises(Impossible):
        compose(_effect(before, _OLD), _effect(change, _NEW))


def test_a_column_that_is_not_assigned_keeps_what_was_assigned_before() -> None:
    first = compose(Effect(_UPDATE, {"a": None}), Effect(_UPDATE, {"b": 5}))
    assert first == Effect(_UPDATE, {"a": None, "b": 5})


_rows = st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.none() | st.integers(0, 2)})
_patches = st.dictionaries(st.sampled_from(["a", "b"]), st.none() | st.integers(0, 2))
_changes = st.one_of(
    st.builds(Effect, st.sampled_from([_INSERT, _UPSERT]), _rows),
    st.builds(Effect, st.just(_UPDATE), _patches),
    st.just(Effect(_DELETE)),
)


@given(st.none() | _rows, st.lists(_changes, max_size=8))
def test_applying_what_is_left_is_applying_the_changes(
    stored: dict[str, Any] | None, changes: list[Effect]
) -> None:
    row, kept = stored, None
    for change in changes:
        if not _allowed(row, change):
            continue
        row = _applied(row, change)
        kept = compose(kept, change)
    assert (stored if kept is None else _applied(stored, kept)) == row


def _allowed(row: dict[str, Any] | None, change: Effect) -> bool:
    """Tell whether a statement would let the change pass."""
    if change.kind is _INSERT:
        return row is None
    return row is not None or change.kind is _UPSERT


def _applied(row: dict[str, Any] | None, change: Effect) -> dict[str, Any] | None:
    if change.kind is _DELETE:
        return None
    if change.kind is _UPDATE:
        assert row is not None
        return {**row, **change.values}
    assert change.kind is not _INSERT or row is None
    return dict(change.values)
