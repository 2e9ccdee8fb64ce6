"""SQLAlchemy's own types, where a lake treats their values in its own way."""

# SQLAlchemy hands every processor a dialect, and most need none.
# ruff: noqa: ARG002

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import types as sqltypes
from sqlalchemy.engine.interfaces import Dialect

from sqlalchemy_ducklake.dialect import values
from sqlalchemy_ducklake.dialect.values import Processor


class LakeArray(sqltypes.ARRAY):  # type: ignore[type-arg]  # generic in SQLAlchemy 2.1 only
    """A list of any length; elements cross the border as their own type does."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Convert the elements if their type converts."""
        return values.of_elements(values.binding(self.item_type, dialect), self.dimensions or 1)

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Convert the elements if their type converts."""
        return values.of_elements(values.reading(self.item_type, dialect), self.dimensions or 1)

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write a list of literals."""
        return values.list_literal(values.writing(self.item_type, dialect))


class LakeNumeric(sqltypes.Numeric[Any]):
    """An exact number."""

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send exactly what Python holds, with no float on the way."""
        return values.exact_number

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Give a Decimal also for what the engine works out as a float: a quotient, a mean."""
        if self.asdecimal and str(coltype) in ("DOUBLE", "FLOAT"):
            return values.decimal_of_float
        return cast("Processor | None", super().result_processor(dialect, coltype))

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write plain digits: ``1E+5`` would be a DOUBLE to the engine."""
        return values.digits


class LakeFloat(sqltypes.Float[Any]):
    """A floating point number."""

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send a Decimal as the float that is nearest to it."""
        return values.nearest_float

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Give what the engine gives, if that is a float already."""
        if not self.asdecimal and str(coltype) in ("DOUBLE", "FLOAT"):
            return None
        return cast("Processor | None", super().result_processor(dialect, coltype))

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write also those floats that are no digits."""
        return values.float_literal


class LakeBinary(sqltypes.LargeBinary):
    """Bytes, which the client takes and gives as they are."""

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send the value as it is."""
        return None

    def result_processor(self, dialect: Dialect, coltype: object) -> Processor | None:
        """Give the value as it is."""
        return None

    def literal_processor(self, dialect: Dialect) -> Processor | None:
        """Write every byte as two hexadecimal digits."""
        return values.blob_literal


class LakeDate(sqltypes.Date):
    """A date; of a datetime, which Python calls a date too, the day."""

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send the day of a datetime."""
        return values.day


class LakeTime(sqltypes.Time):
    """A time of day; one with a zone is sent in UTC.

    Parquet keeps it so, and the engine calls 12:00+02 and 10:00+00 different.
    """

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Move a time to UTC if the type has a zone."""
        return values.time_in_utc if self.timezone else None


class LakeUuid(sqltypes.Uuid[Any]):
    """A UUID; cast, because ``as_uuid=False`` sends text."""

    render_bind_cast = True

    def bind_processor(self, dialect: Dialect) -> Processor | None:
        """Send a UUID as text too, so that both spellings share one plan."""
        return values.uuid_text if self.native_uuid else super().bind_processor(dialect)


class LakeJSON(sqltypes.JSON):
    """JSON, as text on the way in and out, through the engine's serializers."""

    render_bind_cast = True

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Write the text as a literal."""
        serialize = self.bind_processor(dialect) or values.same
        return lambda value: f"CAST({values.text_literal(serialize(value))} AS JSON)"


class LakeJSONIndex(sqltypes.JSON.JSONIndexType):
    """One step into JSON, as a path of one step."""

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Turn the key or place into a path."""
        return values.json_step

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Turn the key or place into the literal of a path."""
        return lambda value: values.text_literal(values.json_step(value))


class LakeJSONPath(sqltypes.JSON.JSONPathType):
    """Several steps into JSON."""

    def bind_processor(self, dialect: Dialect) -> Processor:
        """Turn the keys and places into a path."""
        return values.json_path

    def literal_processor(self, dialect: Dialect) -> Processor:
        """Turn the keys and places into the literal of a path."""
        return lambda value: values.text_literal(values.json_path(value))
