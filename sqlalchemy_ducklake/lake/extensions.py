"""Find the DuckDB extensions that a lake needs, and load them.

DuckDB downloads what it lacks, which fails without a network.  So an extension is taken
from a wheel of PyPI if one fits, then from DuckDB's own folder, and is downloaded last.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb

from sqlalchemy_ducklake.errors import ExtensionMissing


def load_extensions(duck: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Load each extension once, from the first place that has it."""
    for name in dict.fromkeys(names):
        load_extension(duck, name)


def load_extension(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    """Load one extension or raise :class:`ExtensionMissing` with all that was tried."""
    tried: list[tuple[str, str]] = []
    for place, load in _PLACES:
        try:
            load(duck, name)
        # Some failures of LOAD and INSTALL are a bare duckdb.Error.
        except (duckdb.Error, FileNotFoundError) as exc:
            tried.append((place, _first_line(exc)))
        else:
            return
    raise ExtensionMissing(name, tried)


def wheel_file(name: str, version: str) -> Path:
    """Give the file that the wheel ``duckdb-extension-…`` holds for a DuckDB version."""
    package = f"duckdb_extension_{name}"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {package} is not installed")
    folder = Path(spec.submodule_search_locations[0]) / "extensions"
    file = folder / version / f"{name}.duckdb_extension"
    if not file.is_file():
        found = ", ".join(sorted(path.name for path in folder.glob("v*"))) or "none"
        raise FileNotFoundError(f"{package} is for DuckDB {found}, this is {version}")
    return file


def _from_wheel(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    duck.load_extension(str(wheel_file(name, library_version(duck))))


def _from_folder(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    duck.load_extension(name)


def _from_network(duck: duckdb.DuckDBPyConnection, name: str) -> None:
    duck.install_extension(name)
    duck.load_extension(name)


_Load = Callable[[duckdb.DuckDBPyConnection, str], None]

_PLACES: tuple[tuple[str, _Load], ...] = (
    ("an installed wheel", _from_wheel),
    ("DuckDB's own folder", _from_folder),
    ("a download", _from_network),
)


def library_version(duck: duckdb.DuckDBPyConnection) -> str:
    """Give the version of the engine as extension folders spell it, like ``v1.5.5``."""
    row = duck.execute("SELECT library_version FROM pragma_version()").fetchone()
    return str(row[0]) if row else ""


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0]
