"""What a newcomer ran into: each is a kind of mistake or surprise, with its right answer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    UniqueConstraint,
    create_engine,
    exc,
    insert,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

import sqlalchemy_ducklake as ducklake
from sqlalchemy_ducklake import MergeResult, driver, errors, merge, merge_result, upsert

metadata = MetaData()
t = Table(
    "t",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("price", Numeric(10, 2)),
)
codes = Table(
    "codes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("code", String),
    UniqueConstraint("code"),
)
renamed = Table(
    "renamed",
    metadata,
    Column("Id", Integer, primary_key=True, key="ident"),
    Column("Val", Integer, key="v"),
)


@pytest.fixture
def lake(engine: Engine) -> Engine:
    metadata.create_all(engine)
    return engine


@pytest.mark.parametrize("compare", [["nmae"], "name", []])
def test_compare_with_a_column_that_is_none_hides_no_change(compare: Any) -> None:
    with pytest.raises(exc.ArgumentError, match="compare"):
        upsert(t, [{"id": 1, "name": "x"}], compare=compare)


def test_no_rows_are_nothing_to_do(lake: Engine) -> None:
    with lake.begin() as connection:
        write = ducklake.write_table
        assert merge_result(connection.execute(upsert(t, []))) == MergeResult()
        assert merge_result(connection.execute(ducklake.delete_keys(t, []))) == MergeResult()
        assert write(connection, t, []) == MergeResult()
        connection.execute(insert(t), {"id": 1})
        assert write(connection, t, [], "merge") == MergeResult()
        assert write(connection, t, [], "replace") == MergeResult(deleted=1)


def test_excluded_may_be_asked_before_or_after_the_values(lake: Engine) -> None:
    statement = ducklake.insert(t)
    with lake.begin() as connection:
        for _ in range(2):
            values = statement.values(id=1, price=5)
            adding = values.on_conflict_do_update(
                set_={"price": t.c.price + statement.excluded.price}
            )
            connection.execute(adding)
        assert connection.scalar(select(t.c.price)) == 10


@pytest.mark.parametrize("other", [postgresql, sqlite])
def test_the_insert_of_another_dialect_is_told_apart(lake: Engine, other: Any) -> None:
    statement = other.insert(t).on_conflict_do_nothing()
    with lake.connect() as connection, pytest.raises(exc.CompileError, match="insert"):
        connection.execute(statement, {"id": 1})


def test_do_nothing_may_say_which_of_several_keys_decides(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(codes), {"id": 20, "code": "k"})
        anything = ducklake.insert(codes).on_conflict_do_nothing()
        assert connection.execute(anything, {"id": 1, "code": "k"}).rowcount == 0
        assert connection.execute(anything, {"id": 20, "code": "kkk"}).rowcount == 0
        by_code = ducklake.insert(codes).on_conflict_do_nothing(index_elements=["code"])
        rows = [{"id": 21, "code": "k"}, {"id": 22, "code": "kk"}]
        assert connection.execute(by_code, rows).rowcount == 1


def test_merge_action_belongs_to_a_merge(lake: Engine) -> None:
    statement = ducklake.insert(t).on_conflict_do_update().returning(ducklake.merge_action())
    with lake.connect() as connection, pytest.raises(exc.CompileError, match="merge only"):
        connection.execute(statement, {"id": 1})


def test_the_value_that_does_not_go_with_its_column_is_the_one_that_is_named(
    lake: Engine,
) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "price": 1} for n in range(1000)]
    rows[777]["price"] = "xx"
    for statement in (ducklake.insert(t).on_conflict_do_nothing(), insert(t)):
        with lake.connect() as connection, pytest.raises(exc.DataError) as caught:
            connection.execute(statement, rows)
        assert isinstance(caught.value.orig, errors.ValueRefused)
        assert (caught.value.orig.position, caught.value.orig.found) == (777, "xx")


def test_values_that_a_stream_refuses_are_named_as_those_of_a_table(lake: Engine) -> None:
    data = pa.table({"id": [1, 2], "price": [1.0, 0.001]})
    for source in (data, data.to_reader()):
        with lake.connect() as connection, pytest.raises(exc.DataError) as caught:
            connection.execute(upsert(t, source))
        assert isinstance(caught.value.orig, errors.ValueRefused)
        assert caught.value.orig.column == "price"


def test_a_value_that_is_refused_before_a_script_begins_does_not_show_the_script(
    lake: Engine,
) -> None:
    with lake.connect() as connection, pytest.raises(exc.DataError) as caught:
        connection.execute(upsert(t, [{"id": 1, "name": "a"}, {"id": 2}]))
    assert caught.value.statement is not None
    assert caught.value.statement.startswith("-- upsert main.t, before the first of its")


def test_columns_with_another_key_than_name_are_written(lake: Engine) -> None:
    rows = [{"Id": 2, "Val": 3}]
    with lake.begin() as connection:
        write = ducklake.write_table
        assert write(connection, renamed, rows).inserted == 1
        assert write(connection, renamed, [{"Id": 2, "Val": 4}], "replace").updated == 1
        assert write(connection, renamed, [{"Id": 2, "Val": 5}], "merge").updated == 1
        assert connection.execute(select(renamed)).all() == [(2, 5)]


def test_a_session_may_stand_for_its_connection(lake: Engine) -> None:
    with Session(lake) as session:
        assert ducklake.write_table(session, t, [{"id": 1}]).inserted == 1
        with ducklake.begin_merge(session, t) as merging:
            merging.upsert({"id": 2, "name": "b"})
        assert session.scalars(select(t.c.id).order_by(t.c.id)).all() == [1, 2]


def test_a_savepoint_is_refused_by_name_and_the_transaction_goes_on(lake: Engine) -> None:
    with lake.execution_options(ducklake_write_scope=False).begin() as connection:
        connection.execute(insert(t), {"id": 1})
        with pytest.raises(exc.NotSupportedError, match="no savepoints"):
            connection.begin_nested()
        connection.execute(insert(t), {"id": 2})


def test_merging_on_a_column_that_is_none_is_an_argument_error() -> None:
    with pytest.raises(exc.ArgumentError, match="'zz'"):
        merge(t).using(pa.table({"id": [1]}), on=["zz"])


def test_the_driver_opens_a_path(tmp_path: Path) -> None:
    for path in (tmp_path / "a.ducklake", str(tmp_path / "b.ducklake")):
        with driver.connect(path) as connection:
            assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]


def test_data_that_moved_is_read_from_where_it_is_by_every_connection(tmp_path: Path) -> None:
    url = URL.create("ducklake", database=str(tmp_path / "g.ducklake"))
    engine = create_engine(url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(t), [{"id": n} for n in range(100)])
    engine.dispose()
    (tmp_path / "g.ducklake.files").rename(tmp_path / "moved")
    options = {"data_path": str(tmp_path / "moved"), "override_data_path": "true"}
    engine = create_engine(url.set(query=options))
    with engine.connect() as one, engine.connect() as two:
        assert len(one.execute(select(t)).all()) == len(two.execute(select(t)).all()) == 100
    engine.dispose()


def test_a_forked_child_cannot_write_through_its_parents_connection(lake: Engine) -> None:
    with lake.begin() as connection:
        connection.execute(insert(t), {"id": 0})
    child = os.fork()
    if child == 0:
        try:
            with lake.begin() as connection:
                connection.execute(insert(t), {"id": 1})
            os._exit(1)
        except exc.DBAPIError as error:
            os._exit(0 if isinstance(error.orig, errors.ForkedError) else 2)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with lake.begin() as connection:
        connection.execute(insert(t), {"id": 2})
        assert connection.scalars(select(t.c.id).order_by(t.c.id)).all() == [0, 2]
