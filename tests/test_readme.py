"""The README: every block runs, and its tables say what the code says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import make_url

from sqlalchemy_ducklake.dialect import url

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


class Block(NamedTuple):
    language: str
    text: str


BLOCKS = [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)]
COMMANDS = [block.text.strip() for block in BLOCKS if block.language == "sh"]


# Each Python block with the output that the block behind it promises.
PROGRAMS = [
    (block.text, output.text if output.language == "text" else "")
    for block, output in zip(BLOCKS, [*BLOCKS[1:], Block("", "")], strict=True)
    if block.language == "python"
]


def run(directory: Path, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def quoted(line: str) -> list[str]:
    return re.findall(r"`([^`]+)`", line)


def table(header: str) -> list[list[str]]:
    """The cells of the rows of the table with this header."""
    rows = README.split(f"{header}\n")[1].split("\n\n")[0].splitlines()[1:]
    return [row.strip("| ").split(" | ") for row in rows]


def test_every_block_is_of_a_kind_that_is_tested() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python", "text"}
    assert README.count("```") == 2 * len(BLOCKS)


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_a_python_block_prints_what_the_readme_says(
    program: str, output: str, tmp_path: Path
) -> None:
    assert run(tmp_path, "-c", program) == output


def test_every_output_belongs_to_a_program() -> None:
    outputs = [block.text for block in BLOCKS if block.language == "text"]
    assert outputs == [output for _, output in PROGRAMS if output]


def test_the_first_command_runs_the_quickstart(tmp_path: Path) -> None:
    install, _, script = COMMANDS[0].partition(" && ")
    assert install == "pip install -e '.[bundled,examples]'"
    python, path = shlex.split(script)
    assert python == "python"
    assert "336,776 rows in" in run(tmp_path, str(ROOT / path))
    assert (tmp_path / "flights.ducklake").is_file()


def test_the_second_command_is_what_ci_runs() -> None:
    install, _, tests = COMMANDS[1].partition(" && ")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert tests in ci
    assert any(install.removeprefix("pip install ") in line for line in ci)


def test_the_example_of_migrations_runs_as_the_readme_says(tmp_path: Path) -> None:
    (command,) = (one for one in COMMANDS if one.startswith("alembic "))
    arguments = command.replace("migrations_example/", f"{ROOT}/migrations_example/")
    run(tmp_path, "-m", *shlex.split(arguments))
    assert (tmp_path / "flights_by_revision.ducklake").is_file()


def test_the_readme_names_every_requirement_of_alembic_that_is_closed() -> None:
    from sqlalchemy_ducklake.alembic.requirements import CLOSED

    assert [name for name in CLOSED if f"`{name}`" not in README] == []


def test_the_compliance_table_names_every_closed_requirement_and_no_other() -> None:
    from sqlalchemy_ducklake.dialect.requirements import CLOSED

    named = [name for cells in table("| Requirement | Why |") for name in quoted(cells[0])]
    assert sorted(named) == sorted(CLOSED)


def test_the_url_table_names_every_kind_of_catalog() -> None:
    urls = [quoted(cells[0])[0] for cells in table("| URL | catalog |")]
    assert {each.partition(":")[0] for each in urls} == url.DRIVERS.keys()


def test_the_urls_of_the_table_are_understood() -> None:
    for cells in table("| URL | catalog |"):
        url.config_from_url(make_url(quoted(cells[0])[0]))


def test_the_option_table_names_every_option_and_no_other() -> None:
    documented = [name for cells in table("| option | meaning |") for name in quoted(cells[0])]
    tables = (url.LAKE, url.CONNECTION, url.POSTGRES, *url.STORES.values())
    options = [option.name for each in tables for option in each]
    assert sorted(documented) == sorted([*options, f"{url.SETTING}<setting>"])
