"""The New York flights of 2013 as SQLAlchemy models.

Nothing here knows of lakes: the same models would make the tables of any database.  Every
table has the key that the data themselves have.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import DateTime
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """What the models of this example share."""


class Airline(Base):
    """A carrier by its two-letter code."""

    __tablename__ = "airlines"

    carrier: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]


class Airport(Base):
    """An airport by its FAA code; ``alt`` is in feet, ``tz`` in hours from UTC."""

    __tablename__ = "airports"

    faa: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    lat: Mapped[float]
    lon: Mapped[float]
    alt: Mapped[int]
    tz: Mapped[int | None]
    dst: Mapped[str | None]
    tzone: Mapped[str | None]


class Plane(Base):
    """A plane by its tail number; ``speed`` is in miles per hour."""

    __tablename__ = "planes"

    tailnum: Mapped[str] = mapped_column(primary_key=True)
    year: Mapped[int | None]
    type: Mapped[str]
    manufacturer: Mapped[str]
    model: Mapped[str]
    engines: Mapped[int]
    seats: Mapped[int]
    speed: Mapped[int | None]
    engine: Mapped[str]


class Weather(Base):
    """One hour of weather at one airport, in Fahrenheit, inches, miles and millibars.

    The local hour is no key: one comes twice when summer time ends.
    """

    __tablename__ = "weather"

    time_hour: Mapped[datetime] = mapped_column(DateTime(timezone=True), primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    year: Mapped[int]
    month: Mapped[int]
    day: Mapped[int]
    hour: Mapped[int]
    temp: Mapped[float | None]
    dewp: Mapped[float | None]
    humid: Mapped[float | None]
    wind_dir: Mapped[int | None]
    wind_speed: Mapped[float | None]
    wind_gust: Mapped[float | None]
    precip: Mapped[float]
    pressure: Mapped[float | None]
    visib: Mapped[float]


class Flight(Base):
    """A flight that was to leave New York; times of day are local, like 517 for 5:17.

    ``time_hour`` is the hour it was to leave in.  It leads the key because flights arrive
    in that order: a merge of recent flights then reads recent files only.
    """

    __tablename__ = "flights"

    time_hour: Mapped[datetime] = mapped_column(DateTime(timezone=True), primary_key=True)
    carrier: Mapped[str] = mapped_column(primary_key=True)
    flight: Mapped[int] = mapped_column(primary_key=True)
    origin: Mapped[str] = mapped_column(primary_key=True)
    dest: Mapped[str]
    tailnum: Mapped[str | None]
    year: Mapped[int]
    month: Mapped[int]
    day: Mapped[int]
    hour: Mapped[int]
    minute: Mapped[int]
    sched_dep_time: Mapped[int]
    dep_time: Mapped[int | None]
    dep_delay: Mapped[int | None]
    sched_arr_time: Mapped[int]
    arr_time: Mapped[int | None]
    arr_delay: Mapped[int | None]
    air_time: Mapped[int | None]
    distance: Mapped[int]
