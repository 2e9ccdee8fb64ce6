"""check_metadata: all differences of a lake and its models at once, touching nothing."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import URL, Engine, create_engine, func

from sqlalchemy_ducklake.alembic import check_metadata
from sqlalchemy_ducklake.dialect.types import STRUCT


def there() -> sa.MetaData:
    metadata = sa.MetaData()
    sa.Table(
        "t",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("n", sa.Integer, server_default="1"),
        sa.Column("place", STRUCT({"lat": sa.Integer})),
        sa.Column("old", sa.String),
        ducklake_partition_by=["n"],
        comment="before",
    )
    sa.Table("same", metadata, sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True))
    sa.Table("unknown", metadata, sa.Column("x", sa.Integer))
    return metadata


def wanted() -> sa.MetaData:
    metadata = sa.MetaData()
    sa.Table(
        "t",
        metadata,
        sa.Column("n", sa.SmallInteger, nullable=False, server_default="2"),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("place", STRUCT({"lat": sa.Integer, "lon": sa.Integer})),
        sa.Column("new", sa.Date, comment="when"),
        sa.Column("needed", sa.Integer, nullable=False),
        sa.CheckConstraint("id > 0", name="ck_id"),
        ducklake_partition_by=[func.month(sa.column("new"))],
        comment="after",
    )
    sa.Table("same", metadata, sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True))
    sa.Table("missing", metadata, sa.Column("x", sa.Integer, index=True))
    return metadata


def test_s72_all_differences_are_listed_at_once_and_nothing_is_touched(
    engine: Engine, lake_url: URL, snapshots: Callable[[], int]
) -> None:
    there().create_all(engine)
    before = snapshots()
    found = check_metadata(engine, wanted())
    assert snapshots() == before
    assert {one.table for one in found} == {"t"}
    told = {one.operation.split("(")[0] + ":" + str(one.safe) for one in found}
    assert told == {
        "op.add_column:True",
        "op.add_column:False",
        "op.alter_column:False",
        "op.add_ducklake_field:True",
        "op.promote_ducklake_type:True",
        "op.create_check_constraint:False",
        "op.set_ducklake_partitioning:True",
        "op.create_table_comment:True",
        "op.drop_column:False",
    }
    engine.dispose()
    reading = create_engine(lake_url.update_query_dict({"read_only": "true"}))
    assert check_metadata(reading, wanted()) == found
    reading.dispose()


def test_s70_the_order_of_columns_and_a_table_that_is_missing_are_no_differences(
    engine: Engine,
) -> None:
    there().create_all(engine)
    assert check_metadata(engine, there()) == []
    metadata = sa.MetaData()
    columns = [
        sa.Column(one.name, one.type, primary_key=one.primary_key)
        for one in reversed(there().tables["t"].c)
    ]
    sa.Table("t", metadata, *columns, comment="before")
    found = [one.operation for one in check_metadata(engine, metadata)]
    assert [one.split("(")[0] for one in found] == [
        "op.alter_column",
        "op.reset_ducklake_partitioning",
    ]
