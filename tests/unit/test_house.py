"""The rules of the house that no linter has: lengths, and who may write which SQL."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlalchemy_ducklake

PACKAGE = Path(sqlalchemy_ducklake.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# The files that own statements beyond queries and data changes.
OWNERS = {
    "alembic/elements.py",
    "lake/attach.py",
    "dialect/compiler.py",
    "dialect/evolving.py",
    "dialect/ddl.py",
    "dialect/changes.py",
    "dialect/logged.py",
    "dialect/staging.py",
    "scope/dml.py",
    "scope/keeping.py",
    "scope/log.py",
}
OWNED = ("ATTACH ", "DETACH ", "ALTER ", "CREATE ", "COMMENT ON ", "DROP ")


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            yield node


def body_lines(function: ast.FunctionDef) -> int:
    first = function.body[0]
    told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = function.body[1:] if told else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_is_longer_than_400_lines_and_no_function_than_40(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert [f.name for f in functions(path) if body_lines(f) > 40] == []


def test_the_median_function_has_at_most_8_lines() -> None:
    lengths = [body_lines(each) for path in FILES for each in functions(path)]
    assert statistics.median(lengths) <= 8


def test_only_the_files_that_own_them_write_statements_that_define() -> None:
    offenders = {
        (str(path.relative_to(PACKAGE)), node.value[:40])
        for path in FILES
        if str(path.relative_to(PACKAGE)) not in OWNERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith(OWNED) and "<" not in node.value
    }
    assert offenders == set()
