"""Where a lake keeps its metadata: a DuckDB file, a SQLite file or a PostgreSQL database.

A catalog may carry a password, so :attr:`title`, which names it in
errors, and ``repr()`` leave that out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from sqlalchemy_ducklake.errors import LakeNotFound, LakeUnavailable


@dataclass(frozen=True, slots=True)
class FileCatalog:
    """A catalog in one local file.

    The path is made absolute and real on the way in, so that two spellings of one
    file are one lake.
    """

    kind: ClassVar[str]
    extensions: ClassVar[tuple[str, ...]] = ()

    path: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", real_path(self.path))

    @property
    def title(self) -> str:
        """How errors name this catalog."""
        return self.path

    def check(self, *, may_create: bool) -> None:
        """Refuse a path where no lake is and none can be made.

        Asked before the engine is, because DuckDB leaves an empty file behind when it
        is told not to create a lake.
        """
        file = Path(self.path)
        if file.is_dir():
            raise LakeUnavailable(self.path, "it is a directory; name a file in it")
        if not file.parent.is_dir():
            raise LakeNotFound(self.path, f"create the directory {file.parent} first")
        if self.kind == "duckdb" and "?" in str(file.parent):
            # DuckDB 1.5 reads "?" as in a URL and puts ".wal" before it.
            raise LakeUnavailable(
                self.path,
                "DuckDB cannot keep its log beside it, since the name of a directory on the "
                "way contains a question mark; use another directory, or a SQLite catalog",
            )
        if not may_create and not file.exists():
            raise LakeNotFound(
                self.path, "there is no such file; create=false or read_only forbid a new lake"
            )

    @property
    def writable(self) -> bool:
        """Whether this user may write the file."""
        return os.access(self.path, os.W_OK)

    @property
    def default_data_path(self) -> str:
        """Where the data of a new lake goes if nobody says."""
        return f"{self.path}.files/"


@dataclass(frozen=True, slots=True)
class DuckDBCatalog(FileCatalog):
    """A DuckDB file: fastest, and one process at a time."""

    kind: ClassVar[str] = "duckdb"


@dataclass(frozen=True, slots=True)
class SQLiteCatalog(FileCatalog):
    """A SQLite file: several processes on one machine."""

    kind: ClassVar[str] = "sqlite"
    extensions: ClassVar[tuple[str, ...]] = ("sqlite_scanner",)


@dataclass(frozen=True, slots=True)
class PostgresCatalog:
    """A PostgreSQL database: several machines.

    What is left out comes from libpq: its environment variables, its password file,
    its local socket.  ``connect_timeout`` is in seconds.
    """

    kind: ClassVar[str] = "postgres"
    extensions: ClassVar[tuple[str, ...]] = ("postgres_scanner",)

    database: str | None = None
    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    passfile: str | None = None
    sslmode: str | None = None
    connect_timeout: int = 10
    options: str | None = None

    @property
    def title(self) -> str:
        """How errors name this catalog: a URL without the password."""
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        return f"postgresql://{user}{self.host or ''}{port}/{self.database or ''}"

    @property
    def connection_string(self) -> str:
        """Name the database as libpq does, without the password."""
        return " ".join(
            f"{name.lower()}={_libpq(value)}"
            for name, value in self.parameters()
            if name != "PASSWORD"
        )

    def parameters(self) -> list[tuple[str, str]]:
        """Give the parameters of a DuckDB secret of type ``postgres``."""
        values = {
            "DBNAME": self.database,
            "HOST": self.host,
            "PORT": self.port,
            "USER": self.user,
            "PASSWORD": self.password,
            "PASSFILE": self.passfile,
            "SSLMODE": self.sslmode,
            "CONNECT_TIMEOUT": self.connect_timeout,
            "OPTIONS": self.options,
        }
        return [(name, str(value)) for name, value in values.items() if value is not None]


def _libpq(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


Catalog = DuckDBCatalog | SQLiteCatalog | PostgresCatalog


def real_path(path: str) -> str:
    """Spell a local path the one way: ``~`` expanded, absolute, links followed."""
    return str(Path(path).expanduser().resolve())
