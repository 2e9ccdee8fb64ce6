"""Open a lake in a DuckDB instance: settings, secrets, ATTACH, USE.

The one file of this floor with SQL text.  ``CREATE SECRET`` takes parameters and
``ATTACH`` does not, so passwords and keys travel as parameters of secrets and never
stand in SQL text or in ``duckdb_databases()``.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb

from sqlalchemy_ducklake.errors import OptionError, SchemaNotFound
from sqlalchemy_ducklake.lake.catalogs import FileCatalog, PostgresCatalog, SQLiteCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.extensions import load_extension, load_extensions
from sqlalchemy_ducklake.lake.hints import lacks_data_path, required_extension, unavailable
from sqlalchemy_ducklake.lake.storage import store_of

# DuckDB takes these before it starts, and refuses them after.
STARTUP_SETTINGS = frozenset(
    {
        "access_mode",
        "allow_community_extensions",
        "allow_unredacted_secrets",
        "allow_unsigned_extensions",
        "custom_user_agent",
        "disable_database_invalidation",
        "duckdb_api",
        "python_enable_replacements",
    }
)
# These forbid what attaching needs, or do what it must not, so they come after it.
# What this package changes while it works, locked or not.
CHANGED_SETTINGS = (
    "arrow_lossless_conversion",
    "ducklake_default_data_inlining_row_limit",
    "ducklake_max_retry_count",
    "ducklake_target_file_size",
    "partitioned_write_max_open_files",
    "preserve_insertion_order",
    "TimeZone",
)
LATE_SETTINGS = ("autoinstall_known_extensions", "enable_external_access", "lock_configuration")


def identifier(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Quote a text for SQL."""
    return "'" + value.replace("'", "''") + "'"


def open_instance(config: LakeConfig) -> duckdb.DuckDBPyConnection:
    """Start a DuckDB with the extensions and settings that the lake needs."""
    settings = _lower(config)
    duck = _connect({name: settings[name] for name in settings.keys() & STARTUP_SETTINGS})
    try:
        load_extensions(duck, ["ducklake", *config.catalog.extensions, *_store(config)])
        for name, value in {**_defaults(), **settings}.items():
            if name not in STARTUP_SETTINGS and name not in LATE_SETTINGS:
                set_option(duck, name, value)
    except BaseException:
        duck.close()
        raise
    return duck


def seal(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, stored: Mapping[str, str]
) -> None:
    """Set what had to wait until the lake is attached; the lake itself stays usable.

    Without external access the lake's own files, and what DuckDB spills, can be reached all
    the same; with the configuration locked, this package changes what a commit needs.
    """
    settings = {"autoinstall_known_extensions": "true", **_lower(config)}
    if not _is_true(duck, settings.get("enable_external_access", "true")):
        _allow_lake(duck, config, config.data_path or stored["data_path"])
    if _is_true(duck, settings.get("lock_configuration", "false")):
        _extend(duck, "allowed_configs", CHANGED_SETTINGS)
    for name in LATE_SETTINGS:
        if name in settings:
            set_option(duck, name, settings[name])


def _allow_lake(duck: duckdb.DuckDBPyConnection, config: LakeConfig, data_path: str) -> None:
    """Let the files of the lake be reached without external access."""
    if store_of(data_path)[0] == "local" and not config.read_only:
        # The engine could make it only if it might look at the directories above.
        Path(data_path).mkdir(parents=True, exist_ok=True)
    spill = duck.execute("SELECT current_setting('temp_directory')").fetchone()
    _extend(duck, "allowed_directories", [data_path, *(spill or ())])
    if isinstance(config.catalog, FileCatalog):
        path = config.catalog.path
        _extend(duck, "allowed_paths", [path, f"{path}.wal", f"{path}-wal", f"{path}-shm"])


def _is_true(duck: duckdb.DuckDBPyConnection, value: str) -> bool:
    """Read a setting as the engine does; what it cannot read it will refuse itself."""
    row = duck.execute("SELECT TRY_CAST($1 AS BOOLEAN)", [value]).fetchone()
    return row is not None and bool(row[0])


def _extend(duck: duckdb.DuckDBPyConnection, name: str, values: Sequence[str]) -> None:
    """Add to a setting that is a list."""
    row = duck.execute("SELECT current_setting($1)", [name]).fetchone()
    assert row is not None
    duck.execute(f"SET GLOBAL {identifier(name)} = $1", [[*row[0], *values]])


def _lower(config: LakeConfig) -> dict[str, str]:
    return {name.lower(): value for name, value in config.settings}


