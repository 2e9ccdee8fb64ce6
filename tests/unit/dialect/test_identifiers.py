"""Names are quoted where DuckDB's parser needs it."""

import duckdb
import pytest

from sqlalchemy_ducklake.dialect.base import DuckLakeDialect
from sqlalchemy_ducklake.dialect.identifiers import RESERVED_WORDS

preparer = DuckLakeDialect().identifier_preparer


def test_the_reserved_words_are_those_of_the_engine() -> None:
    rows = duckdb.sql(
        "SELECT DISTINCT keyword_name FROM duckdb_keywords() "
        "WHERE keyword_category <> 'unreserved'"
    ).fetchall()
    assert {word for (word,) in rows} == RESERVED_WORDS


def test_the_engine_takes_every_word_as_a_name() -> None:
    with duckdb.connect() as engine:
        words = engine.sql("SELECT DISTINCT keyword_name FROM duckdb_keywords()").fetchall()
        for (word,) in words:
            name = preparer.quote(word)
            engine.execute(f"CREATE TABLE {name} ({name} INTEGER)")
            engine.execute(f"SELECT {name}.{name} FROM {name} WHERE {name} = 1 ORDER BY {name}")
            engine.execute(f"UPDATE {name} SET {name} = 1")
            engine.execute(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("plain", "plain"),
        ("select", '"select"'),
        ("Mixed", '"Mixed"'),
        ("two words", '"two words"'),
        ('say "hi"', '"say ""hi"""'),
        ("50%", '"50%"'),
        ("a.b", '"a.b"'),
        ("größe", '"größe"'),
    ],
)
def test_a_name_is_quoted_when_the_parser_needs_it(name: str, quoted: str) -> None:
    assert preparer.quote(name) == quoted
