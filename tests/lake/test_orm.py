"""The ORM with nothing but another URL."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlalchemy import Engine, exc, func, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from sqlalchemy_ducklake import errors, insert, merge_result


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    created: Mapped[dt.datetime] = mapped_column(server_default=func.now())


class Place(Base):
    __tablename__ = "places"
    country: Mapped[str] = mapped_column(primary_key=True)
    city: Mapped[str] = mapped_column(primary_key=True)
    people: Mapped[int | None]


@pytest.fixture
def session(engine: Engine) -> Session:
    Base.metadata.create_all(engine)
    return Session(engine)


def test_objects_are_added_found_changed_and_deleted(session: Session) -> None:
    with session:
        ada, bob = User(name="ada"), User(name="bob")
        session.add_all([ada, bob, Place(country="NL", city="Utrecht", people=1)])
        session.commit()
        assert (ada.id, bob.id) == (1, 2)
        assert isinstance(ada.created, dt.datetime)
        place = session.get_one(Place, ("NL", "Utrecht"))
        place.people = 370_000
        ada.name = "Ada"
        session.delete(bob)
        session.commit()
        session.expire_all()
        assert session.scalars(select(User.name)).all() == ["Ada"]
        assert session.get_one(Place, ("NL", "Utrecht")).people == 370_000


def test_many_objects_are_flushed_set_based_with_their_keys_in_order(session: Session) -> None:
    with session:
        users = [User(name=f"u{number}") for number in range(500)]
        session.add_all(users)
        session.commit()
        assert [user.id for user in users] == list(range(1, 501))
        for user in users:
            user.name = user.name.upper()
        session.commit()
        for user in users[:250]:
            session.delete(user)
        session.commit()
        names = session.scalars(select(User.name).order_by(User.id)).all()
        assert names == [f"U{number}" for number in range(250, 500)]


def test_a_duplicate_key_is_an_integrity_error_of_the_flush(session: Session) -> None:
    with session:
        session.add(Place(country="NL", city="Utrecht"))
        session.commit()
        session.expunge_all()
        session.add(Place(country="NL", city="Utrecht"))
        with pytest.raises(exc.IntegrityError) as caught:
            session.flush()
        session.rollback()
        assert isinstance(caught.value.orig, errors.KeyViolation)
        assert caught.value.orig.examples == (("NL", "Utrecht"),)
        assert session.scalar(select(func.count()).select_from(Place)) == 1


def test_a_row_that_somebody_else_deleted_is_stale(session: Session) -> None:
    from sqlalchemy.orm.exc import StaleDataError

    with session:
        user = User(name="a")
        session.add(user)
        session.commit()
        assert user.name == "a"
        session.connection().exec_driver_sql("DELETE FROM users")
        user.name = "b"
        with pytest.raises(StaleDataError):
            session.flush()


def test_entities_come_back_from_an_upsert_and_from_update_returning(session: Session) -> None:
    with session:
        session.add(User(name="a"))
        session.commit()
        statement = insert(User)
        upsert = statement.on_conflict_do_update(set_={"name": statement.excluded.name})
        given = [{"id": 1, "name": "A"}, {"id": 2, "name": "B"}]
        raw = {"dml_strategy": "raw"}
        options = {"populate_existing": True}
        users = session.scalars(upsert.returning(User), given, execution_options=options).all()
        assert [(user.id, user.name) for user in users] == [(1, "A"), (2, "B")]
        assert (
            merge_result(session.execute(upsert, given, execution_options=raw)).unchanged == 2
        )
        changed = session.scalars(
            update(User).where(User.id == 2).values(name="bb").returning(User)
        ).one()
        assert changed is users[1]
        assert changed.name == "bb"


def test_bulk_updates_keep_the_session_in_step(session: Session) -> None:
    with session:
        session.add_all([User(name="a"), User(name="b")])
        session.flush()
        for strategy in ("fetch", "evaluate"):
            session.execute(
                update(User).where(User.name != "z").values(name=strategy),
                execution_options={"synchronize_session": strategy},
            )
            assert {user.name for user in session.scalars(select(User))} == {strategy}
        session.execute(update(User), [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}])
        session.expire_all()
        assert session.scalars(select(User.name).order_by(User.id)).all() == ["x", "y"]
