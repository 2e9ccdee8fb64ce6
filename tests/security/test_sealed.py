"""An engine that may touch nothing but its lake, and whose settings are locked, works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from fixtures.catalogs import url_of
from fixtures.stores import Store
from sqlalchemy_ducklake import (
    MergeResult,
    WriteOptions,
    at_snapshot,
    errors,
    maintain,
    merge,
    merge_result,
    snapshots,
    table_writer,
    upsert,
)

SEALED = {"duckdb.enable_external_access": "false", "duckdb.lock_configuration": "true"}
ROWS = 3000
t = Table(
    "t",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("n", Integer),
)


@pytest.fixture(params=["ducklake", "ducklake+sqlite", "ducklake+postgresql", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """The address of a new lake whose engine is sealed."""
    if request.param != "s3":
        return url_of(request.param, request, tmp_path).update_query_dict(SEALED)
    store: Store = request.getfixturevalue("store")
    query = SEALED | store.options() | {"data_path": store.new_path()}
    return url_of("ducklake", request, tmp_path).update_query_dict(query)


@pytest.fixture
def engine(url: URL) -> Iterator[Engine]:
    engine = create_engine(url)
    t.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(t), [{"id": n, "n": 0} for n in range(ROWS)])
    yield engine
    engine.dispose()


def test_a_sealed_lake_does_what_others_do(engine: Engine, url: URL) -> None:
    with engine.begin() as connection:
        rows = [{"id": n, "n": 1} for n in range(ROWS - 500, ROWS + 500)]
        result = merge_result(connection.execute(upsert(t, rows)))
        assert result == MergeResult(inserted=500, updated=500)
        source = pa.table({"id": pa.array([0, 1], pa.int32())})
        gone = merge(t).using(source).when_matched_delete()
        assert merge_result(connection.execute(gone)).deleted == 2
        changed = update(t).where(t.c.id == 5).values(n=7).returning(t.c.n)
        assert connection.scalar(changed) == 7
        assert connection.execute(delete(t).where(t.c.id < 10)).rowcount == 8
    with engine.begin() as connection:
        many = WriteOptions(target_file_size=1_000_000)
        with table_writer(connection, t, options=many) as writer:
            numbers = pa.array(range(10_000, 40_000), pa.int32())
            writer.write(pa.table({"id": numbers, "n": numbers}))
    maintain(engine)
    assert [each["name"] for each in inspect(engine).get_columns("t")] == ["id", "n"]
    with engine.connect() as connection:
        newest = next(snapshots(connection)).id
        counted = select(func.count()).select_from(at_snapshot(t, newest))
        assert connection.scalar(counted) == ROWS + 500 - 10 + 30_000
    engine.dispose()
    again = create_engine(url)
    with again.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(t)) == ROWS + 30_490
    again.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO '{outside}'",
        "ATTACH '{outside}' AS other",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "SET memory_limit = '1GB'",
        "INSTALL spatial",
    ],
)
@pytest.mark.parametrize("url", ["ducklake"], indirect=True)
def test_but_nothing_else(engine: Engine, tmp_path: Path, statement: str) -> None:
    outside = tmp_path / "outside"
    with engine.connect() as connection, pytest.raises(DBAPIError) as caught:
        connection.execute(text(statement.format(outside=outside)))
    assert not errors.classify(caught.value).may_have_published
    assert not outside.exists()


def test_what_the_user_allows_besides_is_allowed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("a,b\n1,2\n")
    query = SEALED | {
        "duckdb.allowed_directories": f"['{tmp_path / 'in'}']",
        "duckdb.allowed_configs": "['memory_limit']",
    }
    engine = create_engine(url_of("ducklake", request, tmp_path).update_query_dict(query))
    with engine.begin() as connection:
        connection.execute(text("SET memory_limit = '1GB'"))
        read = text(f"CREATE TABLE t AS FROM read_csv('{tmp_path / 'in' / 'a.csv'}')")
        connection.execute(read)
    with engine.begin() as connection:
        assert connection.execute(text("FROM t")).all() == [(1, 2)]
    engine.dispose()
