"""Airlines and the flights of 2013 as the newest revision leaves them.

The revisions in ``versions/`` lead here from a first schema; ``alembic check`` finds nothing
to do after the last of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Double, ForeignKey, Integer, String, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from sqlalchemy_ducklake.dialect.types import STRUCT


class Base(DeclarativeBase):
    """What the models of this example share."""


class Airline(Base):
    """A carrier by its two-letter code."""

    __tablename__ = "airlines"

    carrier: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(comment="as it was in 2013")


class Flight(Base):
    """A flight that was to leave New York; ``speed`` is in miles per hour."""

    __tablename__ = "flights"

    time_hour: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), primary_key=True, comment="the hour it was to leave in"
    )
    carrier: Mapped[str] = mapped_column(ForeignKey("airlines.carrier"), primary_key=True)
    flight: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    dest: Mapped[str]
    tailnum: Mapped[str | None]
    dep_delay: Mapped[int | None]
    arr_delay: Mapped[int | None]
    air_time: Mapped[int | None] = mapped_column(comment="minutes")
    route: Mapped[dict[str, Any] | None] = mapped_column(
        STRUCT({"origin": String, "dest": String, "miles": Integer})
    )
    speed: Mapped[float | None] = mapped_column(Double, comment="miles per hour")

    __table_args__ = (
        {
            "ducklake_partition_by": [func.month(time_hour)],
            "ducklake_sort_by": [time_hour],
            "comment": "one row for each departure",
        },
    )
