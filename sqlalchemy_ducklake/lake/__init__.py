"""Open a lake: from plain values to a DuckDB session that stands in it.

The room reads downwards.  :mod:`config` says what a lake is, in frozen values:
where its catalog lives (:mod:`catalogs`), where its data lives (:mod:`storage`).
:mod:`extensions` finds the engine's parts, :mod:`attach` speaks SQL to open the lake,
and :mod:`instances` lets every connection of a process share one open lake.
:mod:`hints` reads the few engine messages that nothing but their text tells apart.

Nothing here knows SQLAlchemy.
"""
