"""One small tree of errors on top of the driver's exceptions.

Every class descends from the PEP 249 exception it is a case of, so ``except
IntegrityError`` keeps working; every instance carries as attributes what its message
says, so no program has to read the message.  The constructor's arguments stay in
``args``, which makes each error picklable.

    tree.py         how the driver was used; rows, keys, values, comments
    constraints.py  rows that foreign keys and checks refuse, keys that are there twice
    history.py      the past: snapshots and tables that are not there, what cannot be undone
    lake.py         a lake that cannot be opened
    commits.py      a transaction that ends other than well
    scope.py        transactions that keep their writes aside
    writing.py      batches and files that do not fit a table
    classify.py     for programs that must decide: what kind, and may it be run again?
"""

from __future__ import annotations

from sqlalchemy_ducklake.errors.classify import Classification, Kind, classify
from sqlalchemy_ducklake.errors.commits import (
    CommitFailed,
    FilesLost,
    LockTimeout,
    OutcomeUnknown,
    SerializationFailure,
    StaleBase,
    TransactionAborted,
)
from sqlalchemy_ducklake.errors.constraints import (
    AmbiguousKeys,
    CascadeTooDeep,
    CheckViolation,
    ForeignKeyViolation,
    KeyNotDeclared,
    NumbersExhausted,
    RowReferenced,
)
from sqlalchemy_ducklake.errors.hazards import RowsWouldHide, TypeSpoiled, WriteAfterReset
from sqlalchemy_ducklake.errors.history import (
    NotOnlyAppends,
    ReadOnlyLake,
    TableNotThen,
    UnknownSnapshot,
)
from sqlalchemy_ducklake.errors.lake import (
    CatalogTooOld,
    DataPathMismatch,
    ExtensionMissing,
    LakeLocked,
    LakeNotFound,
    LakeOpenedDifferently,
    LakeUnavailable,
    OptionError,
    SchemaNotFound,
)
from sqlalchemy_ducklake.errors.scope import (
    NoSavepoint,
    NullValue,
    SavepointLost,
    SchemaChanged,
    StagedRowsLost,
)
from sqlalchemy_ducklake.errors.tree import (
    CardinalityViolation,
    ClosedError,
    ForkedError,
    GeneratedAlways,
    InterfaceError,
    IntervalTooLong,
    KeyViolation,
    MalformedTag,
    NameTooLong,
    NullKey,
    ParameterError,
    ReservedComment,
    StaleConstraint,
    StatementRefused,
    StatementTimeout,
    UnknownChange,
    UnknownColumns,
    ValueRefused,
)
from sqlalchemy_ducklake.errors.writing import (
    BatchRefused,
    ChangesLost,
    FileRefused,
    NullsRefused,
)

__all__ = [
    "AmbiguousKeys",
    "BatchRefused",
    "CardinalityViolation",
    "CascadeTooDeep",
    "CatalogTooOld",
    "ChangesLost",
    "CheckViolation",
    "Classification",
    "ClosedError",
    "CommitFailed",
    "DataPathMismatch",
    "ExtensionMissing",
    "FileRefused",
    "FilesLost",
    "ForeignKeyViolation",
    "ForkedError",
    "GeneratedAlways",
    "InterfaceError",
    "IntervalTooLong",
    "KeyNotDeclared",
    "KeyViolation",
    "Kind",
    "LakeLocked",
    "LakeNotFound",
    "LakeOpenedDifferently",
    "LakeUnavailable",
    "LockTimeout",
    "MalformedTag",
    "NameTooLong",
    "NoSavepoint",
    "NotOnlyAppends",
    "NullKey",
    "NullValue",
    "NullsRefused",
    "NumbersExhausted",
    "OptionError",
    "OutcomeUnknown",
    "ParameterError",
    "ReadOnlyLake",
    "ReservedComment",
    "RowReferenced",
    "RowsWouldHide",
    "SavepointLost",
    "SchemaChanged",
    "SchemaNotFound",
    "SerializationFailure",
    "StagedRowsLost",
    "StaleBase",
    "StaleConstraint",
    "StatementRefused",
    "StatementTimeout",
    "TableNotThen",
    "TransactionAborted",
    "TypeSpoiled",
    "UnknownChange",
    "UnknownColumns",
    "UnknownSnapshot",
    "ValueRefused",
    "WriteAfterReset",
    "classify",
]
