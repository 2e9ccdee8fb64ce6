"""Inheritance: of joined tables, and of a single one."""

from __future__ import annotations

from sqlalchemy import Engine, ForeignKey, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    selectin_polymorphic,
    with_polymorphic,
)


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


class Vehicle(Base):
    """Anything that drives; each kind has a table of its own besides."""

    __tablename__ = "vehicle"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "vehicle"}  # noqa: RUF012


class Bus(Vehicle):
    """A bus."""

    __tablename__ = "bus"
    id: Mapped[int] = mapped_column(ForeignKey("vehicle.id"), primary_key=True)
    seats: Mapped[int]
    __mapper_args__ = {"polymorphic_identity": "bus"}  # noqa: RUF012


class Truck(Vehicle):
    """A truck."""

    __tablename__ = "truck"
    id: Mapped[int] = mapped_column(ForeignKey("vehicle.id"), primary_key=True)
    tons: Mapped[float]
    __mapper_args__ = {"polymorphic_identity": "truck"}  # noqa: RUF012


class Payment(Base):
    """A payment; all kinds are in one table."""

    __tablename__ = "payment"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    cents: Mapped[int]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "cash"}  # noqa: RUF012


class CardPayment(Payment):
    """A payment by card."""

    card: Mapped[str | None] = mapped_column(use_existing_column=True)
    __mapper_args__ = {"polymorphic_identity": "card"}  # noqa: RUF012


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(
            [Bus(name="B1", seats=40), Truck(name="T1", tons=7.5), Vehicle(name="V1")]
        )
        session.add_all([Payment(cents=5), CardPayment(cents=7, card="x")])
        session.commit()
    with Session(engine) as session:
        every = with_polymorphic(Vehicle, [Bus, Truck])
        found = session.scalars(select(every).order_by(every.name)).all()
        assert [type(one) for one in found] == [Bus, Truck, Vehicle]
        big = select(every.name).where((every.Bus.seats > 30) | (every.Truck.tons > 9))
        assert session.scalars(big).all() == ["B1"]
    with Session(engine) as session:
        query = select(Vehicle).options(selectin_polymorphic(Vehicle, [Bus, Truck]))
        bus = next(one for one in session.scalars(query) if isinstance(one, Bus))
        bus.seats, bus.name = 41, "B2"
        session.commit()
        assert session.execute(select(Bus.name, Bus.seats)).all() == [("B2", 41)]
        session.delete(bus)
        session.commit()
        assert sorted(session.scalars(select(Vehicle.name))) == ["T1", "V1"]
        assert session.scalars(select(CardPayment.card)).all() == ["x"]
        assert sorted(session.scalars(select(Payment.cents))) == [5, 7]
