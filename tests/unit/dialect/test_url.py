"""URLs and configurations, in both directions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.engine import URL, make_url

from sqlalchemy_ducklake.compat import SQLALCHEMY
from sqlalchemy_ducklake.dialect.url import (
    LAKE,
    POSTGRES,
    STORES,
    config_from_url,
    discreet,
    url_from_config,
)
from sqlalchemy_ducklake.errors import OptionError
from sqlalchemy_ducklake.lake.catalogs import DuckDBCatalog, PostgresCatalog, SQLiteCatalog
from sqlalchemy_ducklake.lake.config import LakeConfig
from sqlalchemy_ducklake.lake.storage import GCS, S3, Azure

FILE = DuckDBCatalog("/lakes/a.lake")


def read(text: str) -> LakeConfig:
    return config_from_url(make_url(text))


@pytest.mark.parametrize(
    ("text", "catalog"),
    [
        ("ducklake:////lakes/a.lake", FILE),
        ("ducklake+duckdb:////lakes/a.lake", FILE),
        ("ducklake://localhost//lakes/a.lake", FILE),
        ("ducklake:///a.lake", DuckDBCatalog("a.lake")),
        ("ducklake:///~/a.lake", DuckDBCatalog("~/a.lake")),
        ("ducklake+sqlite:////lakes/a.lake", SQLiteCatalog("/lakes/a.lake")),
        (
            "ducklake+postgresql://u:p%40w@db.example:5433/lakes?sslmode=require",
            PostgresCatalog("lakes", "db.example", 5433, "u", "p@w", sslmode="require"),
        ),
        (
            "ducklake+postgresql:///lakes?host=/run/pg",
            PostgresCatalog("lakes", host="/run/pg"),
        ),
    ],
)
def test_driver_host_and_path_say_where_the_catalog_is(
    text: str, catalog: DuckDBCatalog | SQLiteCatalog | PostgresCatalog
) -> None:
    assert read(text) == LakeConfig(catalog)


def test_every_option_arrives_in_its_field() -> None:
    config = read(
        "ducklake+postgresql://h/db?data_path=s3://b/c&schema=s&alias=l&metadata_schema=m"
        "&snapshot=7&data_inlining_row_limit=0&override_data_path=true&create=FALSE"
        "&s3_key_id=k&s3_secret=s&s3_session_token=t&s3_region=r&s3_endpoint=e:1"
        "&s3_url_style=vhost&s3_use_ssl=0&duckdb.threads=2&duckdb.TimeZone=UTC"
        "&passfile=/p&connect_timeout=3&options=-c%20x%3D1"
    )
    assert config == LakeConfig(
        PostgresCatalog("db", "h", passfile="/p", connect_timeout=3, options="-c x=1"),
        data_path="s3://b/c/",
        schema="s",
        alias="l",
        metadata_schema="m",
        snapshot=7,
        data_inlining_row_limit=0,
        override_data_path=True,
        create=False,
        storage=S3("k", "s", "t", "r", "e:1", "vhost", False),
        settings=(("TimeZone", "UTC"), ("threads", "2")),
    )


CONFIGS = [
    LakeConfig(FILE),
    LakeConfig(DuckDBCatalog("/wei rd/ü'\"?#&%41=+;.lake"), data_path="/x y/%20?#&"),
    LakeConfig(SQLiteCatalog("/a.sqlite"), schema="ü", alias='say "hi"', create=False),
    LakeConfig(FILE, snapshot=3),
    LakeConfig(FILE, snapshot=datetime(2026, 1, 31, 12, 30, 1, 5, tzinfo=UTC)),
    LakeConfig(FILE, encrypted=True, automatic_migration=True),
    LakeConfig(FILE, storage=S3(key_id="k", secret="a+b/c=&?", endpoint="http://h:1")),
    LakeConfig(FILE, data_path="gs://b", storage=GCS("k", "s")),
    LakeConfig(FILE, storage=Azure("AccountName=a;AccountKey=b==", "a")),
    LakeConfig(FILE, settings=(("memory_limit", "1GB"), ("threads", "2"))),
    LakeConfig(PostgresCatalog("d", "h", 5433, "u@x", "p:/@?#", connect_timeout=0)),
    LakeConfig(PostgresCatalog("d", "/run/pg", user="u", passfile="/p")),
    LakeConfig(PostgresCatalog()),
]


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_what_can_be_read_can_be_written(config: LakeConfig) -> None:
    url = url_from_config(config)
    assert config_from_url(url) == config
    # SQLAlchemy 2.0 writes a question mark in a path as it is, and cannot read it again.
    if SQLALCHEMY > (2, 0) or "?" not in (url.database or ""):
        assert config_from_url(make_url(url.render_as_string(hide_password=False))) == config


@pytest.mark.parametrize(
    ("text", "option", "advice"),
    [
        ("ducklake:///x?raed_only=1", "raed_only", "read_only"),
        ("ducklake:///x?threads=1", "threads", "duckdb.<setting>"),
        ("ducklake:///x?duckdb.=1", "duckdb.", "duckdb.<setting>"),
        ("ducklake:///x?read_only=maybe", "read_only", "true or false"),
        ("ducklake:///x?data_inlining_row_limit=-1", "data_inlining_row_limit", "0 or more"),
        ("ducklake:///x?data_inlining_row_limit=²", "data_inlining_row_limit", "0 or more"),
        ("ducklake:///x?snapshot=yesterday", "snapshot", "2026-01-31"),
        ("ducklake:///x?snapshot=3&read_only=false", "snapshot", "read_only=false"),
        ("ducklake:///x?encrypted=true&create=false", "encrypted", "create=false"),
        ("ducklake:///x?s3_secret=hush&data_path=/x", "data_path", "s3_"),
        ("ducklake:///x?s3_secret=hush&gcs_secret=hush", "s3_… and gcs_…", "one"),
        ("ducklake:///x?sslmode=require", "sslmode", "ducklake+postgresql"),
        ("ducklake:///x?schema=a&schema=b", "schema", "2 times"),
        ("ducklake://server/x", "host", "ducklake:///server/x"),
        ("ducklake://user@/x", "user", "ducklake+postgresql"),
        ("ducklake://localhost:1/x", "port", "ducklake+postgresql"),
        ("ducklake+sqlite://", "path", "path of a file"),
        ("ducklake+mysql:///x", "driver", "ducklake+sqlite"),
        ("ducklake+postgresql://h/x?host=/run", "host", "twice"),
    ],
)
def test_a_bad_url_is_told_which_option_and_what_to_do(
    text: str, option: str, advice: str
) -> None:
    with pytest.raises(OptionError) as caught:
        read(text)
    assert caught.value.option == option
    assert advice in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("text", ["ducklake://", "ducklake:///", "ducklake:///:memory:"])
def test_no_path_makes_a_new_private_lake_each_time(text: str) -> None:
    first, second = read(text), read(text)
    assert first != second
    assert isinstance(first.catalog, DuckDBCatalog)
    assert Path(first.catalog.path).parent.is_dir()


def test_a_bad_option_leaves_no_temporary_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OptionError):
        read("ducklake://?encrypted=true&create=false")
    assert not list(tmp_path.iterdir())


def test_secrets_of_the_query_are_hidden_like_the_password() -> None:
    url = discreet(
        make_url(
            "ducklake+postgresql://u:hush@h/d?s3_secret=hush&s3_session_token=hush"
            "&azure_connection_string=hush&gcs_secret=hush&duckdb.s3_secret_access_key=hush"
            "&s3_region=r"
        )
    )
    assert "hush" not in str(url)
    assert "hush" not in repr(url)
    assert "s3_region=r" in str(url)
    assert url.render_as_string(hide_password=False).count("hush") == 6
    assert "hush" not in str(url.set(database="other"))


def test_a_discreet_url_is_the_url() -> None:
    plain = URL.create("ducklake", database="/x", query={"s3_secret": "a"})
    assert discreet(plain) == plain
    assert make_url(discreet(plain)) == plain


def test_no_option_is_listed_twice() -> None:
    names = [
        option.name for options in (LAKE, POSTGRES, *STORES.values()) for option in options
    ]
    assert len(names) == len(set(names))
