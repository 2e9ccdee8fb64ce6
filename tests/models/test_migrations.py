"""Any model becomes any other by autogenerate, and comes back by the downgrade.

Random pairs of models A → B, with a few rows in the tables: after the upgrade the lake
reflects B and the comparison is silent, after the downgrade it reflects A and is silent.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import URL, Engine, create_engine, inspect

import sqlalchemy_ducklake
from sqlalchemy_ducklake.dialect.types import MAP, STRUCT

PAIRS, AT_ONCE = 100, 10

# Each row may become any later one of its group, as a lake widens types.
NUMBERS = (sa.SmallInteger(), sa.Integer(), sa.BigInteger())
KINDS: tuple[Any, ...] = (
    *NUMBERS, sa.String(), sa.String(7), sa.Numeric(8, 2), sa.Double(), sa.Boolean(), sa.Date(),
    sa.DateTime(), sa.DateTime(timezone=True), sa.Uuid(), sa.JSON(), sa.LargeBinary(),
    sa.ARRAY(sa.Integer()), MAP(sa.String(), sa.Integer()),
)  # fmt: skip
DEFAULTS = {
    sa.SmallInteger: "3", sa.Integer: "-4", sa.BigInteger: "5", sa.String: "it's",
    sa.Boolean: sa.true(), sa.Date: "2020-02-29", sa.Double: "0.5",
}  # fmt: skip


@dataclass(frozen=True)
class ColumnModel:
    """A column: its type (of a STRUCT its fields), and what else it says."""

    name: str
    kind: Any
    nullable: bool = True
    default: Any = None
    comment: str | None = None
    fields: tuple[str, ...] = ()

    def column(self) -> sa.Column[Any]:
        kind = (
            STRUCT([(name, sa.Integer()) for name in self.fields]) if self.fields else self.kind
        )
        return sa.Column(
            self.name, kind, nullable=self.nullable, server_default=self.default,
            comment=self.comment,
        )  # fmt: skip


@dataclass(frozen=True)
class TableModel:
    """A table with its key and constraints, each named after its columns."""

    name: str
    columns: tuple[ColumnModel, ...]
    key: tuple[str, ...] = ("id",)
    comment: str | None = None
    unique: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    refers: str | None = None
    said: dict[str, Any] = field(default_factory=dict)

    def add_to(self, metadata: sa.MetaData) -> None:
        parts: list[Any] = [sa.Column("id", sa.Integer, nullable=False)]
        parts += [one.column() for one in self.columns]
        parts.append(sa.PrimaryKeyConstraint(*self.key, name=f"pk_{self.name}"))
        parts += [sa.UniqueConstraint(one, name=f"uq_{self.name}_{one}") for one in self.unique]
        parts += [
            sa.CheckConstraint(f"id > {one}", name=f"ck_{self.name}_{one}")
            for one in self.checks
        ]
        parts += [sa.Index(f"ix_{self.name}_{one}", one) for one in self.indexes]
        if self.refers:
            parts.append(sa.Column("ref", sa.Integer))
            name = f"fk_{self.name}_{self.refers}"
            parts.append(sa.ForeignKeyConstraint(["ref"], [f"{self.refers}.id"], name=name))
        sa.Table(self.name, metadata, *parts, comment=self.comment, **self.said)


Model = dict[str, TableModel]
TABLES = ("one", "Thr ee")
NAMES = ("plain", "We ird", "order", "ünï.cöde", "it's", "per%cent")


def random_column(chance: random.Random, name: str) -> ColumnModel:
    if chance.random() < 0.2:
        fields = chance.sample(["a", "b b", "c"], chance.randint(1, 3))
        return ColumnModel(name, None, fields=tuple(fields))
    kind = chance.choice(KINDS)
    default = DEFAULTS.get(type(kind)) if chance.random() < 0.4 else None
    nullable = default is None or chance.random() < 0.5
    return ColumnModel(
        name, kind, nullable, default, chance.choice([None, "what", "it's\n%(x)s"])
    )


def layout(chance: random.Random, columns: tuple[ColumnModel, ...]) -> dict[str, Any]:
    """Give a layout that stands whatever becomes of the columns: by the id, and by times."""
    times = [one.name for one in columns if type(one.kind) in (sa.Date, sa.DateTime)]
    quoted = ['year("' + name.replace('"', '""') + '")' for name in times]
    keys = chance.sample([*quoted, "bucket(4, id)", "id"], chance.randint(0, 1 + len(quoted)))
    order = chance.choice([[], ["id DESC"], ["id % 3", "id"], [sa.desc("id").nulls_first()]])
    options = chance.choice([{}, {"parquet_compression": "zstd"}, {"target_file_size": "9MB"}])
    return {
        "ducklake_partition_by": keys,
        "ducklake_sort_by": order,
        "ducklake_options": options,
    }


def random_table(chance: random.Random, name: str, parents: list[str]) -> TableModel:
    names = chance.sample(NAMES, chance.randint(0, 3))
    columns = tuple(random_column(chance, each) for each in names)
    return TableModel(
        name,
        columns,
        comment=chance.choice([None, "a table", "a \"quoted\" 'one'"]),
        unique=tuple(chance.sample(["id"], chance.randint(0, 1))),
        checks=tuple(chance.sample(["-1", "-7"], chance.randint(0, 2))),
        indexes=tuple(chance.sample([*names, "id"], chance.randint(0, min(2, len(names))))),
        refers=chance.choice([None, *parents]),
        said=layout(chance, columns),
    )


def random_model(chance: random.Random) -> Model:
    model: Model = {}
    for name in TABLES[: chance.randint(1, 2)]:
        model[name] = random_table(chance, name, list(model))
    return model


def changed(chance: random.Random, model: Model) -> Model:
    """Change a model here and there: every part of it may be another."""
    other: Model = {}
    for name in TABLES:
        parents = list(other)
        if name in model and chance.random() < 0.85:
            other[name] = changed_table(chance, model[name], parents)
        elif name not in model and chance.random() < 0.5:
            other[name] = random_table(chance, name, parents)
    return other


def changed_table(chance: random.Random, table: TableModel, parents: list[str]) -> TableModel:
    fresh = random_table(chance, table.name, parents)
    columns = tuple(changed_columns(chance, table, fresh))
    there = {one.name for one in columns}

    def either(part: str) -> Any:
        return getattr(chance.choice([table, fresh]), part)

    refers = either("refers")
    return replace(
        table,
        columns=columns,
        comment=either("comment"),
        unique=either("unique"),
        checks=either("checks"),
        indexes=tuple(one for one in either("indexes") if one in there | {"id"}),
        refers=refers if refers in parents else None,
        said=layout(chance, columns) if chance.random() < 0.6 else stable(table, there),
    )


def stable(table: TableModel, there: set[str]) -> dict[str, Any]:
    gone = {one.name for one in table.columns} - there
    keys = [one for one in table.said["ducklake_partition_by"] if not mentions(one, gone)]
    return {**table.said, "ducklake_partition_by": keys}


def mentions(key: str, names: set[str]) -> bool:
    return any(f'"{name}"' in key for name in names)


def changed_columns(
    chance: random.Random, table: TableModel, fresh: TableModel
) -> Iterator[ColumnModel]:
    for one in table.columns:
        if chance.random() < 0.75:
            yield changed_column(chance, one)
    there = {one.name for one in table.columns}
    yield from (one for one in fresh.columns if one.name not in there)


def changed_column(chance: random.Random, one: ColumnModel) -> ColumnModel:
    if one.fields:
        kept = chance.sample(one.fields, chance.randint(1, len(one.fields)))
        return replace(one, fields=(*kept, *chance.sample(["d", "e.f"], chance.randint(0, 2))))
    kind = one.kind
    if kind in NUMBERS and chance.random() < 0.3:
        kind = chance.choice(NUMBERS[NUMBERS.index(kind) :])
    default = chance.choice([one.default, None]) if one.nullable else one.default
    nullable = one.nullable or (one.default is not None and chance.random() < 0.3)
    comment = chance.choice([one.comment, None, "another"])
    return replace(one, kind=kind, default=default, nullable=nullable, comment=comment)


def metadata_of(model: Model) -> sa.MetaData:
    metadata = sa.MetaData()
    for table in model.values():
        table.add_to(metadata)
    return metadata


def reflected(engine: Engine) -> dict[str, Any]:
    """Tell all that a lake tells of its tables; columns by name, as a new one stands last."""
    seen = inspect(engine)
    return {
        name: {
            "columns": {
                one["name"]: (
                    spelled(engine, one["type"]), one["nullable"],
                    SAME_DEFAULTS.get(one["default"], one["default"]), one["comment"],
                )
                for one in seen.get_columns(name)
            },
            "key": seen.get_pk_constraint(name),
            "unique": seen.get_unique_constraints(name),
            "foreign keys": seen.get_foreign_keys(name),
            "checks": seen.get_check_constraints(name),
            "indexes": seen.get_indexes(name),
            "comment": seen.get_table_comment(name),
            "layout": seen.get_table_options(name),
        }
        for name in seen.get_table_names()
    }  # fmt: skip


# A word that came with ALTER TABLE is a text to the engine.
SAME_DEFAULTS: dict[str | None, str | None] = {"'true'": "true"}


def spelled(engine: Engine, kind: Any) -> str:
    """Write a type; the order of fields does not count."""
    if isinstance(kind, STRUCT):
        kind = STRUCT(sorted(kind.fields, key=lambda one: one[0]))
    return str(kind.compile(dialect=engine.dialect))


def migrate(engine: Engine, wanted: sa.MetaData) -> str:
    """Migrate a lake to a model by a script; return the script of the way back."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=OPTIONS)
        script = produce_migrations(context, wanted)
        assert script.upgrade_ops is not None
        assert script.downgrade_ops is not None
        up = render_python_code(script.upgrade_ops, migration_context=context)
        down = render_python_code(script.downgrade_ops, migration_context=context)
    run(engine, up)
    return down


