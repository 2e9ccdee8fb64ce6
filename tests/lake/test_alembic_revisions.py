"""Revisions in the history of a lake: one is one snapshot, online and offline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Engine, create_engine, inspect, text

from fixtures.catalogs import PASSWORD
from fixtures.migrations import Migrations
from sqlalchemy_ducklake.alembic import MigratedMeanwhile, MigrationRefused
from sqlalchemy_ducklake.lake.extensions import load_extensions

Rows = list[Any]

SNAPSHOTS = """
    SELECT snapshot_id, author, commit_message,
           commit_extra_info::JSON ->> '$.alembic.revision' AS revision,
           commit_extra_info::JSON ->> '$.alembic.direction' AS direction
    FROM lake.snapshots() WHERE revision IS NOT NULL
    ORDER BY snapshot_id
"""


def history(engine: Engine) -> Rows:
    with engine.connect() as connection:
        return list(connection.execute(text(SNAPSHOTS)))


def add_story(migrations: Migrations) -> None:
    """Add four revisions, of which the third renames what the second alters."""
    migrations.add(
        "one",
        "op.create_table('t', sa.Column('id', sa.Integer, primary_key=True), "
        "ducklake_partition_by=['id'], ducklake_options={'parquet_version': 2})",
        "op.drop_table('t')",
        doc="The first table",
    )
    migrations.add(
        "two",
        """
        op.add_column("t", sa.Column("v", sa.String(9), comment="it's"))
        op.bulk_insert(sa.table("t", sa.column("id", sa.Integer)), [{"id": 1}, {"id": 2}])
        """,
        "op.drop_column('t', 'v')",
        doc='A "column" of \\\'t',
    )
    migrations.add("three", "op.rename_table('t', 'u')", "op.rename_table('u', 't')")
    migrations.add(
        "four",
        """
        op.create_unique_constraint("uq_v", "u", ["v"])
        op.alter_column("u", "id", type_=sa.BigInteger)
        op.set_ducklake_sorting("u", ["id"])
        op.add_column("u", sa.Column("n", sa.Integer, server_default="3"))
        op.alter_column("u", "v", new_column_name="word")
        op.create_table_comment("u", "all of it")
        op.create_table("c", sa.Column("id", sa.Integer), sa.Column("u", sa.BigInteger))
        op.create_index("ix_u", "c", ["u"])
        op.create_foreign_key("fk", "c", "u", ["u"], ["id"])
        op.drop_column("c", "id")
        """,
        """
        op.drop_table("c")
        op.drop_table_comment("u")
        op.alter_column("u", "word", new_column_name="v")
        op.drop_column("u", "n")
        op.reset_ducklake_sorting("u")
        op.drop_constraint("uq_v", "u", type_="unique")
        """,
    )


def test_each_revision_is_a_snapshot_that_says_so_on_every_catalog(
    tmp_path: Path, any_url: URL
) -> None:
    migrations = Migrations(tmp_path / "migrations", any_url)
    add_story(migrations)
    engine = create_engine(any_url)
    migrations.upgrade()
    found = history(engine)
    assert [row.revision for row in found] == ["one", "two", "three", "four"]
    assert [row.snapshot_id for row in found] == [1, 2, 3, 4]
    assert {row.author for row in found} == {"sqlalchemy_ducklake"}
    assert found[0].commit_message == "upgrade one: The first table"
    assert found[1].commit_message == 'upgrade two: A "column" of \'t'
    scripts = ScriptDirectory.from_config(migrations.config)
    for row in found:
        assert scripts.get_revision(row.revision) is not None
    migrations.downgrade()
    migrations.upgrade()
    directions = [row.direction for row in history(engine)]
    assert directions == ["upgrade"] * 4 + ["downgrade"] * 4 + ["upgrade"] * 4
    assert inspect(engine).get_table_options("u") == {
        "ducklake_partition_by": ["id"],
        "ducklake_sort_by": ["id"],
        "ducklake_options": {"parquet_version": "V2"},
    }
    engine.dispose()


@pytest.fixture
def migrations(tmp_path: Path, lake_url: URL) -> Migrations:
    return Migrations(tmp_path / "migrations", lake_url)


def test_what_is_said_of_a_revision_is_said_of_nothing_else(
    migrations: Migrations, engine: Engine
) -> None:
    from sqlalchemy_ducklake import Commit

    add_story(migrations)
    said = Commit(author="Ada", extra={"ticket": 7})
    with engine.connect().execution_options(ducklake_commit=said) as connection:
        migrations.config.attributes["connection"] = connection
        migrations.upgrade()
        connection.execute(text("INSERT INTO u (id) VALUES (9)"))
        connection.commit()
        found = text("SELECT author, commit_message, commit_extra_info FROM lake.snapshots()")
        rows = connection.execute(found).all()
    assert [row.author for row in rows[1:]] == ["Ada"] * 5
    assert [json.loads(row.commit_extra_info)["ticket"] for row in rows[1:]] == [7] * 5
    assert rows[-1].commit_message == "insert"
    assert "alembic" not in rows[-1].commit_extra_info


def test_revisions_in_a_transaction_of_the_caller_are_one_snapshot_that_names_all(
    migrations: Migrations, engine: Engine
) -> None:
    add_story(migrations)
    with engine.begin() as connection:
        migrations.config.attributes["connection"] = connection
        migrations.upgrade("two")
    assert len(history(engine)) == 1
    with engine.connect() as connection:
        extra = connection.scalar(
            text("SELECT commit_extra_info FROM lake.snapshots() ORDER BY snapshot_id DESC")
        )
    assert json.loads(extra)["alembic"]["revisions"] == ["one", "two"]


def test_a_revision_that_fails_leaves_nothing_and_those_before_it_stay(
    migrations: Migrations, engine: Engine
) -> None:
    add_story(migrations)
    migrations.add("five", "op.drop_column('u', 'word')\nop.drop_column('u', 'gone')")
    with pytest.raises(MigrationRefused, match="gone"):
        migrations.upgrade()
    assert [row.revision for row in history(engine)] == ["one", "two", "three", "four"]
    assert "word" in {one["name"] for one in inspect(engine).get_columns("u")}


def test_a_stamp_says_so_too(migrations: Migrations, engine: Engine) -> None:
    add_story(migrations)
    command.stamp(migrations.config, "two")
    assert [(row.revision, row.direction) for row in history(engine)][-1:] == [("two", "stamp")]


def test_who_was_overtaken_between_two_revisions_is_told(
    migrations: Migrations, engine: Engine
) -> None:
    add_story(migrations)
    (migrations.versions / "three.py").write_text(
        (migrations.versions / "three.py")
        .read_text()
        .replace("op.rename_table('t', 'u')", "overtake()\n    op.rename_table('t', 'u')", 1)
        .replace("def upgrade", OVERTAKE.format(url=str(engine.url)) + "\ndef upgrade", 1)
    )
    with pytest.raises(MigratedMeanwhile, match="four") as caught:
        migrations.upgrade()
    assert (set(caught.value.expected), set(caught.value.found)) == ({"two"}, {"four"})


OVERTAKE = """
def overtake():
    engine = sa.create_engine({url!r})
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'four'"))
"""

RUN = """
import sys
from pathlib import Path
from alembic import command
sys.path.insert(0, {tests!r})
from fixtures.migrations import configuration
from sqlalchemy import URL, make_url
folder, url = Path(sys.argv[1]), make_url(sys.argv[2])
config = configuration(folder, url)
print("ready", flush=True)
sys.stdin.readline()
command.upgrade(config, "head")
"""


def test_of_two_processes_that_upgrade_at_once_one_wins_and_the_other_can_go_on(
    tmp_path: Path, shared_url: URL
) -> None:
    migrations = Migrations(tmp_path / "migrations", shared_url)
    add_story(migrations)
    create_engine(shared_url).connect().close()
    program = RUN.format(tests=str(Path(__file__).parent.parent))
    address = shared_url.render_as_string(hide_password=False)
    command_line = [sys.executable, "-c", program, str(tmp_path / "migrations"), address]
    both = [
        subprocess.Popen(
            command_line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    errors = [one.communicate(timeout=120)[1] for one in both]
    assert 0 in {one.returncode for one in both}, errors
    for one, error in zip(both, errors, strict=True):
        told = ("SerializationFailure", "MigratedMeanwhile", "is there already")
        assert one.returncode == 0 or any(words in error for words in told), error
    migrations.upgrade()
    engine = create_engine(shared_url)
    assert [row.revision for row in history(engine)] == ["one", "two", "three", "four"]
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM u")) == 2
    engine.dispose()


def run_script(script: str) -> None:
    """Run a script in DuckDB as its shell does, but with the extensions of this machine."""
    with duckdb.connect(":memory:") as duck:
        load_extensions(duck, ["ducklake", "sqlite_scanner", "postgres_scanner"])
        for statement in duck.extract_statements(script):
            duck.execute(statement)


def described(engine: Engine) -> Rows:
    seen = inspect(engine)
    tables = [
        (
            name,
            [
                (one["name"], str(one["type"]), one["comment"], one["default"])
                for one in seen.get_columns(name)
            ],
            seen.get_pk_constraint(name),
            seen.get_unique_constraints(name),
            seen.get_foreign_keys(name),
            seen.get_indexes(name),
            seen.get_table_comment(name),
            seen.get_table_options(name),
        )
        for name in seen.get_table_names()
    ]
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT * FROM u ORDER BY id")).all()
        told = [
            (row.commit_message, row.revision)
            for row in connection.execute(text(SNAPSHOTS.replace("author,", "")))
        ]
    return [tables, rows, told]


def test_an_offline_script_attaches_runs_as_it_is_and_makes_the_same_lake(
    tmp_path: Path, any_url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrations = Migrations(tmp_path / "migrations", any_url)
    add_story(migrations)
    migrations.upgrade(sql=True)
    script = migrations.output.getvalue()
    assert PASSWORD not in script
    assert script.startswith("ATTACH 'ducklake:")
    assert script.count("BEGIN;") == script.count("COMMIT;") == 4
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    run_script(script)
    engine = create_engine(any_url)
    other = create_engine(URL.create("ducklake", database=str(tmp_path / "other.ducklake")))
    migrations.config.attributes["url"] = other.url
    migrations.upgrade()
    assert described(engine) == described(other)
    for one in (engine, other):
        one.dispose()


def test_an_offline_script_writes_no_keys_of_a_store(tmp_path: Path) -> None:
    url = sa.make_url(
        f"ducklake:///{tmp_path}/a.ducklake?data_path=s3://bucket/x&s3_key_id=AKID&s3_secret=geheim"
    )
    migrations = Migrations(tmp_path / "migrations", url)
    add_story(migrations)
    migrations.upgrade(sql=True)
    script = migrations.output.getvalue()
    assert "geheim" not in script
    assert "AKID" not in script
    assert "-- First CREATE SECRET (TYPE s3" in script


def test_an_offline_script_for_a_lake_that_nobody_named_says_what_is_missing(
    migrations: Migrations,
) -> None:
    add_story(migrations)
    environment = migrations.versions.parent / "env.py"
    environment.write_text(environment.read_text().replace("ducklake_url=url, ", ""))
    migrations.upgrade(sql=True)
    assert migrations.output.getvalue().startswith("-- Attach the lake here")


def test_an_offline_script_stops_at_rows_that_a_new_key_would_not_hold(
    migrations: Migrations,
) -> None:
    migrations.add(
        "one",
        """
        table = op.create_table("t", sa.Column("id", sa.Integer), sa.Column("v", sa.Integer))
        op.bulk_insert(table, [{"id": 1, "v": 5}, {"id": 2, "v": 5}])
        """,
    )
    migrations.add("two", "op.create_unique_constraint('uq', 't', ['v'])")
    migrations.upgrade(sql=True)
    with pytest.raises(duckdb.Error, match=r"refused: \[\{'v': 5\}\]"):
        run_script(migrations.output.getvalue())


def test_an_offline_script_does_not_ruin_the_lake_by_a_late_rename(
    migrations: Migrations,
) -> None:
    migrations.add("one", "op.create_table('t', sa.Column('id', sa.Integer), comment='it')")
    migrations.add("two", "op.rename_table('t', 'u')\nop.create_table_comment('u', 'this')")
    migrations.upgrade(sql=True)
    run_script(migrations.output.getvalue())
    migrations.add("three", "op.drop_table_comment('u')\nop.rename_table('u', 'v')")
    with pytest.raises(MigrationRefused, match="revision of its own"):
        migrations.upgrade(sql=True)
