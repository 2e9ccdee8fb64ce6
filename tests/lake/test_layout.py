"""Partitions, the order of rows and options of a table: declared, made, reflected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import URL, Engine, create_engine, func, inspect, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Rows = list[Any]


def events(metadata: sa.MetaData, **said: Any) -> sa.Table:
    return sa.Table(
        "events",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("seen", sa.DateTime, comment="when"),
        sa.Column('we"ird; name', sa.String),
        comment="what happened",
        **said,
    )


def laid_out(metadata: sa.MetaData) -> sa.Table:
    bare = events(sa.MetaData())
    return events(
        metadata,
        ducklake_partition_by=[func.year(bare.c.seen), "bucket(4, id)", 'we"ird; name'],
        ducklake_sort_by=[bare.c.id.desc().nulls_first(), func.lower(bare.c['we"ird; name'])],
        ducklake_options={"target_file_size": "10MB", "parquet_version": 2},
    )


DESCRIBED = {
    "ducklake_partition_by": ["year(seen)", "bucket(4, id)", 'we"ird; name'],
    "ducklake_sort_by": ["id DESC NULLS FIRST", 'lower("we""ird; name")'],
    "ducklake_options": {"parquet_version": "V2", "target_file_size": "10000000"},
}


def test_s73_a_layout_is_made_with_its_table_and_reflected_on_every_catalog(
    any_url: URL,
) -> None:
    engine = create_engine(any_url)
    metadata = sa.MetaData()
    laid_out(metadata)
    sa.Table("plain", metadata, sa.Column("a", sa.Integer))
    metadata.create_all(engine)
    seen = inspect(engine)
    assert seen.get_table_options("events") == DESCRIBED
    assert seen.get_table_options("plain") == {}
    assert seen.get_multi_table_options() == {
        (None, "events"): DESCRIBED,
        (None, "plain"): {},
    }
    again = sa.Table("events", sa.MetaData(), autoload_with=engine)
    metadata.drop_all(engine)
    again.create(engine)
    assert inspect(engine).get_table_options("events") == DESCRIBED
    engine.dispose()


def test_a_table_with_keys_comments_and_layout_is_one_snapshot(
    engine: Engine, snapshots: Callable[[], int]
) -> None:
    table = laid_out(sa.MetaData())
    table.create(engine)
    assert snapshots() == 1
    rows = [{"id": n, "seen": sa.func.now(), 'we"ird; name': "x"} for n in range(3)]
    with engine.begin() as connection:
        for row in rows:
            connection.execute(table.insert().values(row))
    paths = text("SELECT path FROM __ducklake_metadata_lake.ducklake_data_file")
    with engine.begin() as connection:
        connection.execute(table.update().values(seen=sa.text("TIMESTAMP '2020-05-05'")))
        many = text("INSERT INTO events SELECT range, TIMESTAMP '1999-01-01', 'b' "
                    "FROM range(100, 400)")  # fmt: skip
        connection.execute(many)
    with engine.connect() as connection:
        found = connection.execute(paths).scalars().all()
    assert any(path.startswith("year=1999/bucket=") for path in found)


def test_a_table_that_is_there_keeps_its_layout(engine: Engine) -> None:
    events(sa.MetaData(), ducklake_partition_by=["id"]).create(engine)
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateTable(laid_out(sa.MetaData()), if_not_exists=True))
    assert inspect(engine).get_table_options("events") == {"ducklake_partition_by": ["id"]}
    with engine.begin() as connection:
        connection.execute(sa.schema.DropTable(laid_out(sa.MetaData())))
        connection.execute(sa.schema.CreateTable(laid_out(sa.MetaData()), if_not_exists=True))
    assert inspect(engine).get_table_options("events") == DESCRIBED


def test_options_of_a_table_that_was_rolled_back_are_never_set(engine: Engine) -> None:
    with engine.connect() as connection:
        laid_out(sa.MetaData()).create(connection)
        connection.rollback()
        events(sa.MetaData()).create(connection)
        connection.commit()
    assert inspect(engine).get_table_options("events") == {}


def test_with_autocommit_the_options_are_set_too(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        laid_out(sa.MetaData()).create(connection)
    assert inspect(engine).get_table_options("events") == DESCRIBED


def test_an_option_that_says_what_holds_anyway_is_none(engine: Engine) -> None:
    options = {"parquet_compression": "snappy", "auto_compact": True, "parquet_version": 1}
    events(sa.MetaData(), ducklake_options=options).create(engine)
    assert inspect(engine).get_table_options("events") == {}
    with engine.begin() as connection:
        connection.execute(text("CALL lake.set_option('parquet_compression', 'zstd')"))
    found = inspect(engine).get_table_options("events")
    assert found == {"ducklake_options": {"parquet_compression": "snappy"}}


def test_a_class_of_the_orm_has_a_layout(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Reading(Base):
        __tablename__ = "readings"
        number: Mapped[int] = mapped_column(primary_key=True)
        seen = mapped_column(sa.DateTime(timezone=True))
        __table_args__ = {  # noqa: RUF012
            "ducklake_partition_by": [func.month(seen), func.bucket(8, number)],
            "ducklake_sort_by": [seen, number],
            "schema": "s 1",
        }

    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema("s 1"))
        Base.metadata.create_all(connection)
    found = inspect(engine).get_table_options("readings", schema="s 1")
    assert found == {
        "ducklake_partition_by": ["month(seen)", "bucket(8, number)"],
        "ducklake_sort_by": ["seen", "number"],
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no column": ({"ducklake_partition_by": ["gone"]}, "no column 'gone'"),
    "no transform": ({"ducklake_partition_by": ["truncate(id)"]}, "truncate"),
    # The lake takes it, and then refuses every row.
    "a number has no year": ({"ducklake_partition_by": ["year(id)"]}, "no date or time"),
    "no bucket": ({"ducklake_partition_by": ["bucket(0, id)"]}, "bucket"),
    "twice": ({"ducklake_partition_by": ["id", "ID"]}, "twice"),
    "no list": ({"ducklake_partition_by": "id"}, "list"),
    "no key": ({"ducklake_partition_by": [5]}, "5"),
    "two statements": ({"ducklake_sort_by": ["id; DROP TABLE events"]}, "SELECT"),
    "two keys in a text": ({"ducklake_sort_by": ["id, seen"]}, "one expression"),
    "sorted by nothing": ({"ducklake_sort_by": ["lower('x')"]}, "none of"),
    "sorted by no column": ({"ducklake_sort_by": ["id + gone"]}, "'gone'"),
    "no option": ({"ducklake_options": {"encrypted": True}}, "encrypted"),
    "no size": ({"ducklake_options": {"target_file_size": "big"}}, "a size"),
    "no unit": ({"ducklake_options": {"target_file_size": "3 flops"}}, "a unit"),
    "no level": ({"ducklake_options": {"parquet_compression_level": 99}}, "22"),
    "no codec": ({"ducklake_options": {"parquet_compression": "rar"}}, "zstd"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_layout_that_a_lake_cannot_have_is_refused_by_name(
    engine: Engine, snapshots: Callable[[], int], what: str
) -> None:
    said, told = REFUSED[what]
    with pytest.raises(sa.exc.CompileError) as caught:
        events(sa.MetaData(), **said).create(engine)
    assert told in str(caught.value)
    assert snapshots() == 0


def test_a_temporary_table_has_no_layout(engine: Engine) -> None:
    table = events(sa.MetaData(), prefixes=["TEMP"], ducklake_partition_by=["id"])
    with engine.begin() as connection, pytest.raises(sa.exc.CompileError, match="temporary"):
        table.create(connection)


def test_other_databases_see_nothing_of_it() -> None:
    engine = create_engine("sqlite://")
    laid_out(sa.MetaData()).create(engine)
    engine.dispose()


def test_a_connection_that_left_its_pool_sets_options_too(engine: Engine) -> None:
    with engine.connect() as connection:
        connection.detach()
        laid_out(sa.MetaData()).create(connection)
        connection.commit()
        assert inspect(connection).get_table_options("events") == DESCRIBED


def test_s74_what_the_engine_refuses_of_partitions_keeps_its_message(engine: Engine) -> None:
    events(sa.MetaData()).create(engine)
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError) as caught:
        connection.execute(text("ALTER TABLE events SET PARTITIONED BY (sqrt(id))"))
    assert caught.value.orig is not None
    assert str(caught.value.orig) in str(caught.value)
    assert "sqrt" in str(caught.value.orig)
    assert inspect(engine).get_table_options("events") == {}
