# SPDX-License-Identifier: Apache-2.0
"""`vmcu check`: limits that a pipeline holds a model to."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import Problem, UserError
from ..exits import EXIT_DONE, EXIT_PROBLEM
from .options import (
    Subparsers,
    byte_count,
    count,
    hop_option,
    json_option,
    model_options,
    name_option,
    percentage,
)
from .sheets import WHAT


def add(commands: Subparsers) -> argparse.ArgumentParser:
    check = commands.add_parser(
        "check",
        parents=[model_options()],
        help="hold a model to limits, in a pipeline",
        description="Exit 0: all limits are held; 1: one is not, or something is wrong.",
    )
    check.add_argument("--max-ram", type=byte_count, metavar="SIZE", help="of the pool")
    check.add_argument("--max-flash", type=byte_count, metavar="SIZE", help="of weights and tables")
    check.add_argument(
        "--max-cycles", type=count, metavar="N", help="of an inference, by the planners' estimate"
    )
    check.add_argument(
        "--baseline", type=Path, metavar="FILE", help=f"nothing may need more than {WHAT}"
    )
    check.add_argument(
        "--tolerance",
        type=percentage,
        default=0.0,
        metavar="PERCENT",
        help="by which it still may (default 0)",
    )
    check.add_argument("--junit", type=Path, metavar="FILE", help="write the limits as JUnit XML")
    check.add_argument("--markdown", type=Path, metavar="FILE", help="write it as Markdown")
    hop_option(check)
    name_option(check)
    json_option(check, "the report, the next baseline,")
    return check


def run(args: argparse.Namespace) -> int:
    from ..report import checks, sheet
    from ..report.difference import difference, print_difference
    from ..report.terminal import console, say, write_json
    from .sheets import report_of
    from .sheets import sheet as sheet_of

    most = {"pool_bytes": args.max_ram, "flash_bytes": args.max_flash, "cycles": args.max_cycles}
    if args.baseline is None and all(limit is None for limit in most.values()):
        reason, remedy = "no limit is given", "name --max-ram, --max-flash, ... or --baseline"
        raise UserError(Problem(reason, remedy, str(args.model)))
    before = None if args.baseline is None else sheet_of(args, args.baseline)
    report = report_of(args)
    now = sheet.of_report(report)
    against = None if before is None else difference(before, now)
    checked = checks.limits(now, most, against, args.tolerance)
    if against is not None:
        print_difference(against, console())
    for limit in checked:
        say(console(), f"{'ok' if limit.held else 'TOO LARGE'}: {limit.said}")
    write_json(asdict(report), args.json)
    if args.junit:
        args.junit.write_bytes(checks.junit("check", now.model, checked))
    if args.markdown:
        args.markdown.write_text(checks.comment(now, checked, against), encoding="utf-8")
    return EXIT_DONE if all(limit.held for limit in checked) else EXIT_PROBLEM
