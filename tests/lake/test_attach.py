"""What opening a lake does to the engine, and what it says when it cannot."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from sqlalchemy_ducklake.errors import (
    CatalogTooOld,
    DataPathMismatch,
    ExtensionMissing,
    LakeLocked,
    LakeNotFound,
    LakeUnavailable,
    OptionError,
)
from sqlalchemy_ducklake.lake.attach import (
    LATE_SETTINGS,
    STARTUP_SETTINGS,
    identifier,
    literal,
    metadata_table,
)
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog, PostgresCatalog, SQLiteCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.extensions import library_version, load_extension, wheel_file
from sqlalchemy_ducklake.lake.instances import open_session
from sqlalchemy_ducklake.lake.storage import GCS, S3

WEIRD = ["two words", "o'neil", 'say "hi"', "ünï→code", "a#b?c&d%41", "semi;colon--", "a.b"]


def fetch(config: LakeConfig, sql: str) -> list[tuple[object, ...]]:
    session = open_session(config)
    try:
        return session.duck.execute(sql).fetchall()
    finally:
        session.close()


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", WEIRD)
@pytest.mark.parametrize("kind", [DuckDBCatalog, SQLiteCatalog])
def test_any_path_and_any_alias_will_do(
    tmp_path: Path, kind: type[DuckDBCatalog | SQLiteCatalog], name: str
) -> None:
    folder = tmp_path / name.replace("?", "")
    folder.mkdir()
    lake = LakeConfig(kind(str(folder / name)), data_path=str(folder / "data"), alias=name)
    fetch(lake, "CREATE TABLE t AS SELECT range AS a FROM range(100)")
    assert fetch(lake, "SELECT count(*), current_database() FROM t") == [(100, name)]
    assert {"data", name} <= files_of(folder)


def test_a_directory_that_duckdb_cannot_write_in_is_named(tmp_path: Path) -> None:
    (tmp_path / "a?b").mkdir()
    with pytest.raises(LakeUnavailable, match="question mark"):
        fetch(LakeConfig(DuckDBCatalog(str(tmp_path / "a?b" / "x"))), "SELECT 1")
    fetch(LakeConfig(SQLiteCatalog(str(tmp_path / "a?b" / "x"))), "SELECT 1")


@pytest.mark.parametrize("text", [*WEIRD, "", '""', "''", "a\nb"])
def test_quoting_gives_back_the_text(text: str) -> None:
    found = duckdb.execute(f"SELECT {literal(text)} AS {identifier(text or ' ')}")
    assert found.description
    assert found.description[0][0] == (text or " ")
    assert found.fetchall() == [(text,)]


@pytest.mark.parametrize("kind", [DuckDBCatalog, SQLiteCatalog])
def test_a_new_lake_in_a_file_keeps_its_data_beside_it(
    tmp_path: Path, kind: type[DuckDBCatalog | SQLiteCatalog]
) -> None:
    lake = LakeConfig(kind(str(tmp_path / "a.lake")))
    fetch(lake, "CREATE TABLE t AS SELECT range AS a FROM range(100)")
    assert "a.lake.files" in files_of(tmp_path)
    assert fetch(lake, "SELECT count(*) FROM t") == [(100,)]


def test_an_empty_file_becomes_a_lake_too(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").touch()
    lake = LakeConfig(SQLiteCatalog(str(tmp_path / "a.sqlite")))
    fetch(lake, "CREATE TABLE t AS SELECT 1 AS a")
    assert fetch(lake, "FROM t") == [(1,)]


def test_a_sqlite_catalog_is_in_wal_mode(sqlite_lake: LakeConfig) -> None:
    fetch(sqlite_lake, "SELECT 1")
    with sqlite3.connect(sqlite_lake.catalog.title) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    plain.close()


def test_a_lake_keeps_the_data_path_it_was_made_with(
    any_lake: LakeConfig, tmp_path: Path
) -> None:
    elsewhere = replace(any_lake, data_path=str(tmp_path / "elsewhere"))
    fetch(elsewhere, "CREATE TABLE t AS SELECT range AS a FROM range(100)")
    assert fetch(replace(any_lake, data_path=None), "SELECT count(*) FROM t") == [(100,)]

    with pytest.raises(DataPathMismatch, match="override_data_path=true") as caught:
        fetch(replace(any_lake, data_path=str(tmp_path / "wrong")), "SELECT 1")
    assert caught.value.data_path == f"{tmp_path}/wrong/"

    (tmp_path / "elsewhere").rename(tmp_path / "moved")
    moved = replace(
        any_lake, data_path=str(tmp_path / "moved"), override_data_path=True, create=False
    )
    assert fetch(moved, "SELECT count(*) FROM t") == [(100,)]


def test_read_only_reads_and_refuses_to_write(any_lake: LakeConfig) -> None:
    fetch(any_lake, "CREATE TABLE t AS SELECT 1 AS a")
    reader = replace(any_lake, read_only=True)
    assert fetch(reader, "FROM t") == [(1,)]
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        fetch(reader, "INSERT INTO t VALUES (2)")


def test_an_encrypted_lake_stays_encrypted_without_being_told(any_lake: LakeConfig) -> None:
    make = replace(any_lake, encrypted=True)
    fetch(make, "CREATE TABLE t AS SELECT range AS a FROM range(100)")
    fetch(any_lake, "INSERT INTO t SELECT range FROM range(100)")
    assert fetch(any_lake, "SELECT sum(a) FROM t") == [(9900,)]


def test_encrypted_on_a_plain_lake_is_refused(any_lake: LakeConfig) -> None:
    fetch(any_lake, "SELECT 1")
    with pytest.raises(OptionError, match="not encrypted") as caught:
        fetch(replace(any_lake, encrypted=True), "SELECT 1")
    assert caught.value.option == "encrypted"


def test_the_inlining_limit_is_passed_only_if_given(any_lake: LakeConfig) -> None:
    options = "SELECT options FROM duckdb_databases() WHERE database_name = 'lake'"
    assert "data_inlining_row_limit" not in str(fetch(any_lake, options))
    fetch(replace(any_lake, data_inlining_row_limit=0), "CREATE TABLE t AS SELECT 1 AS a")
    limited = replace(any_lake, data_inlining_row_limit=0)
    assert "'data_inlining_row_limit': '0'" in str(fetch(limited, options))


@pytest.mark.parametrize("values", [{"create": False}, {"read_only": True}, {"snapshot": 1}])
def test_a_missing_lake_is_not_made_against_the_will(
    any_lake: LakeConfig, tmp_path: Path, values: dict[str, int]
) -> None:
    before = files_of(tmp_path)
    with pytest.raises(LakeNotFound):
        fetch(replace(any_lake, **values), "SELECT 1")  # type: ignore[arg-type]
    assert files_of(tmp_path) == before


def test_a_database_without_a_lake_is_not_a_lake(tmp_path: Path) -> None:
    duckdb.connect(tmp_path / "plain.duckdb").close()
    plain = LakeConfig(DuckDBCatalog(str(tmp_path / "plain.duckdb")), create=False)
    with pytest.raises(LakeNotFound, match="no lake in it"):
        fetch(plain, "SELECT 1")


@pytest.mark.parametrize("kind", [DuckDBCatalog, SQLiteCatalog])
def test_paths_that_cannot_be_a_catalog_are_named(
    tmp_path: Path, kind: type[DuckDBCatalog | SQLiteCatalog]
) -> None:
    with pytest.raises(LakeNotFound, match="create the directory"):
        fetch(LakeConfig(kind(str(tmp_path / "no" / "a.lake"))), "SELECT 1")
    with pytest.raises(LakeUnavailable, match="is a directory"):
        fetch(LakeConfig(kind(str(tmp_path))), "SELECT 1")
    (tmp_path / "junk").write_text("junk" * 1000)
    with pytest.raises(LakeUnavailable, match="not a"):
        fetch(LakeConfig(kind(str(tmp_path / "junk"))), "SELECT 1")


@pytest.mark.parametrize("snapshot", [77, datetime(2020, 1, 1, tzinfo=UTC)])
def test_an_unknown_snapshot_is_named(any_lake: LakeConfig, snapshot: int | datetime) -> None:
    fetch(any_lake, "SELECT 1")
    with pytest.raises(OptionError) as caught:
        fetch(replace(any_lake, snapshot=snapshot), "SELECT 1")
    assert caught.value.option == "snapshot"
    assert str(snapshot) in str(caught.value)


def test_a_snapshot_may_be_a_time(any_lake: LakeConfig) -> None:
    fetch(any_lake, "CREATE TABLE t AS SELECT 1 AS a")
    moment = "SELECT snapshot_time FROM lake.snapshots() ORDER BY snapshot_id DESC LIMIT 1"
    ((made,),) = fetch(any_lake, moment)
    assert isinstance(made, datetime)
    fetch(any_lake, "INSERT INTO t VALUES (2)")
    assert fetch(replace(any_lake, snapshot=made), "FROM t") == [(1,)]


HOLD = """
import duckdb, sys
held = duckdb.connect(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_file_that_another_process_holds_is_locked(duckdb_lake: LakeConfig) -> None:
    fetch(duckdb_lake, "SELECT 1")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, duckdb_lake.catalog.title],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"ready\n"
        with pytest.raises(LakeLocked) as caught:
            fetch(duckdb_lake, "SELECT 1")
        assert caught.value.process == holder.pid
        holder.communicate(b"\n", timeout=60)
    fetch(duckdb_lake, "SELECT 1")


