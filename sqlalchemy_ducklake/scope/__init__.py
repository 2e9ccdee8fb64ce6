"""The write scope: a transaction's many small writes, kept aside until it commits.

A lake wants one write per table, and a program writes row by row.  So with the option
``ducklake_write_scope`` what a transaction writes goes into a *log*, one temporary table
for each table of the lake, and its own reads see the lake through that log.  The commit
writes what is left of it: deleted rows, changed rows and new rows of each table, at once,
as one snapshot, in a short transaction of its own.

- ``options.py``      the option and its budgets
- ``savepoints.py``   marks in the log, by name, nested and shadowed
- ``log.py``          the log of one table, and the views that read through it
- ``kept.py``         single rows, named by their key, kept in Python
- ``intents.py``      what a statement does to them
- ``keyvalues.py``    which values Python can tell apart as the engine does
- ``keeping.py``      how they get into the log, and what of the keys must be known
- ``keepers.py``      both for all tables
- ``copies.py``       small tables are read once
- ``reading.py``      a query of the user, led through those views
- ``writing.py``      the log of one table, written into the lake
- ``unit.py``         the scope of one transaction
"""
