"""The command line: what is in a lake, what happened to it, and its upkeep.

arguments.py  what may be written
commands.py   what each command finds out or does, as plain values
printing.py   values as tables (with rich, the extra ``cli``) or as JSON
"""

from __future__ import annotations

from sqlalchemy_ducklake.cli.commands import main

__all__ = ["main"]
