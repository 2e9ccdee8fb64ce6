"""``python -m sqlalchemy_ducklake URL maintain|snapshots|tables|diff``."""

from __future__ import annotations

import sys

from sqlalchemy_ducklake.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
