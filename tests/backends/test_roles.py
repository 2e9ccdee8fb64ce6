"""Who may read a lake for a team, and who may write it, as PostgreSQL's roles say."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator

import duckdb
import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from fixtures.catalogs import PASSWORD, PostgresServer
from sqlalchemy_ducklake import errors, maintain, snapshots, upsert
from sqlalchemy_ducklake.dialect.url import url_from_config
from sqlalchemy_ducklake.lake.catalogs import PostgresCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig

table = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)


@pytest.fixture
def reader(postgres_lake: LakeConfig, postgres_server: PostgresServer) -> Iterator[LakeConfig]:
    """A lake with rows, as a role sees it that may only select."""
    engine = create_engine(url_from_config(postgres_lake))
    table.create(engine)
    for rows in (range(5), range(5, 3000)):
        with engine.begin() as connection:
            connection.execute(insert(table), [{"id": number, "n": 0} for number in rows])
    engine.dispose()
    assert isinstance(postgres_lake.catalog, PostgresCatalog)
    role, quoted = f"reader_{uuid.uuid4().hex}", PASSWORD.replace("'", "''")
    inside = f"\\c {postgres_lake.catalog.database}\n"
    postgres_server.run(
        f"{inside}CREATE ROLE {role} LOGIN PASSWORD '{quoted}';"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};"
    )
    catalog = dataclasses.replace(postgres_lake.catalog, user=role)
    yield dataclasses.replace(postgres_lake, catalog=catalog, read_only=True)
    postgres_server.run(f"{inside}DROP OWNED BY {role}; DROP ROLE {role};")


def count(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.scalar(select(func.count()).select_from(table)) or 0)


def test_a_reader_reads(reader: LakeConfig) -> None:
    engine = create_engine(url_from_config(reader))
    assert count(engine) == 3000
    assert inspect(engine).get_pk_constraint("t")["constrained_columns"] == ["id"]
    with engine.connect() as connection:
        assert len(list(snapshots(connection))) >= 3
    engine.dispose()


def test_a_reader_cannot_write_even_if_it_says_that_it_will(reader: LakeConfig) -> None:
    for lake in (reader, dataclasses.replace(reader, read_only=False)):
        engine = create_engine(url_from_config(lake))
        for statement in (
            insert(table).values(id=5000, n=0),
            upsert(table, [{"id": number, "n": 1} for number in range(100)]),
            text("DELETE FROM t"),
            text("ALTER TABLE t ADD COLUMN more INTEGER"),
        ):
            with pytest.raises(DBAPIError) as caught, engine.begin() as connection:
                connection.execute(statement)
            assert not errors.classify(caught.value).may_have_published
        with pytest.raises((DBAPIError, duckdb.Error)):
            maintain(engine)
        assert count(engine) == 3000
        engine.dispose()
