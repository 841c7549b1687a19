# SPDX-License-Identifier: Apache-2.0
"""Prints the vMCU paper's tables from this project's own planners.

    python benchmarks/paper/run.py [TABLE...] [--models DIR] [--write FILE]

`--write` puts each table between its two markers in a Markdown file, such as doc/results.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from figures import TABLES
from pages import show_of_models

ROOT = Path(__file__).resolve().parents[2]


def command(name: str) -> str:
    return f"python benchmarks/paper/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    show_of_models(__doc__, TABLES, command, argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
