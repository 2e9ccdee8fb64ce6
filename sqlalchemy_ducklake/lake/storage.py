"""Where a lake keeps its Parquet files, and what opens that place.

Local paths need nothing.  An object store needs an extension of DuckDB and a secret;
the classes here are such secrets as plain values, and none of them prints what it hides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sqlalchemy_ducklake.lake.catalogs import real_path


@dataclass(frozen=True, slots=True)
class S3:
    """Amazon S3 or a store that speaks its language.

    A given ``endpoint`` is most often MinIO or the like, so ``url_style`` is ``path``
    with one unless told otherwise; a scheme in the endpoint decides ``use_ssl``.
    """

    kind: ClassVar[str] = "s3"
    extension: ClassVar[str] = "httpfs"

    key_id: str | None = None
    secret: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    url_style: str | None = None
    use_ssl: bool | None = None

    def __post_init__(self) -> None:
        scheme, separator, rest = (self.endpoint or "").rpartition("://")
        if separator:
            object.__setattr__(self, "endpoint", rest.rstrip("/"))
        if separator and self.use_ssl is None:
            object.__setattr__(self, "use_ssl", scheme == "https")
        if self.endpoint and self.url_style is None:
            object.__setattr__(self, "url_style", "path")

    def parameters(self) -> list[tuple[str, object]]:
        """Give the parameters of the DuckDB secret."""
        return _given(
            KEY_ID=self.key_id,
            SECRET=self.secret,
            SESSION_TOKEN=self.session_token,
            REGION=self.region,
            ENDPOINT=self.endpoint,
            URL_STYLE=self.url_style,
            USE_SSL=self.use_ssl,
        )


@dataclass(frozen=True, slots=True)
class GCS:
    """Google Cloud Storage, by an interoperability (HMAC) key."""

    kind: ClassVar[str] = "gcs"
    extension: ClassVar[str] = "httpfs"

    key_id: str | None = None
    secret: str | None = field(default=None, repr=False)

    def parameters(self) -> list[tuple[str, object]]:
        """Give the parameters of the DuckDB secret."""
        return _given(KEY_ID=self.key_id, SECRET=self.secret)


@dataclass(frozen=True, slots=True)
class Azure:
    """Azure Blob Storage, by a connection string, or by an account whose data is public."""

    kind: ClassVar[str] = "azure"
    extension: ClassVar[str] = "azure"

    connection_string: str | None = field(default=None, repr=False)
    account_name: str | None = None

    def parameters(self) -> list[tuple[str, object]]:
        """Give the parameters of the DuckDB secret."""
        return _given(CONNECTION_STRING=self.connection_string, ACCOUNT_NAME=self.account_name)


Storage = S3 | GCS | Azure

# How DuckDB spells each store in front of a path, and the extension that reads it.
SCHEMES = {
    "s3": ("s3", "httpfs"),
    "s3a": ("s3", "httpfs"),
    "s3n": ("s3", "httpfs"),
    "gs": ("gcs", "httpfs"),
    "gcs": ("gcs", "httpfs"),
    "az": ("azure", "azure"),
    "azure": ("azure", "azure"),
    "abfss": ("azure", "azure"),
    "r2": ("r2", "httpfs"),
    "hf": ("huggingface", "httpfs"),
    "http": ("http", "httpfs"),
    "https": ("http", "httpfs"),
}


def store_of(path: str) -> tuple[str, str | None]:
    """Tell the kind of store a data path lies in and the extension it needs."""
    scheme, separator, _ = path.partition("://")
    return SCHEMES.get(scheme, (scheme, None)) if separator else ("local", None)


def normal_data_path(path: str) -> str:
    """Spell a data path the one way: it ends in a slash, and a local one is real.

    DuckLake compares data paths as text, so ``a/../b`` would not match ``b``.
    """
    plain = real_path(path) if "://" not in path else path
    return plain if plain.endswith("/") else f"{plain}/"


def _given(**parameters: object) -> list[tuple[str, object]]:
    return [(name, value) for name, value in parameters.items() if value is not None]
