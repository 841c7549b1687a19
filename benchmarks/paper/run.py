# SPDX-License-Identifier: Apache-2.0
"""Prints the vMCU paper's tables from this project's own planners.

    python benchmarks/paper/run.py [TABLE...] [--models DIR] [--write FILE]

`--write` puts each table between its two markers in a Markdown file, such as doc/results.md.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from figures import TABLES
from pages import options, show

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared" / "models"))


def command(name: str) -> str:
    return f"python benchmarks/paper/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    parser = options(__doc__, [*TABLES])
    parser.add_argument("--models", type=Path, default=MODELS, help="where the MCUNet files are")
    args = parser.parse_args(argv)
    tables = {name: functools.partial(table, args.models) for name, table in TABLES.items()}
    show(parser, args, tables, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
