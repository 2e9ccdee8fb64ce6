"""Streaming: many rows through little memory, by Core and by the ORM."""

from __future__ import annotations

from sqlalchemy import Engine, Integer, func, insert, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


class Event(Base):
    """One of many."""

    __tablename__ = "event"
    id: Mapped[int] = mapped_column(primary_key=True)
    square: Mapped[int]


COUNT = 20_000


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    numbers = func.range(COUNT, type_=Integer).column_valued("number")
    with engine.begin() as connection:
        source = select(numbers, numbers * numbers)
        connection.execute(insert(Event).from_select(["id", "square"], source))
    query = select(Event.id).order_by(Event.id)
    with engine.connect() as connection:
        options = {"stream_results": True, "max_row_buffer": 500}
        result = connection.execution_options(**options).execute(query)
        assert [result.fetchone() for _ in range(3)] == [(0,), (1,), (2,)]
        assert len(result.fetchmany(700)) == 700
        assert connection.scalar(select(func.count()).select_from(Event)) == COUNT
        assert sum(1 for _ in result) == COUNT - 703
    with engine.connect() as connection:
        parts = connection.execution_options(yield_per=3000).execute(query).partitions()
        assert [len(part) for part in parts] == [3000] * 6 + [2000]
    with Session(engine) as session:
        entities = select(Event).order_by(Event.id.desc()).execution_options(yield_per=1000)
        seen = 0
        for event in session.scalars(entities):
            assert event.square == event.id**2
            seen += 1
            if seen % 10_000 == 0:
                assert session.scalar(select(func.max(Event.id))) == COUNT - 1
        assert seen == COUNT
        frozen = session.execute(query.limit(5)).freeze()
        assert [row.id for row in frozen()] == list(range(5))
