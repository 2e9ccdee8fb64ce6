"""What an SQL expression computes for an INTERVAL column is held to what files can hold."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Engine,
    Integer,
    Interval,
    MetaData,
    Table,
    exc,
    insert,
    literal,
    literal_column,
    select,
    text,
)

from sqlalchemy_ducklake import errors, merge
from sqlalchemy_ducklake.dialect import types as lake_types

EARLY, LATE = map(dt.datetime.fromisoformat, ("2024-01-01", "2024-01-02T03:00:00"))
BAD = ("-1 day", "1 month -1 day", "-3 hours", "0.0015 seconds", "1200 hours", "-1 month")
GOOD = ("0 days", "13 months", "50 days", "1192 hours", "1.5 seconds", "90 minutes")


def tables(kind: Any, *, keyed: bool) -> tuple[Table, Table]:
    metadata = MetaData()
    spans = Table(
        "spans",
        metadata,
        Column("id", Integer, primary_key=keyed, autoincrement=False),
        Column("span", kind),
        Column("n", Integer),
    )
    times = Table(
        "times",
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("since", DateTime),
        Column("until", DateTime),
    )
    return spans, times


def refused(connection: Connection, statement: Any) -> errors.ValueRefused:
    with pytest.raises(exc.DataError) as caught:
        connection.execute(statement)
    error = caught.value.orig
    assert isinstance(error, errors.ValueRefused)
    assert (error.column, error.expected, error.position) == ("span", "INTERVAL", None)
    assert "Parquet" in str(error)
    return error


def of(value: str) -> Any:
    return literal_column(f"INTERVAL '{value}'", lake_types.INTERVAL())


@pytest.mark.parametrize("scope", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("kind", [Interval(), lake_types.INTERVAL()])
def test_what_is_computed_is_looked_at(
    engine: Engine, kind: Any, keyed: bool, scope: bool
) -> None:
    spans, times = tables(kind, keyed=keyed)
    spans.metadata.create_all(engine)
    lasted = times.c.until - times.c.since
    with engine.execution_options(ducklake_write_scope=scope).connect() as connection:
        connection.execute(
            insert(times),
            [
                {"id": 1, "since": EARLY, "until": LATE},
                {"id": 2, "since": LATE, "until": EARLY},
            ],
        )
        connection.execute(insert(spans), {"id": 0, "span": dt.timedelta(1), "n": 0})
        copied = insert(spans).from_select(["id", "span"], select(times.c.id, lasted))
        assert refused(connection, copied).found == dt.timedelta(days=-1, hours=-3)
        connection.execute(
            insert(spans).from_select(
                ["id", "span"], select(times.c.id, lasted).where(times.c.id == 1)
            )
        )
        for number, value in enumerate(BAD):
            refused(connection, insert(spans).values(id=10 + number, span=of(value)))
            refused(connection, spans.update().where(spans.c.id == 0).values(span=of(value)))
        for number, value in enumerate(GOOD):
            connection.execute(insert(spans).values(id=20 + number, span=of(value)))
            change = spans.update().where(spans.c.id == 0)
            assert connection.execute(change.values(span=of(value))).rowcount == 1
        # Other columns, and NULL, are nobody's concern.
        connection.execute(spans.update().values(n=spans.c.n + 1))
        connection.execute(spans.update().where(spans.c.id == 20).values(span=None))
        connection.commit()
        connection.execute(text("CALL ducklake_flush_inlined_data('lake')"))
        connection.commit()
        found = {number: span for number, span, _ in connection.execute(select(spans))}
    assert found[1] == dt.timedelta(days=1, hours=3)
    assert found[0] == dt.timedelta(minutes=90)
    assert found[20] is None
    assert found[24] == dt.timedelta(seconds=1.5)


def test_a_merge_is_looked_at_too_and_no_enforcement_is_none(engine: Engine) -> None:
    spans, _ = tables(Interval(), keyed=True)
    spans.metadata.create_all(engine)
    with engine.connect() as connection:
        source = select(literal(5).label("id"), of("-1 day").label("span")).subquery()
        refused(connection, merge(spans).using(source).when_not_matched_insert())
        unchecked = connection.execution_options(enforce_constraints="none")
        unchecked.execute(insert(spans).values(id=1, span=of("-1 day")))
        assert unchecked.scalar(select(spans.c.span)) == dt.timedelta(days=-1)
        connection.rollback()
