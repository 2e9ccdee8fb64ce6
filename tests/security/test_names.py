"""Any text may be a name, a comment or a value: it is kept as it is, and never run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    URL,
    CheckConstraint,
    Column,
    Engine,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    create_engine,
    delete,
    exc,
    inspect,
    literal,
    select,
    update,
)
from sqlalchemy.schema import CreateTable, DropTable, SetTableComment

from sqlalchemy_ducklake import insert, merge
from sqlalchemy_ducklake.dialect.base import DuckLakeDialect

NASTY = [
    "'); DROP TABLE t; --",
    '"; DROP TABLE t; /*',
    "a'b\"c`d;e",
    "/* */ -- \n;",
    "$1 :x %s %(y)s {z} ?",
    "\\'; \\\"; E'\\x00'",
    "\t\r\n\v\x7f",
    "naïve 漢字 🦆 \U0010fffd",
    "x" * 255,
    "select",
    " lead and trail ",
    "$$; DROP TABLE t; $$",
]
texts = st.one_of(
    st.sampled_from(NASTY),
    st.text(
        st.characters(codec="utf-8", exclude_characters="\0"),
        min_size=1,
        max_size=60,
    ),
)
quick = settings(max_examples=150, suppress_health_check=list(HealthCheck))
_numbers = itertools.count()


def table_of(name: str, column: str, comment: str = "") -> Table:
    """Describe a table in which a text stands wherever one can."""
    return Table(
        name,
        MetaData(),
        Column("k", Integer, autoincrement=False, comment=comment or None),
        Column(column, String, server_default=comment),
        PrimaryKeyConstraint("k", name=name[:40]),
        UniqueConstraint(column, name=f"u{comment}"[:40]),
        comment=comment or None,
    )


def parsed(text: str) -> list[Any]:
    """Let the engine's own parser say which statements a text is."""
    return [each.type for each in duckdb.connect().extract_statements(text)]


@quick
@given(name=texts, column=texts, comment=texts, value=texts)
@example(name="'", column='"', comment=";", value="\\")
def test_no_text_becomes_a_statement(name: str, column: str, comment: str, value: str) -> None:
    if column.lower() == "k":
        column += "_"
    dialect: Any = DuckLakeDialect()
    try:
        table = table_of(name, column, comment)
        statements: list[Any] = [
            CreateTable(table),
            SetTableComment(table),
            DropTable(table),
            select(table, literal(value).label(value)).where(table.c[column] == value),
            insert(table).values({"k": 1, column: value}),
            insert(table).values({"k": 1, column: value}).on_conflict_do_update(["k"]),
            update(table).where(table.c[column].like(value)).values({column: value}),
            delete(table).where(table.c[column] == bindparam(None, value)),
            merge(table).using(table.alias(name)).when_matched_delete(),
        ]
        compiled = [
            each.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
            for each in statements
        ]
    except (exc.CompileError, exc.IdentifierError, exc.ArgumentError):
        return  # it is refused, by name, before anything is sent
    for each in compiled:
        found = parsed(str(each))
        steps = getattr(each, "script", None)
        text = str(each)
        if steps is not None:
            assert len(found) == len(steps.steps), text
        drops = sum(kind == duckdb.StatementType.DROP for kind in found)
        own = text.count("DROP TABLE IF EXISTS _") + isinstance(each.statement, DropTable)
        assert drops <= own, text


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder: Path = tmp_path_factory.mktemp("names")
    engine = create_engine(URL.create("ducklake", database=str(folder / "a'b \"c;.ducklake")))
    yield engine
    engine.dispose()


@settings(quick, max_examples=40)
@given(name=texts, column=texts, comment=texts, value=texts, times=st.sampled_from([1, 2000]))
def test_every_text_comes_back(
    engine: Engine, name: str, column: str, comment: str, value: str, times: int
) -> None:
    """Up to 64 KB and more of it; a table's name is that of a directory, so not too long."""
    name, value = f"{name[:60]}{next(_numbers)}", value * times
    if column.lower() in {"k", "rowid", "filename"}:
        column += "_"
    table = table_of(name, column, comment)
    try:
        table.create(engine)
    except (exc.CompileError, exc.IdentifierError):
        assert not inspect(engine).has_table(name)
        return
    with engine.begin() as connection:
        connection.execute(insert(table), [{"k": 1, column: value}, {"k": 2, column: "other"}])
        connection.execute(insert(table).on_conflict_do_update(), [{"k": 1, column: value}])
        connection.execute(update(table).where(table.c.k == 2).values({column: value + "2"}))
        rows = connection.execute(select(table.c.k, table.c[column])).all()
        found = {row[0]: row[1] for row in rows}
        assert found == {1: value, 2: value + "2"}
        assert connection.execute(delete(table).where(table.c[column] == value)).rowcount == 1
    inspector = inspect(engine)
    assert [each["name"] for each in inspector.get_columns(name)] == ["k", column]
    assert inspector.get_table_comment(name)["text"] == comment
    assert inspector.get_columns(name)[0]["comment"] == comment
    table.drop(engine)
    assert not inspect(engine).has_table(name)


@settings(quick, max_examples=15)
@given(condition=st.sampled_from(NASTY))
def test_a_check_is_kept_as_it_was_written(engine: Engine, condition: str) -> None:
    name = f"checked {next(_numbers)}"
    check = CheckConstraint(Column("s", String) != condition, name=condition[:40])
    table = Table(name, MetaData(), Column("s", String), check)
    table.create(engine)
    (found,) = inspect(engine).get_check_constraints(name)
    assert parsed(f"SELECT {found['sqltext']} FROM x") == [duckdb.StatementType.SELECT]
    table.drop(engine)
