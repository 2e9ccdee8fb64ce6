"""Hybrid attributes, column properties and composites: Python and SQL from one definition."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Engine, ForeignKey, func, select, update
from sqlalchemy.ext.associationproxy import AssociationProxy, association_proxy
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    column_property,
    composite,
    mapped_column,
    relationship,
)


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


@dataclass
class Price:
    """An amount in a currency."""

    cents: int
    currency: str


class Line(Base):
    """A line of a bill."""

    __tablename__ = "line"
    id: Mapped[int] = mapped_column(primary_key=True)
    bill_id: Mapped[int] = mapped_column(ForeignKey("bill.number"))
    label: Mapped[str]
    cents: Mapped[int]

    def __init__(self, label: str, cents: int = 1) -> None:
        super().__init__(label=label, cents=cents)


class Bill(Base):
    """A bill, due some days after its date."""

    __tablename__ = "bill"
    number: Mapped[int] = mapped_column(primary_key=True)
    day: Mapped[date]
    days: Mapped[int]
    price: Mapped[Price] = composite(mapped_column("cents"), mapped_column("currency"))
    lines: Mapped[list[Line]] = relationship()
    labels: AssociationProxy[list[str]] = association_proxy("lines", "label")
    count: Mapped[int] = column_property(
        select(func.count(Line.id))
        .where(Line.bill_id == number)
        .correlate_except(Line)
        .scalar_subquery()
    )

    @hybrid_property
    def due(self) -> date:
        """The day until which it is to be paid."""
        return self.day + timedelta(days=self.days)

    @due.inplace.expression
    @classmethod
    def _due(cls) -> ColumnElement[date]:
        return cls.day + cls.days

    @hybrid_method
    def is_late(self, today: date) -> bool:
        """Tell whether it should have been paid."""
        return self.due < today

    @hybrid_property
    def weeks(self) -> int:
        """How many weeks there are to pay."""
        return self.days // 7

    @weeks.inplace.setter
    def _weeks(self, value: int) -> None:
        self.days = 7 * value

    @weeks.inplace.update_expression
    @classmethod
    def _set_weeks(cls, value: Any) -> list[tuple[Any, Any]]:
        return [(cls.days, 7 * value)]


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        bill = Bill(day=date(2024, 2, 28), days=14, price=Price(500, "EUR"))
        bill.labels.extend(["tea", "bread"])
        session.add_all([bill, Bill(day=date(2024, 5, 1), days=7, price=Price(9, "CHF"))])
        session.commit()
        assert (bill.due, bill.weeks, bill.count) == (date(2024, 3, 13), 2, 2)
    with Session(engine) as session:
        late = session.scalars(select(Bill).where(Bill.is_late(date(2024, 4, 1)))).one()
        assert late.is_late(date(2024, 4, 1))
        assert late.labels == ["tea", "bread"]
        assert session.scalars(select(Bill.due).order_by(Bill.due)).all()[0] == late.due
        assert session.scalars(
            select(Bill.number).where(Bill.price == Price(9, "CHF"))
        ).all() == [2]
        assert session.scalars(select(Bill.number).where(Bill.weeks == 1)).all() == [2]
        assert session.scalars(
            select(Bill.number).where(Bill.labels.contains("tea"))
        ).all() == [1]
        late.weeks = 3
        late.price = Price(501, "EUR")
        session.execute(update(Bill).where(Bill.number == 2).values({Bill.weeks: 4}))
        session.commit()
        rows = session.execute(select(Bill.days, Bill.count).order_by(Bill.number)).all()
        assert rows == [(21, 2), (28, 0)]
