"""The write scope: a transaction's many small writes, kept aside until it commits.

A lake wants one write per table, and a program writes row by row.  So what a transaction
writes is kept aside: single rows, named by their key, in Python; everything else, and what
somebody looks at, in a *log*, one temporary table for each table of the lake, through which
the transaction's own reads see the lake.  The commit writes what is left of it: deleted rows,
changed rows and new rows of each table, at once, as one snapshot, in a short transaction of
its own.  What few statements did to a table goes straight from Python into the lake.

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
- ``dml.py``          the statements that write the rows of one table into the lake
- ``straight.py``     rows that are written from Python, without a log
- ``writing.py``      all tables, written in the order of their foreign keys
- ``unit.py``         the scope of one transaction
"""
