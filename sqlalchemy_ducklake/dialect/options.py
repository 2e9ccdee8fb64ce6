"""The options that a lake keeps for a single table, and how it writes their values.

DuckLake has a statement to set an option and none to unset it.  So an option that says what
holds without it is taken for one that is not set; the defaults are those of DuckLake 1.5.5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import exc

_UNITS = {"b": 1, "bytes": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_size_text = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")
_CODECS = ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")


def _size(value: Any) -> str:
    """Return a number of bytes, given as such or like ``'10MB'``."""
    if type(value) is int and value > 0:
        return str(value)
    found = _size_text.fullmatch(str(value).strip().lower())
    if found is None:
        if str(value).isdecimal():
            return str(value)
        raise ValueError("a size like '100MB', or a number of bytes")
    if found[2] not in _UNITS:
        raise ValueError(f"a unit of {', '.join(_UNITS)}")
    return str(int(float(found[1]) * _UNITS[found[2]]))


def _count(value: Any) -> str:
    if isinstance(value, bool) or not str(value).isdecimal():
        raise ValueError("a whole number")
    return str(int(value))


def _truth(value: Any) -> str:
    text = str(value).lower()
    if text not in {"true", "false"}:
        raise ValueError("True or False")
    return text


def _share(value: Any) -> str:
    if isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ValueError("a number from 0 to 1")
    return f"{float(value):f}"


def _level(value: Any) -> str:
    # The lake takes any, and then refuses every INSERT.
    if isinstance(value, bool) or not -131072 <= int(value) <= 22:
        raise ValueError("a number from -131072 to 22")
    return str(int(value))


def _codec(value: Any) -> str:
    if str(value).lower() not in _CODECS:
        raise ValueError(f"one of {', '.join(_CODECS)}")
    return str(value).lower()


def _version(value: Any) -> str:
    text = str(value).upper().removeprefix("V")
    if text not in {"1", "2"}:
        raise ValueError("1 or 2")
    return f"V{text}"


def _interval(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("an interval like '7 days'")
    return value


class _Option(NamedTuple):
    """How a value is written, and what holds without the option; None if that is nothing."""

    normal: Callable[[Any], str]
    default: str | None


_OPTIONS: Mapping[str, _Option] = {
    "auto_compact": _Option(_truth, "true"),
    "data_inlining_row_limit": _Option(_count, None),
    "delete_older_than": _Option(_interval, None),
    "expire_older_than": _Option(_interval, None),
    "hive_file_pattern": _Option(_truth, "true"),
    "parquet_compression": _Option(_codec, "snappy"),
    "parquet_compression_level": _Option(_level, "3"),
    "parquet_row_group_size": _Option(_count, "122880"),
    "parquet_version": _Option(_version, "V1"),
    "per_thread_output": _Option(_truth, "false"),
    "rewrite_delete_threshold": _Option(_share, "0.950000"),
    "sort_on_insert": _Option(_truth, "true"),
    "target_file_size": _Option(_size, "536870912"),
    "write_deletion_vectors": _Option(_truth, "false"),
}
NAMES = tuple(_OPTIONS)


def normal_option(name: str, value: Any) -> str:
    """Return the value of an option as the lake keeps it.

    Raises CompileError for an option that a table cannot have, or a bad value of one.
    """
    if name not in _OPTIONS:
        raise exc.CompileError(
            f"a table has no option {name!r} in a lake; there are {', '.join(NAMES)}"
        )
    try:
        return _OPTIONS[name].normal(value)
    except (TypeError, ValueError) as error:
        raise exc.CompileError(
            f"option {name!r} cannot be {value!r}; it must be {error}"
        ) from error


def default_of(name: str) -> str | None:
    """Return what holds where an option is set nowhere; None if that is nothing to set."""
    return _OPTIONS[name].default if name in _OPTIONS else None


def sendable(name: str, value: str) -> Any:
    """Return a value, as the lake keeps it, in the type in which it wants to be told."""
    kind = _OPTIONS[name].normal
    if kind is _truth:
        return value == "true"
    if kind is _size:
        return f"{value} bytes"
    return value.removeprefix("V") if kind is _version else value