def test_a_locked_sqlite_catalog_is_locked(sqlite_lake: LakeConfig) -> None:
    fetch(sqlite_lake, "SELECT 1")
    exclusive = "held.execute('PRAGMA locking_mode=EXCLUSIVE'); held.execute('BEGIN EXCLUSIVE')"
    program = HOLD.replace("duckdb", "sqlite3").replace("print", f"{exclusive}; print")
    with subprocess.Popen(
        [sys.executable, "-c", program, sqlite_lake.catalog.title],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"ready\n"
        with pytest.raises(LakeLocked):
            fetch(sqlite_lake, "SELECT 1")
        holder.communicate(b"\n", timeout=60)


def test_a_file_that_this_process_holds_otherwise_says_so(duckdb_lake: LakeConfig) -> None:
    fetch(duckdb_lake, "SELECT 1")
    held = duckdb.connect(duckdb_lake.catalog.title)
    with pytest.raises(LakeUnavailable, match="this process has the file open"):
        fetch(duckdb_lake, "SELECT 1")
    held.close()


def test_an_old_catalog_asks_for_a_migration(sqlite_lake: LakeConfig) -> None:
    fetch(sqlite_lake, "SELECT 1")
    with sqlite3.connect(sqlite_lake.catalog.title) as plain:
        plain.execute("UPDATE ducklake_metadata SET value = '0.3' WHERE key = 'version'")
    plain.close()
    with pytest.raises(CatalogTooOld, match="automatic_migration=true"):
        fetch(sqlite_lake, "SELECT 1")


def test_s78_settings_reach_the_engine(any_lake: LakeConfig) -> None:
    settings = {
        "TimeZone": "Europe/Berlin",
        "threads": "1",
        "ducklake_max_retry_count": "3",
        "custom_user_agent": "me",
        "lock_configuration": "true",
    }
    lake = replace(any_lake, settings=tuple(settings.items()))
    for name, value in settings.items():
        assert str(fetch(lake, f"SELECT current_setting('{name}')")[0][0]).lower() == (
            value.lower()
        )


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("thraeds", "1", "threads"),
        ("threads", "many", "many"),
        ("allow_unsigned_extensions", "perhaps", "perhaps"),
        ("access_mode", "read_only", "read-only"),
        ("search_path", "main", "cannot be set globally"),
    ],
)
def test_a_bad_setting_is_named(
    duckdb_lake: LakeConfig, name: str, value: str, advice: str
) -> None:
    with pytest.raises(OptionError, match=advice) as caught:
        fetch(replace(duckdb_lake, settings=((name, value),)), "SELECT 1")
    assert caught.value.option == f"duckdb.{name}"


