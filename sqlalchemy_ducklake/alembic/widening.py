"""The types that a column may change to without losing anything.

The engine itself promotes more than that: INTEGER to FLOAT rounds, and VARCHAR to JSON
lets values stand that are no JSON.
"""

from __future__ import annotations

from sqlalchemy_ducklake.dialect.reflection.typenames import TypeName, parse

# How many decimal digits the values of an integer type can have.
_DIGITS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19,
    "UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20,
}  # fmt: skip
_WIDER = {
    "TINYINT": "SMALLINT INTEGER BIGINT HUGEINT DOUBLE",
    "SMALLINT": "INTEGER BIGINT HUGEINT DOUBLE",
    "INTEGER": "BIGINT HUGEINT DOUBLE",
    "BIGINT": "HUGEINT",
    "UTINYINT": "SMALLINT INTEGER BIGINT HUGEINT USMALLINT UINTEGER UBIGINT UHUGEINT DOUBLE",
    "USMALLINT": "INTEGER BIGINT HUGEINT UINTEGER UBIGINT UHUGEINT DOUBLE",
    "UINTEGER": "BIGINT HUGEINT UBIGINT UHUGEINT DOUBLE",
    "UBIGINT": "HUGEINT UHUGEINT",
    "FLOAT": "DOUBLE",
}


def is_lossless(old: TypeName, new: TypeName) -> bool:
    """Tell whether every value of one type is a value of the other, and the lake can do it."""
    if new.name == "DECIMAL" and new.numbers:
        return _fits(old, *new.numbers)
    return new in targets(old)


def targets(old: TypeName) -> tuple[TypeName, ...]:
    """Return the types without numbers that a type may be widened to."""
    return tuple(parse(name) for name in _WIDER.get(old.name, "").split())


def told(old: TypeName) -> str:
    """Name the allowed targets for a message."""
    names = [each.name for each in targets(old)]
    if old.name in _DIGITS or old.name == "DECIMAL":
        digits, scale = _size(old)
        names.append(
            f"DECIMAL with at least {digits} digits before and {scale} behind the point"
        )
    return ", ".join(names) or "none"


def _fits(old: TypeName, precision: int, scale: int) -> bool:
    if old.name not in _DIGITS and old.name != "DECIMAL":
        return False
    digits, old_scale = _size(old)
    return precision - scale >= digits and scale >= old_scale


def _size(old: TypeName) -> tuple[int, int]:
    """Return the digits before and behind the point."""
    if old.name != "DECIMAL":
        return _DIGITS[old.name], 0
    precision, scale = old.numbers
    return precision - scale, scale
