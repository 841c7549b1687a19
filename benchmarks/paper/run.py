# SPDX-License-Identifier: Apache-2.0
"""Prints the vMCU paper's tables from this project's own planners.

    python benchmarks/paper/run.py [TABLE...] [--models DIR] [--write FILE]

`--write` puts each table between its two markers in a Markdown file, such as doc/results.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from figures import TABLES
from pages import insert

ROOT = Path(__file__).resolve().parents[2]
MODELS = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared" / "models"))


def command(name: str) -> str:
    return f"python benchmarks/paper/run.py {name}"


def main(argv: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}")
    options.add_argument("--models", type=Path, default=MODELS, help="where the MCUNet files are")
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args(argv)
    unknown = [name for name in args.tables if name not in TABLES]
    if unknown:
        options.error(f"no such table: {', '.join(unknown)}")
    for name in args.tables or TABLES:
        table = TABLES[name](args.models)
        block = table.markdown(command(name))
        print(f"{table.title}\n\n{block}\n", flush=True)
        if args.write:
            try:
                text = insert(args.write.read_text(encoding="utf-8"), name, block)
            except ValueError as error:
                options.error(f"{args.write}: {error}")
            args.write.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
