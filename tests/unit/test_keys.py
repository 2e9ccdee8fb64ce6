"""Tags: what is written is read back, and nothing else is."""

import pickle

import pytest

from sqlalchemy_ducklake import keys
from sqlalchemy_ducklake.errors import MalformedTag, ReservedComment, StaleConstraint
from sqlalchemy_ducklake.keys import ColumnComment, PrimaryKey

TAG = "sqlalchemy-ducklake:primary-key:v1:"


def key_of(*columns: tuple[str, str | None]) -> PrimaryKey | None:
    return keys.primary_key("t", [ColumnComment(name, text, False) for name, text in columns])


def malformed(*columns: ColumnComment) -> MalformedTag:
    with pytest.raises(MalformedTag) as caught:
        keys.primary_key("flights", columns)
    return caught.value


@pytest.mark.parametrize(
    "key",
    [
        PrimaryKey(("a",)),
        PrimaryKey(("b", "a"), "pk"),
        PrimaryKey(("a", "b"), "a name: 100 %, \n or é"),
    ],
)
def test_a_key_is_read_back_as_it_was_written(key: PrimaryKey) -> None:
    tags = keys.key_tags(key)
    assert key_of(*((column, tags.get(column)) for column in ("a", "b", "c"))) == key


def test_s35_the_order_of_a_key_is_its_own_and_not_that_of_the_columns() -> None:
    assert key_of(("a", f"{TAG}1"), ("b", f"{TAG}0")) == PrimaryKey(("b", "a"))


def test_s44_without_tags_there_is_no_key() -> None:
    assert key_of(("a", None), ("b", "an ordinary comment"), ("c", "")) is None


def test_s36_the_tag_of_the_other_writer_is_read() -> None:
    found = key_of(("a", "sixb:primary-key:v1:1"), ("b", "sixb:primary-key:v1:0"))
    assert found == PrimaryKey(("b", "a"))


@pytest.mark.parametrize("comment", [None, "", "plain", "two\nlines", "ends in a newline\n"])
@pytest.mark.parametrize("tag", [None, f"{TAG}0", f"{TAG}0:pk_t"])
def test_s45_a_comment_and_its_tag_come_apart_as_they_went_together(
    comment: str | None, tag: str | None
) -> None:
    assert keys.split_comment(keys.join_comment(comment, tag)) == (comment, tag)


@pytest.mark.parametrize(
    "comment",
    [
        f"{TAG}0",
        "first line\nsqlalchemy-ducklake:anything",
        "sqlalchemy-ducklake:",
        "sixb:primary-key:v1:0",
    ],
)
def test_s47_a_comment_that_would_read_as_a_tag_is_refused(comment: str) -> None:
    with pytest.raises(ReservedComment) as caught:
        keys.join_comment(comment, None)
    assert caught.value.comment == comment


def test_the_reserved_words_inside_a_line_are_no_tag() -> None:
    text = "see sqlalchemy-ducklake:primary-key:v1:0"
    assert keys.join_comment(text, None) == text


@pytest.mark.parametrize(
    "ordinal", ["01", "+1", "-1", "1 ", " 1", "", "1.0", "0x0", "9999999999", "0\n"]
)
@pytest.mark.parametrize("start", [TAG, "sixb:primary-key:v1:"])
def test_s38_edge_12_an_ordinal_is_a_canonical_number(start: str, ordinal: str) -> None:
    error = malformed(ColumnComment("id", f"{start}{ordinal}", nullable=False))
    assert (error.table, error.column, error.value) == ("flights", "id", f"{start}{ordinal}")


@pytest.mark.parametrize(
    "tag",
    [
        "sqlalchemy-ducklake:primary-key:v2:0",
        "sqlalchemy-ducklake:primary-key:0",
        "sqlalchemy-ducklake:other:v1:0",
        "sixb:primary-key:v2:0",
        "sixb:primary-key:v1:0:name",
        f"{TAG}0:",
        f"{TAG}0:not encoded",
        f"{TAG}0:%",
        f"{TAG}0:%zz",
        f"{TAG}0:%2f",
        f"{TAG}1:name",
        f"{TAG}0\nmore",
    ],
)
def test_s37_edge_12_a_tag_of_another_version_or_form_is_an_error(tag: str) -> None:
    error = malformed(ColumnComment("id", tag, nullable=False))
    assert repr(tag) in str(error)
    assert "'flights'" in str(error)
    assert "'id'" in str(error)


