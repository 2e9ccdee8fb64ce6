"""Automap: classes made of what the lake says, with relationships by its foreign keys."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Engine, ForeignKey, Integer, MetaData, String, Table, select
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.orm import Session

metadata = MetaData()
Table(
    "country",
    metadata,
    Column("code", String(2), primary_key=True),
    Column("name", String, nullable=False),
)
Table(
    "city",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("country_code", ForeignKey("country.code")),
)


def run(engine: Engine) -> None:
    """Tell the chapter on a lake."""
    metadata.create_all(engine)
    base: Any = automap_base()
    base.prepare(autoload_with=engine)
    country, city = base.classes.country, base.classes.city
    with Session(engine) as session:
        peru = country(code="pe", name="Peru")
        peru.city_collection.append(city(name="Lima"))
        session.add_all([peru, city(name="Cusco", country=peru)])
        session.commit()
    with Session(engine) as session:
        query = (
            select(city).join(city.country).where(country.name == "Peru").order_by(city.name)
        )
        found = session.scalars(query).all()
        assert [(one.id, one.name, one.country.code) for one in found] == [
            (2, "Cusco", "pe"),
            (1, "Lima", "pe"),
        ]
        session.get_one(country, "pe").name = "Perú"
        session.commit()
        assert session.scalar(select(country.name)) == "Perú"
