# SPDX-License-Identifier: Apache-2.0
"""`vmcu ops`: the operators that models may have."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ..exits import EXIT_DONE
from .options import Subparsers, json_option


def add(commands: Subparsers) -> argparse.ArgumentParser:
    ops = commands.add_parser("ops", help="the operators that models may have, by format")
    json_option(ops, "them")
    ops.add_argument("--markdown", action="store_true", help="print doc/ops.md")
    return ops


def run(args: argparse.Namespace) -> int:
    from ..report.inspection import coverage, markdown
    from ..report.models import print_coverage
    from ..report.terminal import console, write_json

    found = coverage()
    if args.markdown:
        print(markdown(found), end="")
    else:
        print_coverage(found, console())
    write_json([asdict(entry) for entry in found], args.json)
    return EXIT_DONE
