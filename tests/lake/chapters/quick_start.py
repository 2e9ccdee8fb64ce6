"""ORM quick start: declared classes, a session, objects saved, found, changed and deleted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, ForeignKey, String, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


class Garden(Base):
    """A garden with its beds."""

    __tablename__ = "garden"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(30))
    owner: Mapped[str | None]
    beds: Mapped[list[Bed]] = relationship(
        back_populates="garden", cascade="all, delete-orphan"
    )


class Bed(Base):
    """A bed in a garden."""

    __tablename__ = "bed"
    id: Mapped[int] = mapped_column(primary_key=True)
    plant: Mapped[str]
    garden_id: Mapped[int] = mapped_column(ForeignKey("garden.id"))
    garden: Mapped[Garden] = relationship(back_populates="beds")


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        north = Garden(name="north", owner="Ada", beds=[Bed(plant="kale"), Bed(plant="leek")])
        south = Garden(name="south", beds=[Bed(plant="thyme")])
        session.add_all([north, south, Garden(name="wild")])
        session.commit()
        assert [bed.id for bed in north.beds] == [1, 2]
    with Session(engine) as session:
        named: Any = (
            select(Garden).where(Garden.name.in_(["north", "wild"])).order_by(Garden.name)
        )
        assert [len(garden.beds) for garden in session.scalars(named)] == [2, 0]
        of_kale = select(Garden).join(Garden.beds).where(Bed.plant == "kale")
        garden = session.scalars(of_kale).one()
        garden.beds.append(Bed(plant="beet"))
        garden.owner = None
        session.flush()
        garden.beds.remove(garden.beds[0])
        session.delete(session.get_one(Garden, 2))
        session.commit()
    with Session(engine) as session:
        assert sorted(session.scalars(select(Bed.plant))) == ["beet", "leek"]
        assert session.get(Garden, 2) is None
        assert session.get_one(Garden, 1).owner is None
