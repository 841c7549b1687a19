# SPDX-License-Identifier: Apache-2.0
"""`vmcu compare-runs`: what grew from one bundle of figures to another."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..exits import EXIT_DONE, EXIT_PROBLEM
from .options import Subparsers, json_option, percentage

# What --max-... are of, by kind of figure.
LIMITS = {
    "ram": "bytes of RAM",
    "flash": "bytes of flash",
    "macs": "multiply-accumulates",
    "cycles": "cycles",
    "instructions": "instructions, loads and stores",
    "energy": "the energy of the memories",
    "seconds": "times",
}
WHAT = (
    "a file that `vmcu build --json`, `vmcu bench --json` or a benchmark's --write wrote, or a "
    "folder of them"
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    runs = commands.add_parser(
        "compare-runs",
        help="what grew from one bundle of figures to another",
        description="Exit 0: nothing grew by more than it may; 1: something did, or something is "
        "wrong. What is called the same in both is compared; of two files with one run each, "
        "these.",
    )
    runs.add_argument("before", type=Path, metavar="A", help=WHAT)
    runs.add_argument("after", type=Path, metavar="B", help="likewise")
    for kind, what in LIMITS.items():
        runs.add_argument(
            f"--max-{kind}",
            type=percentage,
            metavar="PERCENT",
            help=f"by which {what} may grow (default {'any' if kind == 'seconds' else 0})",
        )
    runs.add_argument("--junit", type=Path, metavar="FILE", help="write what differs as JUnit XML")
    json_option(runs, "what differs")
    return runs


def run(args: argparse.Namespace) -> int:
    from ..report.checks import junit
    from ..report.growth import compared, print_growth
    from ..report.runs import KINDS
    from ..report.terminal import console, write_json

    given = {kind: getattr(args, f"max_{kind}") for kind in KINDS}
    most = {kind: KINDS[kind] if one is None else float(one) for kind, one in given.items()}
    found = compared(args.before, args.after, most)
    print_growth(found, console())
    write_json(asdict(found), args.json)
    if args.junit:
        judged = [one for one in found.changes if one.most is not None]
        args.junit.write_bytes(junit("compare-runs", args.after.stem, judged))
    return EXIT_PROBLEM if found.beyond else EXIT_DONE