def test_s40_edge_12_an_ordinal_that_comes_twice_is_an_error() -> None:
    error = malformed(
        ColumnComment("a", f"{TAG}0", nullable=False),
        ColumnComment("b", f"{TAG}0", nullable=False),
    )
    assert (error.column, error.reason) == ("b", "column 'a' has the ordinal 0 already")


@pytest.mark.parametrize("ordinals", [(1,), (0, 2), (1, 2)])
def test_s41_edge_12_a_gap_in_the_ordinals_is_an_error(ordinals: tuple[int, ...]) -> None:
    columns = [ColumnComment(f"c{n}", f"{TAG}{n}", nullable=False) for n in ordinals]
    assert "no column of the key has the ordinal" in malformed(*columns).reason


def test_s42_edge_12_a_nullable_key_column_is_an_error() -> None:
    error = malformed(ColumnComment("id", f"{TAG}0", nullable=True))
    assert "NOT NULL" in error.reason


def test_s39_edge_12_a_key_inside_a_column_is_an_error() -> None:
    error = malformed(ColumnComment("point.x", f"{TAG}0", nullable=False, nested=True))
    assert error.column == "point.x"


def test_errors_can_be_pickled() -> None:
    error = malformed(ColumnComment("id", f"{TAG}x", nullable=False))
    again = pickle.loads(pickle.dumps(error))
    assert (again.args, str(again)) == (error.args, str(error))


FULL = keys.Constraints(
    unique=(keys.Unique(("a", "b"), "uq"), keys.Unique(("c",))),
    foreign_keys=(
        keys.ForeignKey(("a",), "other", ("id",), "s", "fk", {"ondelete": "CASCADE"}),
        keys.ForeignKey(("b",), "other", ("id",)),
    ),
    checks=(keys.Check("a > 0", "positive"), keys.Check("b <> 'é\n'")),
    indexes=(
        keys.Index("ix", ("a",), unique=True),
        keys.Index("ix2", ("a", None), expressions=("a", "lower(b)")),
    ),
    identity={"a": {"start": 5, "always": True}},
)


def test_constraints_are_read_back_as_they_were_written() -> None:
    tag = keys.constraints_tag(FULL)
    assert tag is not None
    assert "\n" not in tag
    assert keys.constraints("t", keys.join_comment("the user's", tag)) == FULL


def test_a_table_without_constraints_has_no_tag() -> None:
    assert keys.constraints_tag(keys.Constraints()) is None
    assert keys.constraints("t", None) == keys.Constraints()
    assert keys.constraints("t", "a comment") == keys.Constraints()


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[]",
        '"text"',
        '{"later": []}',
        '{"unique": [{"columns": "a"}]}',
        '{"unique": [{"name": "no columns"}]}',
        '{"unique": [{"columns": ["a"], "more": "x"}]}',
        '{"unique": ["a"]}',
        '{"checks": [{"sqltext": 5}]}',
        '{"identity": []}',
        '{"identity": {"a": 5}}',
        '{"unique": [{"columns": [5]}]}',
    ],
)
def test_constraints_that_cannot_be_read_are_an_error(said: str) -> None:
    with pytest.raises(MalformedTag) as caught:
        keys.constraints("flights", f"sqlalchemy-ducklake:constraints:v1:{said}")
    assert (caught.value.table, caught.value.column) == ("flights", None)


def test_constraints_of_another_version_are_an_error() -> None:
    with pytest.raises(MalformedTag, match="another version"):
        keys.constraints("flights", "sqlalchemy-ducklake:constraints:v2:{}")


def test_a_unique_index_makes_values_unique_too() -> None:
    assert list(FULL.unique_keys()) == [*FULL.unique, keys.Unique(("a",), "ix")]


def test_names_are_compared_without_regard_to_case() -> None:
    keys.check_columns("t", FULL, ["A", "B", "C"])


@pytest.mark.parametrize(
    ("left", "constraint", "column"),
    [
        ("bc", "the unique constraint 'uq'", "a"),
        ("ac", "the unique constraint 'uq'", "b"),
        ("ab", "the unique constraint", "c"),
    ],
)
def test_a_constraint_on_a_column_that_is_gone_is_an_error(
    left: str, constraint: str, column: str
) -> None:
    with pytest.raises(StaleConstraint) as caught:
        keys.check_columns("t", FULL, left)
    assert (caught.value.constraint, caught.value.column) == (constraint, column)