def test_the_engine_still_takes_these_settings_only_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some settings name a log file
    refused = set()
    names = {
        name for (name,) in duckdb.execute("SELECT name FROM duckdb_settings()").fetchall()
    }
    for value in ("true", "false"):
        with duckdb.connect() as duck:
            for name in names - set(LATE_SETTINGS):
                try:
                    duck.execute(f"SET GLOBAL {identifier(name)} = '{value}'")
                except duckdb.Error as exc:
                    if "database is running" in str(exc):
                        refused.add(name)
    assert refused == STARTUP_SETTINGS - {"python_enable_replacements"}


# --- PostgreSQL


def test_a_password_shows_nowhere(postgres_lake: LakeConfig) -> None:
    catalog = postgres_lake.catalog
    assert isinstance(catalog, PostgresCatalog)
    assert catalog.password
    for listing in ("duckdb_databases", "duckdb_secrets", "duckdb_settings", "duckdb_logs"):
        shown = str(fetch(postgres_lake, f"FROM {listing}()"))
        assert catalog.password not in shown
        assert "heim" not in shown


@pytest.mark.parametrize(
    "values",
    [
        {"password": "wrong-hush"},
        {"database": "nowhere"},
        {"host": "127.0.0.1", "port": 1},
        {"host": "/nowhere"},
        {"sslmode": "bogus"},
        {"options": "-c nonsense=1"},
    ],
    ids=str,
)
def test_a_server_that_refuses_is_named_without_the_password(
    postgres_lake: LakeConfig, values: dict[str, object]
) -> None:
    assert isinstance(postgres_lake.catalog, PostgresCatalog)
    catalog = replace(postgres_lake.catalog, **values)  # type: ignore[arg-type]
    with pytest.raises(LakeUnavailable) as caught:
        fetch(replace(postgres_lake, catalog=catalog), "SELECT 1")
    assert caught.value.catalog == catalog.title
    assert caught.value.__cause__ is None
    assert catalog.password
    assert catalog.password not in str(caught.value)


