"""What a commit says of itself: what was written is read, what is malformed left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlalchemy_ducklake import errors
from sqlalchemy_ducklake.lake.marks import NAMESPACE, CommitRecord, TableMark, table_label

names = st.text(min_size=1).filter(str.strip)
marks = st.builds(
    TableMark,
    st.text(),
    st.lists(names, unique=True).map(tuple),
    st.none() | st.integers(min_value=0),
)


@given(names, st.dictionaries(st.text(), marks), st.dictionaries(names, st.integers()))
def test_a_record_is_read_as_it_was_written_beside_the_users_extra(
    commit_id: str, tables: dict[str, TableMark], extra: dict[str, int]
) -> None:
    record = CommitRecord(commit_id, tables)
    text = record.encode(extra)
    assert CommitRecord.decode(text) == record
    assert {name: json.loads(text)[name] for name in extra} == extra


@pytest.mark.parametrize("text", [None, "", "no JSON", "3", "[]", "{}", '{"a": {}}'])
def test_what_others_wrote_is_no_record(text: str | None) -> None:
    assert CommitRecord.decode(text) is None


@pytest.mark.parametrize("own", [None, 3, {}, {"commit_id": 3}, {"commit_id": " "}])
def test_without_a_commit_id_nothing_is_believed(own: Any) -> None:
    assert CommitRecord.decode(json.dumps({NAMESPACE: own})) is None


@pytest.mark.parametrize("key", [3, "a", [], ["a", "a"], ["a", ""], ["a", 1], [" "], None])
def test_s33_edge_18_a_malformed_key_is_left_out_alone(key: Any) -> None:
    tables = {"t": {"mode": "upsert", "validated_key": key, "row_count": 3, "else": 1}}
    text = json.dumps({NAMESPACE: {"commit_id": "x", "tables": tables}})
    record = CommitRecord.decode(text)
    assert record is not None
    assert record.tables["t"] == TableMark("upsert", (), 3)


@pytest.mark.parametrize("count", [True, -1, 1.5, "3", None])
def test_s33_edge_18_a_malformed_row_count_is_left_out_alone(count: Any) -> None:
    tables = {"t": {"mode": 5, "validated_key": ["a"], "row_count": count}}
    text = json.dumps({NAMESPACE: {"commit_id": "x", "tables": tables}})
    record = CommitRecord.decode(text)
    assert record is not None
    assert record.tables["t"] == TableMark("", ("a",))


@pytest.mark.parametrize("extra", [{NAMESPACE: 1}, {"a": object()}])
def test_extra_that_cannot_be_kept_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(errors.OptionError, match=r"commit_info\.extra"):
        CommitRecord("x").encode(extra)


def test_labels_of_different_tables_differ() -> None:
    tables = [("a", "b.c"), ("a.b", "c"), ("a", "b"), ('a"', "b"), ('"a"', "b")]
    assert len({table_label(*table) for table in tables}) == len(tables)
    assert table_label("main", "t") == "main.t"
