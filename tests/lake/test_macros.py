"""Macros of a lake are listed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, func, inspect, select


def test_macros_are_listed_with_their_definitions(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA other")
        connection.exec_driver_sql("CREATE MACRO twice(a) AS a * 2")
        connection.exec_driver_sql(
            "CREATE MACRO first_n(n, m) AS TABLE SELECT range FROM range(n)"
        )
        connection.exec_driver_sql('CREATE MACRO other."it\'s"() AS 1')
    inspector: Any = inspect(engine)
    first, twice = inspector.get_macros()
    assert (first["name"], first["table"], first["parameters"]) == ("first_n", True, ["n", "m"])
    assert "range" in first["definition"]
    assert twice == {
        "name": "twice",
        "table": False,
        "parameters": ["a"],
        "definition": "(a * 2)",
    }
    assert [macro["name"] for macro in inspector.get_macros("other")] == ["it's"]
    with engine.connect() as connection:
        assert connection.scalar(select(func.twice(4))) == 8
        assert len(inspect(connection).get_table_names()) == 0
