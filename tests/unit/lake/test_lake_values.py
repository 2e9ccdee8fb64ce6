"""Configurations, catalogs and stores as plain values."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sqlalchemy_ducklake.errors import (
    CatalogTooOld,
    DataPathMismatch,
    ExtensionMissing,
    LakeLocked,
    LakeNotFound,
    LakeOpenedDifferently,
    LakeUnavailable,
    OptionError,
    SchemaNotFound,
)
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog, PostgresCatalog, SQLiteCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.storage import GCS, S3, Azure, normal_data_path, store_of

HERE = LakeConfig(DuckDBCatalog("a.lake"))


def test_two_spellings_of_a_path_are_one_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    plain = DuckDBCatalog(str(tmp_path / "b" / "x"))
    for spelling in ("b/x", "./b/../b/x", "~/b/x", "link/x"):
        assert DuckDBCatalog(spelling) == plain
    assert len({DuckDBCatalog("b/x"), SQLiteCatalog("b/x")}) == 2


def test_data_paths_end_in_a_slash_and_local_ones_are_real(tmp_path: Path) -> None:
    assert normal_data_path(f"{tmp_path}/a/../b") == f"{tmp_path.resolve()}/b/"
    assert normal_data_path("s3://b/a/../c") == "s3://b/a/../c/"


def test_the_store_of_a_path_names_its_extension() -> None:
    assert store_of("/a/b") == ("local", None)
    assert store_of("s3://b/c") == ("s3", "httpfs")
    assert store_of("gs://b/c") == ("gcs", "httpfs")
    assert store_of("abfss://b/c") == ("azure", "azure")
    assert store_of("nope://b/c") == ("nope", None)


def test_an_endpoint_may_carry_its_scheme() -> None:
    assert S3(endpoint="http://127.0.0.1:9000/") == S3(
        endpoint="127.0.0.1:9000", use_ssl=False, url_style="path"
    )
    assert S3(endpoint="https://s3.example", url_style="vhost").use_ssl is True
    assert S3(region="eu-central-1").url_style is None


def test_no_secret_is_printed() -> None:
    stores = (
        S3(secret="hush", session_token="hush"),
        GCS(secret="hush"),
        Azure(connection_string="hush"),
        PostgresCatalog(user="u", password="hush"),
    )
    for value in stores:
        assert "hush" not in repr(value)
        assert "hush" not in str(value)
    lake = LakeConfig(
        PostgresCatalog(user="u", password="hush"),
        storage=S3(secret="hush"),
        settings=(("s3_secret_access_key", "hush"),),
    )
    assert "hush" not in repr(lake)
    assert "hush" not in PostgresCatalog(user="u", password="hush").title


def test_a_snapshot_is_read_only_and_has_an_alias_of_its_own_in_a_duckdb_file() -> None:
    old = replace(HERE, snapshot=3)
    assert old.read_only
    assert (old.alias, old.metadata_catalog) == ("lake_at_3", "__ducklake_metadata_lake")
    assert old.present.alias == "lake"
    assert LakeConfig(SQLiteCatalog("a"), snapshot=3).alias == "lake"


def test_a_time_without_a_zone_is_utc() -> None:
    naive = LakeConfig(HERE.catalog, snapshot=datetime(2026, 1, 31, 12))  # noqa: DTZ001
    aware = LakeConfig(HERE.catalog, snapshot=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert naive == aware
    assert naive.alias == "lake_at_20260131T120000_000000"


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("encrypted", {"encrypted": True, "create": False}),
        ("encrypted", {"encrypted": True, "read_only": True}),
        ("automatic_migration", {"automatic_migration": True, "read_only": True}),
        ("override_data_path", {"override_data_path": True}),
        ("data_inlining_row_limit", {"data_inlining_row_limit": -1}),
        ("alias", {"alias": "temp"}),
        ("alias", {"alias": ""}),
        ("data_path", {"data_path": "/x", "storage": S3(secret="hush")}),
        ("data_path", {"data_path": "gs://x", "storage": S3(secret="hush")}),
    ],
)
def test_contradictions_are_refused_by_name(option: str, values: dict[str, object]) -> None:
    with pytest.raises(OptionError) as caught:
        replace(HERE, **values)  # type: ignore[arg-type]
    assert caught.value.option == option
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        OptionError("schema", "is odd"),
        ExtensionMissing("ducklake", [("here", "no"), ("there", "neither")]),
        LakeUnavailable("a.lake", "why"),
        LakeNotFound("a.lake", "why"),
        LakeLocked("a.lake", 12),
        LakeLocked("a.lake"),
        LakeOpenedDifferently("a.lake", "read_only"),
        DataPathMismatch("a.lake", "/x/"),
        CatalogTooOld("a.lake"),
        SchemaNotFound("s", "a.lake"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling_whole(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