def _connect(settings: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    defaults = {
        # A misspelled table must not find a Python variable of that name.
        "python_enable_replacements": "false",
        # An extension that ATTACH asks for may be in a wheel, so no download before.
        "autoinstall_known_extensions": "false",
    }
    try:
        return duckdb.connect(":memory:", config={**defaults, **settings})
    except duckdb.Error as exc:
        names = ", ".join(f"duckdb.{name}" for name in settings)
        raise OptionError(names, str(exc)) from exc


def _defaults() -> dict[str, str]:
    # DuckDB would spill into ".tmp" of the working directory.
    spill = Path(tempfile.gettempdir()) / f"ducklake-spill-{uuid.uuid4().hex}"
    return {"timezone": "UTC", "temp_directory": str(spill)}


def _store(config: LakeConfig) -> list[str]:
    """Name the extensions that are known to be needed before the catalog is read."""
    _, extension = store_of(config.data_path or "")
    storage = config.storage.extension if config.storage else None
    needed = (extension, storage, "httpfs" if config.encrypted else None)
    return [name for name in needed if name]


def set_option(duck: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    """Set an option of DuckDB for all connections of this instance."""
    try:
        duck.execute(f"SET GLOBAL {identifier(name)} = $1", [value])
    except duckdb.Error as exc:
        raise OptionError(f"duckdb.{name}", str(exc)) from exc


def attach(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, *, read_only: bool
) -> dict[str, str]:
    """Attach the lake, open the store of its data, and give what its catalog says of it.

    ``read_only`` is how the catalog is opened; a snapshot is read-only either way.
    """
    try:
        _attach_with_data_path(duck, config, read_only=read_only)
    except duckdb.Error as exc:
        # The text of a PostgreSQL failure may quote its connection string.
        raise unavailable(exc, config) from _showable(exc, config)
    stored = stored_options(duck, config)
    _open_store(duck, config, stored)
    return stored


def attaching(config: LakeConfig) -> list[str]:
    """Give the statements that attach a lake in a script; no secret is among them.

    A password of PostgreSQL comes from libpq's own places, keys of a store from a secret
    that is made before.
    """
    lines = []
    if config.storage is not None:
        kind = config.storage.kind
        lines.append(f"-- First CREATE SECRET (TYPE {kind}, …); its keys are not here.")
    options = ", ".join(f"{name} {value}" for name, value in _options(config, read_only=False))
    alias, schema = identifier(config.alias), identifier(config.schema)
    if isinstance(config.catalog, FileCatalog):
        source = _metadata_path(config)
        if config.data_path is None:
            options += f", DATA_PATH {literal(config.catalog.default_data_path)}"
    else:
        source = f"postgres:{config.catalog.connection_string}"
    lines.append(f"ATTACH {literal('ducklake:' + source)} AS {alias} ({options});")
    # Else an overtaken COMMIT would be tried again over what somebody else has changed.
    return [*lines, f"USE {alias}.{schema};", "SET SESSION ducklake_max_retry_count = 0;"]


def use(duck: duckdb.DuckDBPyConnection, config: LakeConfig) -> None:
    """Make the lake and the schema current for one connection."""
    try:
        duck.execute(f"USE {identifier(config.alias)}.{identifier(config.schema)}")
    except duckdb.CatalogException as exc:
        raise SchemaNotFound(config.schema, config.catalog.title) from exc


def detach(duck: duckdb.DuckDBPyConnection, alias: str) -> None:
    """Let go of the lake's catalog, even while somebody keeps a cursor of the instance."""
    duck.execute(f"DETACH {identifier(alias)}")


def _attach_with_data_path(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, *, read_only: bool
) -> None:
    """Attach; a new lake in a SQLite file is told its data path, which DuckLake asks for."""
    with _catalog_secret(duck, config) as secret:
        options = [*secret, *_options(config, read_only=read_only)]
        try:
            _attach(duck, config, options)
        except duckdb.InvalidInputException as exc:
            if not (isinstance(config.catalog, FileCatalog) and lacks_data_path(exc)):
                raise
            default = literal(config.catalog.default_data_path)
            _attach(duck, config, [*options, ("DATA_PATH", default)])


def _attach(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, options: Sequence[tuple[str, str]]
) -> None:
    """Attach; if the lake's data turns out to need another extension, load that first."""
    source = literal(f"ducklake:{_metadata_path(config)}")
    spelled = ", ".join(f"{name} {value}" for name, value in options)
    statement = f"ATTACH {source} AS {identifier(config.alias)} ({spelled})"
    try:
        duck.execute(statement)
    except duckdb.Error as exc:
        extension = required_extension(exc)
        if extension is None:
            raise
        load_extension(duck, extension)
        duck.execute(statement)


def _metadata_path(config: LakeConfig) -> str:
    if isinstance(config.catalog, FileCatalog):
        return f"{config.catalog.kind}:{config.catalog.path}"
    return "postgres:"


def _options(config: LakeConfig, *, read_only: bool) -> Iterator[tuple[str, str]]:
    """Give the options of ATTACH, each with its value as SQL."""
    may_create = config.create and not config.read_only
    yield "CREATE_IF_NOT_EXISTS", str(may_create).lower()
    if config.shares_catalog:
        yield "METADATA_CATALOG", literal(config.metadata_catalog)
    if read_only:
        yield "READ_ONLY", "true"
    if config.data_path is not None:
        yield "DATA_PATH", literal(config.data_path)
    if config.metadata_schema is not None:
        yield "METADATA_SCHEMA", literal(config.metadata_schema)
    if config.data_inlining_row_limit is not None:
        yield "DATA_INLINING_ROW_LIMIT", str(config.data_inlining_row_limit)
    if isinstance(config.catalog, SQLiteCatalog) and not read_only:
        # In SQLite's default mode one open reader and one writer block each other for good.
        yield "META_JOURNAL_MODE", "'WAL'"
    yield from _flags(config)
    yield from _snapshot(config)


def _flags(config: LakeConfig) -> Iterator[tuple[str, str]]:
    flags = {
        "ENCRYPTED": config.encrypted,
        "OVERRIDE_DATA_PATH": config.override_data_path,
        "AUTOMATIC_MIGRATION": config.automatic_migration,
    }
    return ((name, "true") for name, given in flags.items() if given)


def _snapshot(config: LakeConfig) -> Iterator[tuple[str, str]]:
    if isinstance(config.snapshot, datetime):
        yield "SNAPSHOT_TIME", literal(config.snapshot.isoformat(sep=" "))
    elif config.snapshot is not None:
        yield "SNAPSHOT_VERSION", str(config.snapshot)


@contextmanager
def _catalog_secret(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig
) -> Iterator[list[tuple[str, str]]]:
    """Hold the credentials of a PostgreSQL catalog in a secret while it is attached."""
    if not isinstance(config.catalog, PostgresCatalog):
        yield []
        return
    name = f"{config.alias}_catalog"
    _create_secret(duck, name, "postgres", config.catalog.parameters())
    try:
        yield [("META_SECRET", literal(name))]
    finally:
        # The attached catalog keeps its own copy, reconnects included.
        duck.execute(f"DROP TEMPORARY SECRET {identifier(name)}")


def _create_secret(
    duck: duckdb.DuckDBPyConnection,
    name: str,
    kind: str,
    parameters: Sequence[tuple[str, object]],
) -> None:
    spelled = "".join(f", {key} ${place}" for place, (key, _) in enumerate(parameters, 1))
    duck.execute(
        f"CREATE OR REPLACE TEMPORARY SECRET {identifier(name)} (TYPE {kind}{spelled})",
        [value for _, value in parameters],
    )


def _open_store(
    duck: duckdb.DuckDBPyConnection, config: LakeConfig, stored: Mapping[str, str]
) -> None:
    """Load what reads the lake's data path, and scope the keys to that path."""
    path = config.data_path or stored["data_path"]
    _, extension = store_of(path)
    crypto = "httpfs" if stored.get("encrypted") == "true" else None
    load_extensions(duck, [name for name in (extension, crypto) if name])
    if config.storage is not None:
        parameters = [*config.storage.parameters(), ("SCOPE", path)]
        _create_secret(duck, "lake_data", config.storage.kind, parameters)


def metadata_table(config: LakeConfig, name: str) -> str:
    """Name a table of the attached catalog, as SQL.

    A PostgreSQL database may hold several lakes, each in a schema; a bare name would
    find the one in ``public``.
    """
    return metadata_table_of(config.metadata_catalog, config.metadata_schema, name)


def metadata_table_of(catalog: str, schema: str | None, name: str) -> str:
    """Name a table of a catalog that is attached under a name, as SQL."""
    parts = (catalog, schema, name) if schema else (catalog, name)
    return ".".join(map(identifier, parts))


def stored_options(duck: duckdb.DuckDBPyConnection, config: LakeConfig) -> dict[str, str]:
    """Read what the catalog says of its lake, like ``data_path`` and ``encrypted``."""
    table = metadata_table(config, "ducklake_metadata")
    return dict(duck.execute(f"SELECT key, value FROM {table} WHERE scope IS NULL").fetchall())


def _showable(exc: duckdb.Error, config: LakeConfig) -> duckdb.Error | None:
    return None if isinstance(config.catalog, PostgresCatalog) else exc
