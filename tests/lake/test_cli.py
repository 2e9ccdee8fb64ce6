"""The command line, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, insert, update

from sqlalchemy_ducklake import Commit
from sqlalchemy_ducklake.cli import main

metadata = MetaData()
t = Table("t [odd]", metadata, Column("id", Integer, primary_key=True), Column("v", String))


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"ducklake:///{tmp_path}/a.ducklake"
    engine = create_engine(url)
    metadata.create_all(engine)
    for place in range(3):
        rows = [{"id": n, "v": "a"} for n in range(place * 20, place * 20 + 20)]
        said = Commit(message="load [bold]", extra={"n": place})
        with engine.connect().execution_options(ducklake_commit=said) as connection:
            connection.execute(insert(t), rows)
            connection.commit()
    with engine.begin() as connection:
        connection.execute(update(t).where(t.c.id < 5).values(v="b"))
    engine.dispose()
    return url


def test_it_is_run_as_a_module(url: str) -> None:
    command = [sys.executable, "-m", "sqlalchemy_ducklake", url, "tables", "--json"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (table,) = json.loads(done.stdout)
    assert (table["schema"], table["table"], table["rows in files"]) == ("main", "t [odd]", 60)


def test_tables_are_drawn_with_what_users_named_as_it_is(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([url, "tables"]) == 0
    assert main([url, "snapshots", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert "t [odd]" in shown
    assert "load [bold]" in shown


def test_snapshots_and_versions_are_listed(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([url, "snapshots", "--json", "--limit", "3"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in told] == [5, 4, 3]
    assert told[1]["extra"] == {"n": 2}
    assert main([url, "snapshots", "--table", "t [odd]", "--json"]) == 0
    modes = [each["mode"] for each in json.loads(capsys.readouterr().out)]
    assert modes == ["update", "insert", "insert", "insert", "create"]


def test_diff_counts(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([url, "diff", "t [odd]", "2", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"inserted": 40, "updated": 5, "deleted": 0, "unchanged": 15}
    ]


def test_maintain_tells_what_it_would_do_and_does_it(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    now = ["--expire-older-than", "0s", "--json"]
    assert main([url, "maintain", "--dry-run", *now]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert main([url, "maintain", *now]) == 0
    done = json.loads(capsys.readouterr().out)
    keys = ("step", "table", "count", "items")
    assert [[each[k] for k in keys] for each in planned] == [
        [each[k] for k in keys] for each in done
    ]
    assert "merge_small_files" in {each["step"] for each in done}
    assert main([url, "maintain", "--expire-older-than", "never"]) == 0
    assert "Done" in capsys.readouterr().out


def test_a_name_may_hold_points_and_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"ducklake:///{tmp_path}/odd.ducklake"
    engine = create_engine(url)
    odd = Table('o\'ne "two".three', MetaData(), Column("id", Integer, primary_key=True))
    odd.create(engine)
    engine.dispose()
    for name in (odd.name, f"MAIN.{odd.name}"):
        assert main([url, "snapshots", "--table", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["mode"] == "create"
    assert main([url, "maintain", "--table", odd.name, "--json"]) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diff", "nope", "1", "2"], "nope"),
        (["diff", "t [odd]", "1", "99"], "no snapshot 99"),
        (["maintain", "--table", "nope"], "main.nope"),
    ],
)
def test_what_goes_wrong_is_said_in_one_line(
    url: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([url, *arguments]) == 1
    shown = capsys.readouterr().err
    assert says in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    "wrong",
    ["nonsense", "sqlite:///x.db", "ducklake+postgresql://me:s3cret@127.0.0.1:1/lake"],
)
def test_no_secret_of_the_url_is_shown(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([wrong, "tables"]) == 1
    shown = capsys.readouterr()
    assert shown.err
    assert "s3cret" not in shown.err + shown.out


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["url"],
        ["url", "nonsense"],
        ["url", "maintain", "--expire-older-than", "soon"],
        ["url", "snapshots", "--limit", "-1"],
        ["url", "diff", "t", "x", "2"],
    ],
)
def test_wrong_arguments_are_explained(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(wrong)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err
