"""What SQLAlchemy asks for when it reflects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.engine.reflection import ObjectKind, ObjectScope

from sqlalchemy_ducklake.dialect.reflection.found import Found


@dataclass(frozen=True, slots=True)
class Question:
    """Which objects are asked for: all of a schema, or those with ``names``."""

    schema: str | None
    names: tuple[str, ...] | None
    scope: ObjectScope
    kind: ObjectKind

    @classmethod
    def of(cls, kw: dict[str, Any]) -> Question:
        """Take the question out of the arguments of a ``get_multi_…``."""
        names = kw.pop("filter_names", None)
        return cls(
            kw.pop("schema", None),
            None if names is None else tuple(sorted(names)),
            kw.pop("scope", ObjectScope.DEFAULT),
            kw.pop("kind", ObjectKind.TABLE),
        )

    def wants(self, found: Found) -> bool:
        """Tell whether something found is of the kind that is asked for."""
        return (ObjectKind.VIEW if found.is_view else ObjectKind.TABLE) in self.kind

    def needs_temporary(self, connection: Connection, stored: int) -> bool:
        """Tell whether the engine has to be asked for temporary tables, which takes it long.

        Not if this connection made none, and all that are named are among ``stored`` ones.
        """
        if ObjectScope.TEMPORARY not in self.scope or self.schema is not None:
            return False
        if ObjectScope.DEFAULT not in self.scope:
            return True
        if self.names is not None and stored < len(self.names):
            return True
        driver = connection.connection.dbapi_connection
        return bool(getattr(driver, "may_hold_temporary", True))
