"""Bulk data changes by entity: insert, update by key, update and delete by condition."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


class Reading(Base):
    """What a meter said."""

    __tablename__ = "reading"
    id: Mapped[int] = mapped_column(primary_key=True)
    meter: Mapped[str]
    value: Mapped[int]


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    rows = [{"meter": f"m{number % 3}", "value": number} for number in range(300)]
    with Session(engine) as session:
        returned = session.scalars(
            insert(Reading).returning(Reading, sort_by_parameter_order=True), rows
        ).all()
        assert [reading.value for reading in returned] == list(range(300))
        session.execute(update(Reading), [{"id": 1, "value": -1}, {"id": 2, "value": -2}])
        first = session.get_one(Reading, 1)
        session.refresh(first)
        assert first.value == -1
        session.commit()
    strategies: list[Any] = ["auto", "evaluate", "fetch", False]
    for number, strategy in enumerate(strategies, start=1):
        with Session(engine) as session:
            kept = session.get_one(Reading, 300)
            options = {"synchronize_session": strategy}
            raised = (
                update(Reading).where(Reading.meter == kept.meter).values(value=1000 + number)
            )
            assert session.execute(raised, execution_options=options).rowcount == 100  # type: ignore[attr-defined]
            if strategy is not False:
                assert kept.value == 1000 + number
            session.commit()
    with Session(engine) as session:
        doomed = session.get_one(Reading, 2)
        gone = delete(Reading).where(Reading.value < 10).returning(Reading.id)
        removed = session.scalars(
            gone, execution_options={"synchronize_session": "fetch"}
        ).all()
        assert doomed not in session
        assert len(removed) == session.scalar(select(300 - func.count()).select_from(Reading))
        session.commit()
    by_value = update(Reading.__table__).where(Reading.value == bindparam("old"))  # type: ignore[arg-type]
    with engine.begin() as connection:
        sets = [{"old": 1004, "new": 1}, {"old": 5000, "new": 2}]
        assert connection.execute(by_value.values(value=bindparam("new")), sets).rowcount == 100
