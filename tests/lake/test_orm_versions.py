"""Objects that count their versions, merged objects, and what goes stale."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import Engine, ForeignKey, event, func, select, text, update
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    mapped_column,
    relationship,
)
from sqlalchemy.orm.exc import StaleDataError

from sqlalchemy_ducklake import insert


class Base(DeclarativeBase):
    pass


class Counted(Base):
    __tablename__ = "counted"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    version: Mapped[int] = mapped_column()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Stamped(Base):
    __tablename__ = "stamped"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    stamp: Mapped[str] = mapped_column()
    __mapper_args__ = {  # noqa: RUF012
        "version_id_col": stamp,
        "version_id_generator": lambda _: uuid.uuid4().hex,
    }


class Parent(Base):
    __tablename__ = "parent"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(server_default=text("'none'"))
    made: Mapped[int] = mapped_column(
        default=func.length("four"), onupdate=func.length("three")
    )
    children: Mapped[list[Child]] = relationship(cascade="all, delete-orphan")


class Child(Base):
    __tablename__ = "child"
    id: Mapped[int] = mapped_column(primary_key=True)
    parent_id: Mapped[int] = mapped_column(ForeignKey("parent.id"))
    name: Mapped[str]


@pytest.fixture
def lake(engine: Engine) -> Engine:
    Base.metadata.create_all(engine)
    return engine


@pytest.mark.parametrize(("kind", "column"), [(Counted, "version"), (Stamped, "stamp")])
@pytest.mark.parametrize("many", [1, 3])
def test_a_version_that_somebody_else_raised_is_stale(
    lake: Engine, kind: Any, column: str, many: int
) -> None:
    with Session(lake) as session:
        session.add_all([kind(name=f"n{number}") for number in range(many)])
        session.commit()
        mine = session.scalars(select(kind).order_by(kind.id)).all()
        versions = [getattr(one, column) for one in mine]
        for one in mine:
            one.name = "changed"
        session.flush()
        assert all(old != getattr(one, column) for old, one in zip(versions, mine, strict=True))
        session.commit()
        session.refresh(mine[0])
    with Session(lake, expire_on_commit=False) as late:
        found = late.scalars(select(kind).order_by(kind.id)).all()
        late.commit()
        with Session(lake) as first:
            first.get_one(kind, 1).name = "first"
            first.commit()
        for one in found:
            one.name = "late"
        with pytest.raises(StaleDataError, match=f"{many} row.*{many - 1} were matched"):
            late.flush()
    with Session(lake) as session:
        names = session.scalars(select(kind.name).order_by(kind.id)).all()
    assert names == ["first", *["changed"] * (many - 1)]


def test_a_changed_row_is_not_deleted(lake: Engine) -> None:
    with Session(lake) as session, Session(lake, expire_on_commit=False) as late:
        session.add(Counted(id=1, name="a"))
        session.commit()
        found = late.get_one(Counted, 1)
        late.commit()
        session.get_one(Counted, 1).name = "b"
        session.commit()
        late.delete(found)
        with pytest.raises(StaleDataError, match=r"1 row.*0 were matched"):
            late.flush()


def test_detached_objects_are_merged(lake: Engine) -> None:
    with Session(lake) as session:
        session.add(Parent(name="p", children=[Child(name="a"), Child(name="b")]))
        session.commit()
    given = Parent(id=1, name="q", children=[Child(id=1, name="A"), Child(name="c")])
    with Session(lake) as session:
        merged = session.merge(given)
        assert merged is not given
        session.merge(Parent(id=7, name="new"))
        session.commit()
    with Session(lake) as session:
        first = session.get_one(Parent, 1)
        assert first.name == "q"
        assert sorted(child.name for child in first.children) == ["A", "c"]
        assert session.get_one(Parent, 7).name == "new"
        assert session.scalar(select(func.count()).select_from(Child)) == 2


def test_defaults_of_the_server_and_of_sql_come_back_with_the_flush(lake: Engine) -> None:
    statements: list[str] = []
    with Session(lake) as session:
        parents = [Parent() for _ in range(3)]
        session.add_all(parents)
        session.flush()

        @event.listens_for(session.connection(), "before_cursor_execute")
        def seen(*arguments: Any) -> None:
            statements.append(arguments[2])

        assert [(one.id, one.name, one.made) for one in parents] == [
            (number, "none", 4) for number in (1, 2, 3)
        ]
        assert statements == []  # they came by RETURNING
        parents[0].name = "changed"
        session.flush()
        assert parents[0].made == 5


def test_entities_are_upserted_in_bulk(lake: Engine) -> None:
    rows = [{"id": number, "name": f"n{number}", "version": 1} for number in range(5)]
    with Session(lake) as session:
        session.execute(insert(Counted), rows[:3])
        held = session.get_one(Counted, 1)
        again = [{**row, "name": "again"} for row in rows]
        statement = insert(Counted).on_conflict_do_update().returning(Counted)
        found = session.scalars(
            statement, again, execution_options={"populate_existing": True}
        ).all()
        assert {one.id for one in found} == set(range(5))
        assert held in found
        assert held.name == "again"
        changed = session.execute(
            update(Counted).where(Counted.id > 2).values(name="u").returning(Counted.id)
        )
        assert sorted(changed.scalars()) == [3, 4]


def test_dataclasses_are_mapped(engine: Engine) -> None:
    class Data(MappedAsDataclass, DeclarativeBase):
        pass

    class Point(Data):
        __tablename__ = "point"
        id: Mapped[int] = mapped_column(init=False, primary_key=True)
        x: Mapped[float]
        y: Mapped[float] = mapped_column(default=0.0)

    Data.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Point(1.5), Point(2.5, 3.0)])
        session.commit()
        points = session.scalars(select(Point).order_by(Point.x.desc())).all()
    assert [(point.x, point.y) for point in points] == [(2.5, 3.0), (1.5, 0.0)]
