"""Secrets go to the engine and nowhere else: what the package shows is searched for them."""

from __future__ import annotations

import io
import logging
import pickle
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import (
    URL,
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    create_engine,
    insert,
    text,
)
from sqlalchemy.exc import DBAPIError

import sqlalchemy_ducklake as lake
from fixtures.catalogs import PASSWORD, USER
from fixtures.stores import SECRET, Store
from sqlalchemy_ducklake.cli import main
from sqlalchemy_ducklake.dialect.url import config_from_url
from sqlalchemy_ducklake.lake.catalogs import PostgresCatalog

table = Table("t", MetaData(), Column("id", Integer, primary_key=True))
TOKEN = "session-token-canary"
TELLING = (
    "FROM duckdb_databases()",
    "FROM duckdb_secrets()",
    "FROM duckdb_settings()",
    "FROM duckdb_logs",
    "FROM ducklake_settings('lake')",
    "FROM lake.snapshots()",
)


@pytest.fixture
def url(postgres_catalog: PostgresCatalog, store: Store) -> URL:
    """A lake with a password and two secrets, all of them of characters that break quoting."""
    query = {
        "host": str(postgres_catalog.host),
        "data_path": store.new_path(),
        "s3_session_token": TOKEN,
        **store.options(),
    }
    return URL.create(
        "ducklake+postgresql",
        USER,
        PASSWORD,
        port=postgres_catalog.port,
        database=postgres_catalog.database,
        query=query,
    )


@pytest.fixture
def seen(url: URL, caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Collect what is shown; at the end it is searched, with all that was logged."""
    shown: list[str] = []
    caplog.set_level(logging.DEBUG)
    yield shown
    # The test's own store and PostgreSQL are not of this package.
    logged = [each for each in caplog.records if not each.name.startswith(("boto", "urllib3"))]
    everything = "\n".join([*shown, *(each.getMessage() for each in logged)])
    assert len(everything) > 100
    for secret in (PASSWORD, SECRET, TOKEN):
        for form in spellings(secret):
            assert form not in everything


def spellings(secret: str) -> set[str]:
    """Give a secret as it is, escaped for SQL, for libpq, for Python, and as a URL has it."""
    in_url = URL.create("x", query={"k": secret}).render_as_string(hide_password=False)
    libpq = secret.replace("\\", "\\\\").replace("'", "\\'")
    quoted = {secret.replace("'", "''"), libpq, libpq.replace("'", "''"), repr(secret)[1:-1]}
    return {secret, in_url.partition("k=")[2], *quoted}


def test_control_a_secret_is_found_however_it_is_written() -> None:
    for secret in (PASSWORD, SECRET, TOKEN):
        leaks = (secret, f"{{'s': {secret!r}}}", f"'{secret.replace(chr(39), chr(39) * 2)}'")
        for leak in leaks:
            assert any(form in leak for form in spellings(secret))


def engine_on(url: URL, **options: Any) -> Engine:
    engine = create_engine(url, echo="debug", **options)
    table.create(engine, checkfirst=True)
    return engine


def test_what_is_printed_and_logged(url: URL, seen: list[str]) -> None:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        engine = engine_on(url)
        with engine.begin() as connection:
            connection.execute(insert(table), [{"id": number} for number in range(50)])
            seen.append(repr(connection.connection.driver_connection))
            seen += [str(connection.execute(text(query)).all()) for query in TELLING]
            seen.append(repr(list(lake.snapshots(connection))))
            seen.append(repr(lake.describe(connection, table)))
    config = config_from_url(url)
    seen += [repr(engine), str(engine), repr(engine.url), str(config), repr(config)]
    seen += [repr(config.catalog), repr(config.storage), str(engine.dialect), output.getvalue()]
    engine.dispose()


@pytest.mark.parametrize("wrong", ["password", "s3_secret", "host", "s3_endpoint", "option"])
def test_errors(url: URL, seen: list[str], wrong: str) -> None:
    if wrong == "password":
        other = url.set(password=PASSWORD[::-1])
    elif wrong == "option":
        other = url.update_query_dict({"no_such_option": "1"})
    else:
        other = url.update_query_dict({wrong: "127.0.0.1:1"})
    engine = create_engine(url, echo="debug")
    table.create(engine)
    engine.dispose()
    try:
        engine = create_engine(other, echo="debug")
        with engine.begin() as connection:
            connection.execute(insert(table), [{"id": number} for number in range(50)])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
        shown = "".join(traceback.format_exception(error))
        seen += [shown, repr(error), str(error.__cause__), shown + repr(vars(error))]
        if isinstance(error, DBAPIError):
            seen.append(repr(vars(error.orig)))
    else:
        # The store of the tests takes any key, so nothing is wrong with that.
        assert wrong == "s3_secret"
        seen.append("x" * 101)
    engine.dispose()


def test_scripts_of_migrations(url: URL, seen: list[str]) -> None:
    output = io.StringIO()
    engine = create_engine(url)
    context = MigrationContext.configure(
        url=url, dialect=engine.dialect, opts={"as_sql": True, "output_buffer": output}
    )
    with context.begin_transaction():
        Operations(context).create_table("u", Column("id", Integer, primary_key=True))
    seen.append(output.getvalue())
    assert "CREATE TABLE" in output.getvalue()


def test_the_command_line(url: URL, seen: list[str], tmp_path: Path) -> None:
    engine_on(url).dispose()
    output = io.StringIO()
    address = url.render_as_string(hide_password=False)
    with redirect_stdout(output), redirect_stderr(output):
        for words in (["snapshots"], ["tables"], ["maintain", "--dry-run"], ["nonsense"]):
            try:
                main([address, *words])
            except SystemExit as end:
                output.write(str(end))
    seen.append(output.getvalue())
    assert tmp_path.exists()


def test_a_pickled_error_holds_none(url: URL, seen: list[str]) -> None:
    engine = engine_on(url)
    with engine.begin() as connection:
        connection.execute(insert(table), [{"id": 1}])
        with pytest.raises(DBAPIError) as caught:
            connection.execute(insert(table), [{"id": 1}])
    seen.append(repr(pickle.dumps(caught.value.orig)) + "x" * 101)
    engine.dispose()
