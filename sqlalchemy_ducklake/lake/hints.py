"""Tell failures of ATTACH apart where the engine leaves nothing but text.

DuckDB 1.5 raises one class for a locked file, a missing database and an unreachable
server.  These are the texts, all of them, and a test provokes each from the real
engine.  A text that changes costs a good advice, never a wrong outcome: the error is
then the plain :class:`LakeUnavailable` with the engine's own words.
"""

from __future__ import annotations

import re

from sqlalchemy_ducklake.errors import (
    CatalogTooOld,
    DataPathMismatch,
    LakeLocked,
    LakeNotFound,
    LakeUnavailable,
    OptionError,
)
from sqlalchemy_ducklake.lake.catalogs import PostgresCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig

FILE_LOCKED = "Could not set lock on file"
SQLITE_LOCKED = "database is locked"
OTHER_DATA_PATH = "does not match existing data path"
OLD_FORMAT = "catalog version mismatch"
NO_LAKE = "creating a new DuckLake is explicitly disabled"
NO_DATA_PATH = "data_path is not set"
NO_SNAPSHOT = "No snapshot found"
NOT_ENCRYPTED = "Failed to set encryption"
OPEN_IN_THIS_PROCESS = "Unique file handle conflict"
_OPEN_HERE = (
    "this process has the file open by a DuckDB connection that is not this package's, or "
    "was forked while its parent had it open; close that connection, or call dispose() "
    "before forking (or start children with spawn)"
)
_EXTENSION = re.compile(r"install the required extension '(\w+)'")
_HOLDER = re.compile(r"\(PID (\d+)\)")


def unavailable(exc: Exception, config: LakeConfig) -> Exception:
    """Give the error that says what to do about a failed ATTACH."""
    text, title = str(exc), config.catalog.title
    if FILE_LOCKED in text or SQLITE_LOCKED in text:
        return LakeLocked(title, lock_holder(text))
    if OPEN_IN_THIS_PROCESS in text:
        return LakeUnavailable(title, _OPEN_HERE)
    if OTHER_DATA_PATH in text:
        return DataPathMismatch(title, config.data_path or "")
    if OLD_FORMAT in text:
        return CatalogTooOld(title)
    if NO_LAKE in text:
        return LakeNotFound(title, "there is no lake in it, and create=false forbids one")
    return _bad_option(text, config) or LakeUnavailable(title, without_secrets(text, config))


def lacks_data_path(exc: Exception) -> bool:
    """Tell whether DuckLake asks where the data of a new lake shall go."""
    return NO_DATA_PATH in str(exc)


def required_extension(exc: Exception) -> str | None:
    """Name the extension without which DuckDB cannot read the lake's data path."""
    found = _EXTENSION.search(str(exc))
    return found[1] if found else None


def lock_holder(text: str) -> int | None:
    """Give the process that holds the file, if the engine says so."""
    found = _HOLDER.search(text)
    return int(found[1]) if found else None


def without_secrets(text: str, config: LakeConfig) -> str:
    """Give a message of the engine, or less of it if it quotes a password."""
    catalog = config.catalog
    password = catalog.password if isinstance(catalog, PostgresCatalog) else None
    if password and password in text:
        return "the server or the client library refused; its message quotes the password"
    return text


def _bad_option(text: str, config: LakeConfig) -> OptionError | None:
    title = config.catalog.title
    if NO_DATA_PATH in text:
        return OptionError(
            "data_path", f"a new lake in {title} needs it: where shall the data files go?"
        )
    if NO_SNAPSHOT in text:
        return OptionError("snapshot", f"the lake {title} has no snapshot {config.snapshot}")
    if NOT_ENCRYPTED in text:
        return OptionError("encrypted", f"the lake {title} exists and is not encrypted")
    return None
