"""What SQLAlchemy's own test suite may ask of a lake: everything but what is closed here."""

# What the suite calls "open" is told to its class, not to ours, so its names come by loop.
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

_DESCRIBES_OTHERS = "tells how some other database answers; a lake's answer is the plain one"

#: Why each closed requirement cannot be met.
CLOSED: Mapping[str, str] = {
    "cast_precision_numerics_many_significant_digits": "JSON numbers are read as DOUBLE",
    "column_collation_reflection": "a lake has no collations",
    "computed_columns_virtual": "a lake stores what it computes",
    "denormalized_names": "only for databases that turn names to upper case",
    "materialized_views": "a lake has no materialized views",
    "materialized_views_reflect_pk": "a lake has no materialized views",
    "reflect_tables_no_columns": "a lake's table must have at least one column",
    "savepoints": "only a write scope has savepoints",
    "sequences": "DuckLake has no sequences; integer keys are counted up without",
    "sequences_optional": "DuckLake has no sequences; integer keys are counted up without",
    "two_phase_transactions": "a lake commits by one snapshot, which cannot be prepared",
    "update_returning_dialect_not_supported": "contradicts update_returning, which is open",
    "window_range": "the suite relies on the order of rows without ORDER BY",
    "window_range_numeric": "the suite relies on the order of rows without ORDER BY",
    **dict.fromkeys(
        (
            "constraint_comment_reflection",
            "emulated_lastrowid_even_with_sequences",
            "foreign_keys_reflect_as_index",
            "implicitly_named_constraints",
            "json_deserializer_binary",
            "reflect_indexes_with_ascdesc_as_expression",
            "unique_constraints_reflect_as_index",
            "unique_index_reflect_as_unique_constraints",
        ),
        _DESCRIBES_OTHERS,
    ),
}


class Requirements(SuiteRequirements):
    """Opens every requirement that is not closed for a reason."""

    def get_order_by_collation(self, config: Any) -> str:
        """Name a collation to sort by."""
        return "nocase"

    def get_isolation_levels(self, config: Any) -> Mapping[str, Sequence[str] | str]:
        """Name the isolation levels."""
        with config.db.connect() as connection:
            raw = connection.connection.dbapi_connection
            supported = connection.dialect.get_isolation_level_values(raw)
        return {"default": "SNAPSHOT", "supported": supported}


def _keeps_nothing(config: Any) -> bool:
    """Tell whether the engine that is tested has no write scope."""
    return getattr(config.db.dialect, "write_scope", None) is None


def _requirement(name: str) -> property:
    if name == "savepoints":
        return property(lambda _: exclusions.skip_if(_keeps_nothing, CLOSED[name]))
    reason = CLOSED.get(name)
    if reason is None:
        return property(lambda _: exclusions.open())
    skipped = exclusions.BooleanPredicate(True, f"{name}: {reason}")
    return property(lambda _: exclusions.skip_if(skipped))


for _name, _value in vars(SuiteRequirements).items():
    if isinstance(_value, property):
        setattr(Requirements, _name, _requirement(_name))
