"""The function that tells what a merge did to a returned row."""

from __future__ import annotations

from sqlalchemy import String
from sqlalchemy.sql.functions import GenericFunction


class merge_action(GenericFunction[str]):  # noqa: N801 - a function of SQL
    """In ``merge(…).returning(…)``: INSERT, UPDATE or DELETE (SQL:2023, PostgreSQL 17)."""

    type = String()
    inherit_cache = True
    name = "merge_action"
