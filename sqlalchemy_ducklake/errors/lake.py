"""What can go wrong before a lake is open."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb


class OptionError(duckdb.ProgrammingError):
    """An option is unknown, has a bad value or contradicts another one."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(option, problem)
        self.option = option
        self.problem = problem

    def __str__(self) -> str:
        return f"option {self.option}: {self.problem}"


class ExtensionMissing(duckdb.OperationalError):
    """DuckDB has no extension of this name; ``tried`` pairs each place with its reason."""

    def __init__(self, extension: str, tried: Sequence[tuple[str, str]]) -> None:
        super().__init__(extension, tried)
        self.extension = extension
        self.tried = tuple(tried)

    def __str__(self) -> str:
        places = "".join(f"\n  {place}: {reason}" for place, reason in self.tried)
        return (
            f"no DuckDB extension {self.extension!r}; tried{places}\n"
            'Run: pip install "sqlalchemy_ducklake[bundled]"'
        )


class LakeUnavailable(duckdb.OperationalError):
    """A lake could not be opened.

    ``catalog`` names its file or its PostgreSQL database (never a password), ``reason``
    says why.  The subclasses are the reasons a program may want to tell apart.
    """

    sqlstate = "08001"

    def __init__(self, catalog: str, reason: str) -> None:
        super().__init__(catalog, reason)
        self.catalog = catalog
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot open the lake {self.catalog}: {self.reason}"


class LakeNotFound(LakeUnavailable):
    """There is no lake, and none was to be made here."""


class LakeLocked(LakeUnavailable):
    """Another process holds the catalog file.

    ``process`` is its number where the engine told it, a hint for a human.
    """

    def __init__(self, catalog: str, process: int | None = None) -> None:
        who = "another process" if process is None else f"process {process}"
        super().__init__(
            catalog,
            f"{who} holds the file; close it there and try again. (A DuckDB catalog is for "
            "one process at a time; SQLite and PostgreSQL catalogs can be shared.)",
        )
        self.args = (catalog, process)
        self.process = process


class LakeOpenedDifferently(LakeUnavailable):
    """The catalog file is open in this process, with another value of ``option``."""

    def __init__(self, catalog: str, option: str) -> None:
        super().__init__(
            catalog,
            f"this process has it open, and {option} differs; a DuckDB catalog opens one way "
            "at a time: use the same options, close the other engine with dispose(), or use "
            "a SQLite catalog",
        )
        self.args = (catalog, option)
        self.option = option


class DataPathMismatch(LakeUnavailable):
    """The lake keeps its data elsewhere than the option ``data_path`` says."""

    def __init__(self, catalog: str, data_path: str) -> None:
        super().__init__(
            catalog,
            f"its catalog names another place than data_path={data_path}; leave the "
            "option out, or add override_data_path=true if the files were moved there",
        )
        self.args = (catalog, data_path)
        self.data_path = data_path


class CatalogTooOld(LakeUnavailable):
    """The catalog has the format of an older DuckLake."""

    def __init__(self, catalog: str) -> None:
        super().__init__(
            catalog,
            "its catalog has an older format; add automatic_migration=true to rewrite it "
            "(older programs cannot read it after that, so keep a copy)",
        )
        self.args = (catalog,)


class SchemaNotFound(duckdb.ProgrammingError):
    """The lake has no schema of the name that a connection should start in."""

    sqlstate = "3F000"

    def __init__(self, schema: str, catalog: str) -> None:
        super().__init__(schema, catalog)
        self.schema = schema
        self.catalog = catalog

    def __str__(self) -> str:
        return (
            f"the lake {self.catalog} has no schema {self.schema!r}; leave the option schema "
            f'out, and create it first: CREATE SCHEMA "{self.schema}"'
        )
