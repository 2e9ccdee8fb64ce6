"""Translate between SQLAlchemy's URL and :class:`LakeConfig`, by tables.

The driver name picks the catalog, host and path say where it is, and the query string
holds the rest.  One row per option serves both directions, so what can be read can be
written: ``config_from_url(url_from_config(config)) == config``.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.util import immutabledict

from sqlalchemy_ducklake.errors import OptionError
from sqlalchemy_ducklake.lake.catalogs import (
    Catalog,
    DuckDBCatalog,
    PostgresCatalog,
    SQLiteCatalog,
)
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.instances import temporary_lake
from sqlalchemy_ducklake.lake.storage import GCS, S3, Azure, Storage

DRIVERS: Mapping[str, type[Catalog]] = {
    "ducklake": DuckDBCatalog,
    "ducklake+duckdb": DuckDBCatalog,
    "ducklake+sqlite": SQLiteCatalog,
    "ducklake+postgresql": PostgresCatalog,
}
SETTING = "duckdb."
_NO_HOST = (None, "", "localhost")


def _text(text: str) -> str:
    if not text:
        raise ValueError("a value")
    return text


def _bool(text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise ValueError("true or false") from None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("a whole number, 0 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise ValueError("a number of seconds, more than 0")
    return seconds


def _snapshot(text: str) -> int | datetime:
    try:
        return int(text) if text.isdigit() else datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "the number of a snapshot or a time like 2026-01-31T12:00:00Z (write a plus as %2B)"
        ) from None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)


@dataclass(frozen=True, slots=True)
class Option:
    """One key of the query string, the field it fills, and how its text is read."""

    name: str
    field: str
    read: Callable[[str], Any] = _text

    def value(self, text: str) -> Any:
        """Read the text or tell what would have been right."""
        try:
            return self.read(text)
        except ValueError as exc:
            # The value itself may be a secret, so it is not repeated.
            raise OptionError(self.name, f"expected {exc}") from None


def _rows(prefix: str, kind: type, **readers: Callable[[str], Any]) -> tuple[Option, ...]:
    names = (field.name for field in fields(kind))
    return tuple(Option(f"{prefix}_{name}", name, readers.get(name, _text)) for name in names)


LAKE = (
    Option("data_path", "data_path"),
    Option("schema", "schema"),
    Option("alias", "alias"),
    Option("read_only", "read_only", _bool),
    Option("metadata_schema", "metadata_schema"),
    Option("snapshot", "snapshot", _snapshot),
    Option("encrypted", "encrypted", _bool),
    Option("data_inlining_row_limit", "data_inlining_row_limit", _number),
    Option("override_data_path", "override_data_path", _bool),
    Option("automatic_migration", "automatic_migration", _bool),
    Option("create", "create", _bool),
)
POSTGRES = (
    Option("host", "host"),
    Option("passfile", "passfile"),
    Option("sslmode", "sslmode"),
    Option("connect_timeout", "connect_timeout", _number),
    Option("options", "options"),
)
#: What belongs to each connection, not to the lake; seconds.
CONNECTION = (
    Option("statement_timeout", "statement_timeout", _seconds),
    Option("lock_timeout", "lock_timeout", _seconds),
)
STORES: Mapping[type[Storage], tuple[Option, ...]] = {
    S3: _rows("s3", S3, use_ssl=_bool),
    GCS: _rows("gcs", GCS),
    Azure: _rows("azure", Azure),
}
SECRET_OPTIONS = frozenset(
    option.name
    for kind, options in STORES.items()
    for option, field in zip(options, fields(kind), strict=True)
    if not field.repr
)


def config_from_url(url: URL) -> LakeConfig:
    """Say what the URL means; ``ducklake://`` alone makes a new temporary lake.

    So call it once per engine.  Raises :class:`OptionError` for whatever is unknown,
    malformed or contradictory.
    """
    query = {name: _single(name, value) for name, value in url.query.items()}
    _refuse_unknown(url, query)
    lake = _read(LAKE, query)
    if lake.get("snapshot") is not None and lake.get("read_only") is False:
        raise OptionError("snapshot", "history cannot be written; leave read_only=false out")
    settings = tuple(
        (name.removeprefix(SETTING), value)
        for name, value in query.items()
        if name.startswith(SETTING)
    )
    storage = _storage(query)
    # Checked with a stand-in first, so that a bad option leaves no directory behind.
    LakeConfig(DuckDBCatalog("unused"), storage=storage, settings=settings, **lake)
    return LakeConfig(_catalog(url, query), storage=storage, settings=settings, **lake)


def connect_options(url: URL) -> dict[str, float]:
    """Give what the URL says of each connection, as arguments of the driver's connect()."""
    return _read(CONNECTION, {name: _single(name, value) for name, value in url.query.items()})


def url_from_config(config: LakeConfig) -> URL:
    """Write the configuration as a URL, defaults left out."""
    lake = _write(LAKE, config)
    if config.shares_catalog:
        del lake["alias"]  # it follows from the snapshot
    query = {
        **lake,
        **(_write(STORES[type(config.storage)], config.storage) if config.storage else {}),
        **{f"{SETTING}{name}": value for name, value in config.settings},
    }
    if isinstance(config.catalog, PostgresCatalog):
        return _postgres_url(config.catalog, query)
    driver = "ducklake" if config.catalog.kind == "duckdb" else "ducklake+sqlite"
    return discreet(URL.create(driver, database=config.catalog.path, query=query))


