"""When a name is quoted.

DuckDB keeps the case of every name and compares names without regard to case, quoted or
not; so quoting never changes which object is meant, only whether the parser accepts it.
"""

from __future__ import annotations

from sqlalchemy.sql.compiler import IdentifierPreparer

# Every word that duckdb_keywords() of DuckDB 1.5.5 does not call "unreserved"; a test
# compares them with the running engine.
_WORDS = """
all analyse analyze and anti any array as asc asof asymmetric at authorization between bigint
binary bit boolean both by case cast char character check coalesce collate collation column
columns concurrently constraint create cross dec decimal default deferrable desc describe
distinct do else end except exists extract false fetch float for foreign freeze from full
generated glob group grouping grouping_id having ilike in initially inner inout int integer
intersect interval into is isnull join lambda lateral leading left like limit map national
natural nchar none not notnull null nullif numeric offset on only or order out outer overlaps
overlay pivot pivot_longer pivot_wider placing position positional precision primary qualify
real references returning right row select semi setof show similar smallint some struct
substring summarize symmetric table tablesample then time timestamp to trailing treat trim true
try_cast union unique unpack unpivot using values varchar variadic verbose when where window
with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
xmlroot xmlserialize xmltable
"""

RESERVED_WORDS = set(_WORDS.split())


class DuckLakeIdentifierPreparer(IdentifierPreparer):
    """Quote the words that DuckDB's parser keeps for itself."""

    reserved_words = RESERVED_WORDS
