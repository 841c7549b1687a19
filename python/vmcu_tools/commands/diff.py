# SPDX-License-Identifier: Apache-2.0
"""`vmcu diff`: what grew from one model to another, and why."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..exits import EXIT_DONE
from .options import Subparsers, calibration_options, hop_option, json_option, planner_options
from .sheets import WHAT


def add(commands: Subparsers) -> argparse.ArgumentParser:
    diff = commands.add_parser(
        "diff",
        parents=[planner_options()],
        help="what grew from one model to another, and why",
        description="Models are planned, both with the same options; containers and reports are "
        "taken as they are.",
    )
    diff.add_argument("before", type=Path, metavar="A", help=WHAT)
    diff.add_argument("after", type=Path, metavar="B", help="likewise")
    diff.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown")
    calibration_options(diff)
    hop_option(diff)
    json_option(diff, "the difference")
    return diff


def run(args: argparse.Namespace) -> int:
    from ..report.difference import difference, markdown, print_difference
    from ..report.terminal import console, write_json
    from .sheets import sheet

    found = difference(sheet(args, args.before), sheet(args, args.after))
    print_difference(found, console())
    write_json(asdict(found), args.json)
    if args.markdown:
        args.markdown.write_text(markdown(found, f"{found.before} to {found.after}"))
    return EXIT_DONE
