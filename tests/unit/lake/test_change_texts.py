"""The text in which DuckLake says what a snapshot changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlalchemy_ducklake.lake.changes import Change, History, Snapshot, parse_changes
from sqlalchemy_ducklake.lake.marks import CommitRecord

kinds = st.sampled_from(["inlined_insert", "created_table", "altered_table", "something_new"])
by_id = st.builds(Change, kinds, st.integers(0, 1 << 40))
by_names = st.builds(
    Change, kinds, st.none(), st.lists(st.text(), min_size=1, max_size=3).map(tuple)
)


def written(change: Change) -> str:
    quoted = ['"' + name.replace('"', '""') + '"' for name in change.names]
    return f"{change.kind}:{'.'.join(quoted) or change.id}"


@given(st.lists(by_id | by_names))
def test_any_list_of_changes_is_read_as_it_was_written(changes: list[Change]) -> None:
    assert parse_changes(",".join(map(written, changes))) == tuple(changes)


@given(st.text())
def test_any_other_text_is_refused_and_never_misread(text: str) -> None:
    try:
        changes = parse_changes(text)
    except ValueError:
        return
    assert [(each.kind, each.id) for each in changes] == [
        (each.kind, each.id) for each in parse_changes(",".join(map(written, changes)))
    ]


@pytest.mark.parametrize(
    "text", ["x", "x:", ":1", "x:1,", "x:1;y:2", 'x:"a', 'x:"a"b', 'x:1"a"', "x:-1", "x:1\n"]
)
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of changes"):
        parse_changes(text)


def test_names_may_hold_what_parts_the_list() -> None:
    text = 'created_table:"s,1"."we,ird:9""q.x",inline_flush:3,deleted_from_table:3'
    assert parse_changes(text) == (
        Change("created_table", None, ("s,1", 'we,ird:9"q.x')),
        Change("inline_flush", 3),
        Change("deleted_from_table", 3),
    )


def test_a_history_finds_a_commit_and_knows_what_is_missing() -> None:
    snapshots = (Snapshot(6, (), None), Snapshot(8, (), CommitRecord("mine")))
    history = History(5, 8, snapshots)
    assert history.committed("mine") == 8
    assert history.committed("yours") is None
    assert not history.complete
    assert History(5, 5, ()).complete
