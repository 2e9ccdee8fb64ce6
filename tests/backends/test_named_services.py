"""A server and a store that are named are used; if they are not there, nothing is skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from fixtures.catalogs import PostgresServer
from fixtures.stores import Store

ROOT = Path(__file__).parents[2]
TEST = "tests/backends/test_backends.py::test_keys_hold[{}]"


def run_one(backend: str, variables: dict[str, str], base: Path) -> tuple[int, str]:
    """Run one test of the backends in a process that knows these variables."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--basetemp={base}", TEST.format(backend)],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def named_store(store: Store) -> str:
    scheme, _, place = store.endpoint.partition("://")
    key, secret = quote(store.key_id, safe=""), quote(store.secret, safe="")
    return f"{scheme}://{key}:{secret}@{place}/{store.bucket}"


def test_both_are_used(postgres_server: PostgresServer, store: Store, tmp_path: Path) -> None:
    everything = f"s3://{store.bucket}/"
    before = len(store.keys(everything))
    databases = "SELECT count(*) FROM pg_database;"
    found = postgres_server.run(databases)
    variables = {
        "DUCKLAKE_TEST_POSTGRES": postgres_server.uri,
        "DUCKLAKE_TEST_S3": named_store(store),
    }
    code, told = run_one("ducklake+postgresql-s3", variables, tmp_path / "base")
    assert (code, "1 passed" in told) == (0, True), told
    assert len(store.keys(everything)) > before
    # What was made there is gone again.
    assert postgres_server.run(databases) == found


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("DUCKLAKE_TEST_POSTGRES", "ducklake+postgresql-local"),
        ("DUCKLAKE_TEST_S3", "ducklake-s3"),
    ],
)
def test_one_that_is_not_there_fails_the_tests(name: str, backend: str, tmp_path: Path) -> None:
    nowhere = {
        "DUCKLAKE_TEST_POSTGRES": "postgresql://postgres@127.0.0.1:1/postgres",
        "DUCKLAKE_TEST_S3": "http://key:secret@127.0.0.1:1/bucket",
    }
    code, told = run_one(backend, {name: nowhere[name]}, tmp_path / "base")
    assert code == 1, told
    assert "skipped" not in told
    assert "refused" in told or "Could not" in told, told