def test_a_new_lake_in_postgresql_asks_for_its_data_path(
    postgres_catalog: PostgresCatalog,
) -> None:
    with pytest.raises(OptionError, match="new lake") as caught:
        fetch(LakeConfig(postgres_catalog), "SELECT 1")
    assert caught.value.option == "data_path"


def test_two_lakes_in_one_postgresql_database_are_apart(
    postgres_lake: LakeConfig, tmp_path: Path
) -> None:
    other = replace(postgres_lake, metadata_schema="Other", data_path=str(tmp_path / "other"))
    fetch(postgres_lake, "CREATE TABLE t (a int)")
    fetch(other, "CREATE TABLE u (a int)")
    found = f"SELECT table_name FROM {metadata_table(other, 'ducklake_table')}"
    assert fetch(replace(other, data_path=None), found) == [("u",)]
    assert fetch(replace(postgres_lake, data_path=None), "FROM t") == []


# --- stores and extensions


@pytest.mark.parametrize(
    ("data_path", "storage"),
    [
        ("s3://bucket/a b/", S3("id", "hush", "hush", "eu", "127.0.0.1:1", use_ssl=False)),
        ("s3://bucket/", S3(region="eu")),
        ("gs://bucket/", GCS("id", "hush")),
    ],
    ids=["s3", "s3 without keys", "gcs"],
)
def test_keys_of_a_store_are_scoped_to_the_data_path_and_redacted(
    sqlite_lake: LakeConfig, data_path: str, storage: S3 | GCS
) -> None:
    lake = replace(sqlite_lake, data_path=data_path, storage=storage)
    ((kind, scope, text),) = fetch(
        lake, "SELECT type, scope, secret_string FROM duckdb_secrets()"
    )
    assert (kind, scope) == (storage.kind, [data_path])
    assert "hush" not in str(text)
    # Found again without the path, from the catalog.
    again = replace(lake, data_path=None)
    assert fetch(again, "SELECT scope FROM duckdb_secrets()") == [([data_path],)]


def test_the_extension_for_a_stored_data_path_is_found(duckdb_lake: LakeConfig) -> None:
    fetch(replace(duckdb_lake, data_path="s3://bucket/"), "SELECT 1")
    loaded = "SELECT loaded FROM duckdb_extensions() WHERE extension_name = 'httpfs'"
    assert fetch(duckdb_lake, loaded) == [(True,)]


def test_extensions_come_from_wheels_of_the_running_version() -> None:
    with duckdb.connect() as duck:
        version = library_version(duck)
        assert wheel_file("ducklake", version).is_file()
        load_extension(duck, "ducklake")
        load_extension(duck, "ducklake")
    with pytest.raises(FileNotFoundError, match=version):
        wheel_file("ducklake", "v0.0.1")


def test_a_missing_extension_lists_what_was_tried() -> None:
    with duckdb.connect() as duck, pytest.raises(ExtensionMissing) as caught:
        load_extension(duck, "no_such_extension")
    places = [place for place, _ in caught.value.tried]
    assert places == ["an installed wheel", "DuckDB's own folder", "a download"]
    assert "sqlalchemy_ducklake[bundled]" in str(caught.value)


def test_an_instance_leaves_nothing_in_the_working_directory(
    duckdb_lake: LakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    small = replace(duckdb_lake, settings=(("memory_limit", "60MB"), ("threads", "1")))
    big = "SELECT count(*) FROM (SELECT DISTINCT range, range::text || 'x' FROM range(1500000))"
    assert fetch(small, big) == [(1500000,)]
    assert os.listdir(folder) == []  # noqa: PTH208
