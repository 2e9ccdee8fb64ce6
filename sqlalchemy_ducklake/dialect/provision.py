"""How SQLAlchemy's own test suite gets its lakes.

The address ``ducklake://`` means a directory of its own for each process, which is removed
at the end; with a path, each worker of pytest-xdist gets a lake beside the one that is
named.
"""

# The hooks take what the suite hands to every one of them.
# ruff: noqa: ARG001

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, make_url, schema
from sqlalchemy.testing import provision

from sqlalchemy_ducklake.constructs import insert

_LAKE = "suite.ducklake"


@provision.generate_driver_url.for_db("ducklake")
def _generate_driver_url(url: URL, driver: str, query: str) -> URL:
    """Give a lake in a new directory if none is named."""
    if url.database:
        return url
    folder = tempfile.mkdtemp(prefix="ducklake-suite-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return url.set(database=str(Path(folder, _LAKE)))


@provision.follower_url_from_main.for_db("ducklake")
def _follower_url_from_main(url: URL | str, ident: str) -> URL:
    """Give each worker a lake in a directory beside that of the main process."""
    url = make_url(url)
    folder = _folder_of(url, ident)
    folder.mkdir(parents=True, exist_ok=True)
    return url.set(database=str(folder / _LAKE))


@provision.create_db.for_db("ducklake")
def _create_db(cfg: Any, engine: Engine, ident: str) -> None:
    """Do nothing: a lake is created by opening it."""


@provision.drop_db.for_db("ducklake")
def _drop_db(cfg: Any, engine: Engine, ident: str) -> None:
    """Remove the lake of a worker."""
    shutil.rmtree(_folder_of(engine.url, ident), ignore_errors=True)


@provision.post_configure_engine.for_db("ducklake")
def _post_configure_engine(url: URL, engine: Engine, follower_ident: str | None) -> None:
    """Create the schemas that the suite expects."""
    with engine.begin() as connection:
        for name in ("test_schema", "test_schema_2"):
            connection.execute(schema.CreateSchema(name, if_not_exists=True))


@provision.temp_table_keyword_args.for_db("ducklake")
def _temp_table_keyword_args(cfg: Any, engine: Engine) -> dict[str, Any]:
    """Say how a Table is made temporary."""
    return {"prefixes": ["TEMPORARY"]}


@provision.set_default_schema_on_connection.for_db("ducklake")
def _set_default_schema_on_connection(
    cfg: Any, dbapi_connection: Any, schema_name: str
) -> None:
    """Let names without a schema be looked up in this one."""
    quote = cfg.db.dialect.identifier_preparer.quote_identifier
    dbapi_connection.cursor().execute(f"USE {quote(cfg.db.dialect.alias)}.{quote(schema_name)}")
    dbapi_connection.commit()


@provision.upsert.for_db("ducklake")
def _upsert(
    cfg: Any,
    table: Any,
    returning: Any,
    *,
    set_lambda: Any = None,
    sort_by_parameter_order: bool = False,
    index_elements: Any = None,
) -> Any:
    """Make an INSERT … ON CONFLICT that returns columns."""
    statement: Any = insert(table)
    if set_lambda is None:
        statement = statement.on_conflict_do_nothing(index_elements=index_elements)
    else:
        statement = statement.on_conflict_do_update(
            index_elements=index_elements, set_=set_lambda(statement.excluded)
        )
    return statement.returning(*returning, sort_by_parameter_order=sort_by_parameter_order)


def _folder_of(url: URL, ident: str) -> Path:
    return Path(str(url.database)).parent / ident
