"""Upserts: by Core and by the ORM, of many rows, with conditions, and what they tell."""

from __future__ import annotations

from sqlalchemy import Engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from sqlalchemy_ducklake import MergeResult, insert, merge, merge_result, upsert


class Base(DeclarativeBase):
    """The base of the classes of this chapter."""


class Stock(Base):
    """How many of a thing there are."""

    __tablename__ = "stock"
    sku: Mapped[str] = mapped_column(primary_key=True)
    pieces: Mapped[int]
    note: Mapped[str | None]


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        plain = insert(Stock).on_conflict_do_update()
        first = connection.execute(
            plain, [{"sku": "a", "pieces": 1}, {"sku": "b", "pieces": 2}]
        )
        assert merge_result(first).inserted == 2
        again = connection.execute(
            plain, [{"sku": "b", "pieces": 2}, {"sku": "c", "pieces": 3}]
        )
        assert merge_result(again) == MergeResult(inserted=1, unchanged=1)
        ignored = insert(Stock).on_conflict_do_nothing()
        assert connection.execute(ignored, {"sku": "a", "pieces": 9}).rowcount == 0
    with Session(engine) as session:
        statement = insert(Stock).values([{"sku": "a", "pieces": 4}, {"sku": "d", "pieces": 5}])
        added = statement.on_conflict_do_update(
            index_elements=["sku"],
            set_={"pieces": Stock.pieces + statement.excluded.pieces},
            where=Stock.pieces < 100,
        )
        found = session.scalars(added.returning(Stock)).all()
        assert sorted((stock.sku, stock.pieces) for stock in found) == [("a", 5), ("d", 5)]
        session.commit()
    with engine.begin() as connection:
        rows = [
            {"sku": "d", "pieces": 6, "note": None},
            {"sku": "e", "pieces": 7, "note": "new"},
        ]
        assert merge_result(connection.execute(upsert(Stock, rows))).updated == 1
        sold_out = merge(Stock).using([{"sku": "e", "pieces": 0}])
        sold_out = sold_out.when_matched_delete(where=sold_out.source.c.pieces == 0)
        assert merge_result(connection.execute(sold_out)).deleted == 1
        every = connection.execute(select(Stock.sku, Stock.pieces).order_by(Stock.sku)).all()
        assert every == [("a", 5), ("b", 2), ("c", 3), ("d", 6)]
