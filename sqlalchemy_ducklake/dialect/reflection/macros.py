"""Macros, of which SQLAlchemy's Inspector knows nothing.

``inspect(engine).get_macros()`` lists them; ``inspect`` gives an Inspector of this class
for every engine and connection of a lake.
"""

from __future__ import annotations

from typing import Any, TypedDict, cast

from sqlalchemy.engine.reflection import Inspector


class ReflectedMacro(TypedDict):
    """A macro: ``table`` says that it stands in FROM, ``definition`` is its expression."""

    name: str
    table: bool
    parameters: list[str]
    definition: str


class MacroInspector(Inspector):
    """An Inspector of a lake, which knows macros too."""

    def get_macros(self, schema: str | None = None) -> list[ReflectedMacro]:
        """Return the macros of a schema, in order of their names."""
        dialect: Any = self.dialect
        with self._operation_context() as connection:
            found = dialect.get_macros(connection, schema, info_cache=self.info_cache)
        return cast("list[ReflectedMacro]", found)


def described_macro(row: Any) -> ReflectedMacro:
    """Describe a row of the engine's list of functions."""
    return ReflectedMacro(
        name=row.function_name,
        table=row.function_type == "table_macro",
        parameters=list(row.parameters),
        definition=row.macro_definition,
    )
