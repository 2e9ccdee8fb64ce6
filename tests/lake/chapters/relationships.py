"""Relationships: one to many, many to many, self references, and ways to load them."""

from __future__ import annotations

from sqlalchemy import Column, Engine, ForeignKey, Table, select
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    WriteOnlyMapped,
    joinedload,
    mapped_column,
    raiseload,
    relationship,
    selectinload,
    subqueryload,
)


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


members = Table(
    "members",
    Base.metadata,
    Column("club_id", ForeignKey("club.id"), primary_key=True),
    Column("person_id", ForeignKey("person.id"), primary_key=True),
)


class Person(Base):
    """Somebody, with a boss, and members of clubs."""

    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    boss_id: Mapped[int | None] = mapped_column(ForeignKey("person.id"))
    boss: Mapped[Person | None] = relationship(remote_side="Person.id", back_populates="staff")
    staff: Mapped[list[Person]] = relationship(back_populates="boss", order_by="Person.name")
    clubs: Mapped[set[Club]] = relationship(secondary=members, back_populates="people")
    visits: WriteOnlyMapped[Visit] = relationship(order_by="Visit.id")


class Club(Base):
    """A club of people."""

    __tablename__ = "club"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    people: Mapped[list[Person]] = relationship(
        secondary=members, back_populates="clubs", order_by=Person.name
    )


class Visit(Base):
    """One of many visits, which are never loaded all."""

    __tablename__ = "visit"
    id: Mapped[int] = mapped_column(primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id"))
    place: Mapped[str]


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        ann = Person(name="Ann")
        ben, cid = Person(name="Ben", boss=ann), Person(name="Cid", boss=ann)
        chess, choir = (
            Club(name="chess", people=[ann, ben]),
            Club(name="choir", people=[cid, ann]),
        )
        session.add_all([chess, choir])
        ann.visits.add_all([Visit(place="sea"), Visit(place="hill")])
        session.commit()
        assert [person.name for person in ann.staff] == ["Ben", "Cid"]
        assert session.scalars(ann.visits.select().where(Visit.place == "sea")).one().id == 1
    for load in (selectinload, joinedload, subqueryload):
        with Session(engine) as session:
            query = select(Club).options(load(Club.people), raiseload("*")).order_by(Club.name)
            clubs = session.scalars(query).unique().all()
            found = [[person.name for person in club.people] for club in clubs]
            assert found == [["Ann", "Ben"], ["Ann", "Cid"]]
    with Session(engine) as session:
        led = select(Person.name).where(Person.boss.has(name="Ann")).order_by(Person.name)
        assert session.scalars(led).all() == ["Ben", "Cid"]
        bare = select(Person.name).where(~Person.staff.any()).order_by(Person.name)
        assert session.scalars(bare).all() == ["Ben", "Cid"]
        singing = select(Person).join(Person.clubs).where(Club.name == "choir")
        ann = session.scalars(singing.where(Person.boss_id.is_(None))).one()
        ann.clubs.discard(next(club for club in ann.clubs if club.name == "choir"))
        session.commit()
        left = select(Person.name).join(Person.clubs).where(Club.name == "choir")
        assert session.scalars(left).all() == ["Cid"]
