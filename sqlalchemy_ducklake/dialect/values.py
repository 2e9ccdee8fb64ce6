"""How single values cross the border between Python and DuckDB, where they need help.

Each conversion stands against something that was measured on DuckDB 1.5.5's client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

Processor = Callable[[Any], Any]


def same(value: Any) -> Any:
    """Return the value as it is."""
    return value


def whole_number(value: Any) -> Any:
    """Return an int for a DECIMAL without scale."""
    return None if value is None else int(value)


def exact_number(value: Any) -> Any:
    """Return a number that the client sends exactly."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Decimal) and value.as_tuple().exponent > 0:  # type: ignore[operator]
        # DuckDB's client reads Decimal("1E+5") as 1.00000.
        return Decimal(f"{value:f}")
    return value


def digits(value: Any) -> str:
    """Write a number in plain digits: ``1E+5`` would be a DOUBLE to the engine."""
    return f"{Decimal(repr(value)) if isinstance(value, float) else Decimal(value):f}"


def float_literal(value: Any) -> str:
    """Write a float, also one that is not made of digits."""
    text = repr(float(value))
    return text if text[-1].isdigit() else f"'{text}'::DOUBLE"


def blob_literal(value: bytes) -> str:
    """Write every byte as two hexadecimal digits."""
    return "'" + "".join(f"\\x{byte:02X}" for byte in bytes(value)) + "'::BLOB"


def uuid_text(value: Any) -> Any:
    """Return the text of a UUID."""
    return str(value) if isinstance(value, UUID) else value


def text_literal(text: str) -> str:
    """Write text in quotes."""
    return "'" + text.replace("'", "''") + "'"


def json_step(value: int | str) -> str:
    """Write one step into JSON as a path."""
    return json_path((value,))


def json_path(value: Sequence[int | str]) -> str:
    """Write steps into JSON as a path."""
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f'."{_escaped(step)}"' for step in value
    )


def _escaped(step: str) -> str:
    return step.replace("\\", "\\\\").replace('"', '\\"')


def of_elements(element: Processor | None, depth: int) -> Processor | None:
    """Convert the elements of lists that are ``depth`` deep."""
    if element is None:
        return None
    inner = element if depth == 1 else of_elements(element, depth - 1)
    assert inner is not None

    def process(value: Iterable[Any] | None) -> Any:
        return None if value is None else [inner(one) for one in value]

    return process


def of_fields(fields: Mapping[str, Processor | None]) -> Processor | None:
    """Convert those fields that have a conversion."""
    converting = {name: process for name, process in fields.items() if process is not None}
    if not converting:
        return None

    def process(value: Mapping[str, Any] | None) -> Any:
        if value is None:
            return None
        return {
            name: converting[name](one) if name in converting else one
            for name, one in value.items()
        }

    return process
