"""What a transaction may overlook, level by level."""

from __future__ import annotations

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    exc,
    func,
    insert,
    select,
)

from sqlalchemy_ducklake import errors

metadata = MetaData()
seen = Table("seen", metadata, Column("n", Integer))
noted = Table("noted", metadata, Column("n", Integer))


def read_one_and_append_to_the_other(engine: Engine, level: str) -> int:
    """Note how many rows were seen, while somebody else adds one."""
    metadata.create_all(engine)
    with engine.connect().execution_options(isolation_level=level) as connection:
        count = int(connection.scalar(select(func.count()).select_from(seen)) or 0)
        with engine.begin() as other:
            other.execute(insert(seen), {"n": 1})
        connection.execute(insert(noted), {"n": count})
        connection.commit()
    with engine.connect() as connection:
        return len(connection.execute(select(noted)).all())


def test_a_snapshot_may_be_out_of_date_when_it_is_built_on(engine: Engine) -> None:
    assert read_one_and_append_to_the_other(engine, "SNAPSHOT") == 1


def test_a_serializable_transaction_is_refused_if_anything_was_published(
    engine: Engine,
) -> None:
    with pytest.raises(exc.OperationalError) as caught:
        read_one_and_append_to_the_other(engine, "SERIALIZABLE")
    assert isinstance(caught.value.orig, errors.SerializationFailure)


def test_a_serializable_transaction_that_only_reads_is_never_refused(engine: Engine) -> None:
    metadata.create_all(engine)
    serializable = engine.execution_options(isolation_level="SERIALIZABLE")
    with serializable.connect() as connection:
        assert connection.execute(select(seen)).all() == []
        with engine.begin() as other:
            other.execute(insert(seen), {"n": 1})
        assert connection.execute(select(seen)).all() == []
        connection.commit()


def test_a_level_ends_with_its_connection(engine: Engine) -> None:
    def level(connection: Connection) -> str:
        return str(connection.get_isolation_level())

    for one in ("SERIALIZABLE", "AUTOCOMMIT", "SNAPSHOT"):
        with engine.connect().execution_options(isolation_level=one) as connection:
            assert level(connection) == one
        with engine.connect() as connection:
            assert level(connection) == "SNAPSHOT"


def test_a_driver_that_commits_by_itself_is_told_apart(engine: Engine) -> None:
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        assert not engine.dialect.detect_autocommit_setting(raw)
        raw.autocommit = True
        assert engine.dialect.detect_autocommit_setting(raw)