OPTIONS: dict[str, Any] = {"compare_server_default": True}


def run(engine: Engine, script: str) -> None:
    with engine.begin() as connection:
        names = {
            "op": Operations(MigrationContext.configure(connection)),
            "sa": sa,
            "sqlalchemy_ducklake": sqlalchemy_ducklake,
        }
        exec("if True:\n    " + script, names)


def differences(engine: Engine, metadata: sa.MetaData) -> list[Any]:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=OPTIONS)
        return list(compare_metadata(context, metadata))


def add_rows(engine: Engine, metadata: sa.MetaData) -> None:
    """Give each table two rows, in which only what must is not NULL."""
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            connection.execute(sa.insert(table), [{"id": 1}, {"id": 2}])


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    addresses = [URL.create("ducklake", database=str(tmp_path / name)) for name in "ab"]
    first, second = map(create_engine, addresses)
    yield first, second
    first.dispose()
    second.dispose()


@pytest.mark.parametrize("batch", range(PAIRS // AT_ONCE))
def test_any_model_becomes_any_other_and_comes_back(
    lakes: tuple[Engine, Engine], batch: int
) -> None:
    for seed in range(batch * AT_ONCE, (batch + 1) * AT_ONCE):
        there_and_back(*lakes, random.Random(seed))


def there_and_back(engine: Engine, fresh: Engine, chance: random.Random) -> None:
    first = random_model(chance)
    second = changed(chance, first)
    before, after = metadata_of(first), metadata_of(second)
    before.create_all(engine)
    add_rows(engine, before)
    as_first = reflected(engine)
    back = migrate(engine, after)
    assert differences(engine, metadata_of(second)) == []
    after.create_all(fresh)
    assert reflected(engine) == reflected(fresh)
    run(engine, back)
    assert reflected(engine) == as_first
    assert differences(engine, metadata_of(first)) == []
    before.drop_all(engine)
    after.drop_all(fresh)
