"""The Arrow type of a DuckDB type."""

import pyarrow as pa
import pytest

from sqlalchemy_ducklake.dialect.arrowtypes import arrow_type


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("BIGINT", pa.int64()),
        ("UTINYINT", pa.uint8()),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("DECIMAL(10)", pa.decimal128(10, 0)),
        ("DECIMAL", pa.decimal128(18, 3)),
        ("FLOAT", pa.float32()),
        ("VARCHAR(30)", pa.string()),
        ("UUID", pa.string()),
        ("JSON", pa.string()),
        ("TIME WITH TIME ZONE", pa.string()),
        ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
        ("TIMESTAMP_S", pa.timestamp("s")),
        ("INTERVAL", pa.month_day_nano_interval()),
        ("INTEGER[][]", pa.list_(pa.list_(pa.int32()))),
        (
            'STRUCT("a b" DATE, c BLOB[])',
            pa.struct([("a b", pa.date32()), ("c", pa.list_(pa.binary()))]),
        ),
        (
            "MAP(VARCHAR, STRUCT(x DOUBLE))",
            pa.map_(pa.string(), pa.struct([("x", pa.float64())])),
        ),
        ("VARIANT", None),
        ("STRUCT(v VARIANT)", None),
        ("GEOMETRY", None),
        ("no such type", None),
        ("(", None),
    ],
)
def test_each_type_has_its_arrow_type(text: str, arrow: pa.DataType | None) -> None:
    assert arrow_type(text) == arrow
