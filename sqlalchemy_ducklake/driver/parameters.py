"""Parameters as statements take them: by name, where ``?`` and ``$1`` are ``'1'``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from sqlalchemy_ducklake.errors import ParameterError

Parameters = Sequence[Any] | Mapping[str, Any]


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
