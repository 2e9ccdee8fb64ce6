"""Parameters as statements take them: by name, where ``?`` and ``$1`` are ``'1'``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from sqlalchemy_ducklake.errors import ParameterError, ValueRefused

Parameters = Sequence[Any] | Mapping[str, Any]


class Fields(dict[str, Any]):
    """A dict that is a STRUCT, whatever the names of its fields are.

    DuckDB's client takes a plain dict with the keys ``key`` and ``value`` for a MAP if its
    values are of one length, and dies if they are not lists.
    """


class VariantFields(dict[str, Any]):
    """A dict inside of a VARIANT: a STRUCT, whose fields are called as they are written."""


def sendable(values: Mapping[str, Any] | Sequence[Any]) -> Any:
    """Give the values of a statement as DuckDB's client takes them without harm.

    Raises ValueRefused for a dict that the client would take for a MAP, and die.
    """
    if isinstance(values, Mapping):
        return {name: _sendable(name, value) for name, value in values.items()}
    return [_sendable(str(place), value) for place, value in enumerate(values, start=1)]


def _sendable(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _sendable_dict(name, value)
    if isinstance(value, list | tuple) and any(
        isinstance(one, dict | list | tuple) for one in value
    ):
        return [_sendable(name, one) for one in value]
    return value


def _sendable_dict(name: str, value: dict[Any, Any]) -> dict[Any, Any]:
    inside = {key: _sendable(name, one) for key, one in value.items()}
    if inside.keys() != {"key", "value"}:
        return inside
    if isinstance(value, Fields):
        # The engine finds the fields without regard to case, the client does not.
        return {"KEY": inside["key"], "VALUE": inside["value"]}
    sizes = [len(one) if hasattr(one, "__len__") else None for one in inside.values()]
    if sizes[0] != sizes[1] or sizes[0] is None:
        return inside
    if isinstance(value, VariantFields):
        reason = "DuckDB's client takes it for a MAP; several parameter sets carry it"
        raise ValueRefused(f"${name}", "VARIANT", value, 0, reason)
    if not _are_lists(inside.values()):
        reason = (
            "DuckDB's client takes it for a MAP and dies; send driver.Fields(...) for a STRUCT"
        )
        raise ValueRefused(f"${name}", "any type", value, 0, reason)
    return inside


def _are_lists(values: Iterable[Any]) -> bool:
    return all(isinstance(one, list | tuple) for one in values)


def as_sequence(parameters: Parameters) -> Sequence[Any]:
    """Give the values in order."""
    return tuple(parameters.values()) if isinstance(parameters, Mapping) else parameters


def by_name(parameters: Parameters) -> Mapping[str, Any]:
    """Name the values as the engine names placeholders."""
    if isinstance(parameters, Mapping):
        return parameters
    return {str(place): value for place, value in enumerate(parameters, start=1)}


def positional(parameters: Parameters) -> Any:
    """Give the values as DuckDB takes them for a text."""
    return dict(parameters) if isinstance(parameters, Mapping) else list(parameters)


def values_for(
    statement: duckdb.Statement, parameters: Parameters, *, several: bool = False
) -> dict[str, Any]:
    """Give the values that a statement needs; one of ``several`` may leave some over."""
    values = by_name(parameters)
    names = statement.named_parameters
    if names - values.keys() or (not several and values.keys() - names):
        raise ParameterError(sorted(names), sorted(values))
    return {name: values[name] for name in names}


def refuse_excess(statements: Iterable[duckdb.Statement], parameters: Parameters) -> None:
    """Refuse values that no statement uses: two with ``?`` each would share the first."""
    names = {name for statement in statements for name in statement.named_parameters}
    if by_name(parameters).keys() - names:
        raise ParameterError(sorted(names), sorted(by_name(parameters)))