def _postgres_url(catalog: PostgresCatalog, query: dict[str, str]) -> URL:
    query = {**_write(POSTGRES, catalog), **query}
    # A directory with a socket cannot stand where a URL has its host.
    host = None if (catalog.host or "").startswith("/") else query.pop("host", None)
    url = URL.create(
        "ducklake+postgresql",
        username=catalog.user,
        password=catalog.password,
        host=host,
        port=catalog.port,
        database=catalog.database,
        query=query,
    )
    return discreet(url)


class DiscreetURL(URL):
    """A URL that hides secret options too, where SQLAlchemy's hides the password only."""

    __slots__ = ()

    def render_as_string(self, hide_password: bool = True) -> str:
        """Write the URL; the secrets are in it only if asked for."""
        if not hide_password:
            return super().render_as_string(hide_password=False)
        shown = {name: "hidden" if _secret(name) else text for name, text in self.query.items()}
        return URL(*self._replace(query=immutabledict(shown))).render_as_string()


def discreet(url: URL) -> URL:
    """Give an equal URL whose ``str()`` and ``repr()`` may stand in a log."""
    return DiscreetURL(*url)


def _secret(name: str) -> bool:
    if name.startswith(SETTING):
        return any(word in name.lower() for word in ("secret", "password", "token", "key"))
    return name in SECRET_OPTIONS


def _single(name: str, value: str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        raise OptionError(name, f"is given {len(value)} times")
    return value


def _read(options: Iterable[Option], query: Mapping[str, str]) -> dict[str, Any]:
    return {
        option.field: option.value(query[option.name])
        for option in options
        if option.name in query
    }


def _write(options: Iterable[Option], values: Any) -> dict[str, str]:
    defaults = {field.name: field.default for field in fields(values)}
    return {
        option.name: _shown(value)
        for option in options
        if (value := getattr(values, option.field)) != defaults[option.field]
    }


def _refuse_unknown(url: URL, query: Mapping[str, str]) -> None:
    if url.drivername not in DRIVERS:
        raise OptionError("driver", f"{url.drivername!r} is none of {', '.join(DRIVERS)}")
    known = [option.name for option in _known(DRIVERS[url.drivername])]
    for name in query:
        if name not in known and not (name.startswith(SETTING) and name != SETTING):
            raise OptionError(name, _advice(name, known, DRIVERS[url.drivername]))


def _known(catalog: type[Catalog]) -> Iterator[Option]:
    yield from LAKE
    yield from CONNECTION
    for options in STORES.values():
        yield from options
    if catalog is PostgresCatalog:
        yield from POSTGRES


def _advice(name: str, known: list[str], catalog: type[Catalog]) -> str:
    if name in {option.name for option in POSTGRES} and catalog is not PostgresCatalog:
        return "is for ducklake+postgresql:// only"
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"there is no such option; did you mean {close[0]}?"
    return f"there is no such option; a setting of DuckDB is spelled {SETTING}<setting>"


def _storage(query: Mapping[str, str]) -> Storage | None:
    given = {kind: _read(options, query) for kind, options in STORES.items()}
    stores = [kind(**values) for kind, values in given.items() if values]
    if len(stores) > 1:
        kinds = " and ".join(f"{store.kind}_…" for store in stores)
        raise OptionError(kinds, "are for different stores; a lake has its data in one")
    return stores[0] if stores else None


def _catalog(url: URL, query: Mapping[str, str]) -> Catalog:
    kind = DRIVERS[url.drivername]
    if kind is PostgresCatalog:
        return _postgres(url, query)
    _refuse_server(url)
    if url.database in (None, "", ":memory:"):
        if kind is SQLiteCatalog:
            raise OptionError("path", "ducklake+sqlite:/// needs the path of a file")
        return temporary_lake()
    file = SQLiteCatalog if kind is SQLiteCatalog else DuckDBCatalog
    return file(str(url.database))


def _postgres(url: URL, query: Mapping[str, str]) -> PostgresCatalog:
    options = _read(POSTGRES, query)
    if url.host and "host" in options:
        raise OptionError("host", "is given twice, before the path and in the query")
    return PostgresCatalog(
        database=url.database or None,
        user=url.username,
        password=url.password,
        port=url.port,
        **{"host": url.host or None, **options},
    )


def _refuse_server(url: URL) -> None:
    """Refuse what only a server has; a path with two slashes too few ends up here."""
    if url.host not in _NO_HOST:
        path = f"{url.host}/{url.database}" if url.database else url.host
        raise OptionError(
            "host",
            f"the catalog is a file on this machine, not on {url.host!r}; for a path write "
            f"three slashes, {url.drivername}:///{path}, and four if it starts with one",
        )
    for option, value in (("user", url.username), ("port", url.port)):
        if value is not None:
            raise OptionError(option, "the catalog is a file; only ducklake+postgresql has it")
