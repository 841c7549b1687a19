# SPDX-License-Identifier: Apache-2.0
"""`vmcu check`: limits for a model or for bundles of figures, in a pipeline."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from ..errors import Problem, UserError, suggestion
from ..exits import EXIT_DONE, EXIT_PROBLEM
from ..values import byte_count, count, percentage
from . import options
from .limits import board_options, left_on_board
from .parser import LIMITS, OUTPUT, titled
from .sheets import REPORT, WHAT

EXAMPLES = (
    ("model.tflite --max-ram 64K --max-flash 512K", "exit 1 if it exceeds a limit"),
    ("model.tflite --board nucleo_f411re", "beside an application of usual size"),
    ("model.onnx --baseline before.json --tolerance 2", "or grew by more than 2 %"),
    ("after.json --baseline before.json --tolerance ram=1", "reports of one model"),
    ("after --baseline before --junit growth.xml", "folders of reports, by name"),
)
# What --tolerance METRIC=PERCENT is for, as report/runs.py has them.
METRICS = {
    "ram": "bytes of RAM",
    "flash": "bytes of flash",
    "macs": "multiply-accumulates",
    "cycles": "cycles",
    "instructions": "instructions, loads and stores",
    "energy": "energy of the memories",
    "seconds": "times",
}


def tolerance(text: str) -> tuple[str, float]:
    """'2' or 'ram=2%' to a metric of METRICS, or "" for all, and a part."""
    metric, equals, part = text.rpartition("=")
    if equals and metric not in METRICS:
        hint = suggestion(metric, METRICS, "vmcu help check")
        raise argparse.ArgumentTypeError(
            f"there is no metric '{metric}', choose from {', '.join(METRICS)}{hint}"
        )
    return metric, percentage(part) / 100


def add(commands: options.Subparsers) -> argparse.ArgumentParser:
    check = commands.add_parser(
        "check",
        parents=[
            options.model_options(f".tflite or .onnx, or a bundle: a {REPORT} report or a folder")
        ],
        help="check limits on RAM, flash, cycles and growth",
        description="Exit 0: within all limits; 1: a limit is exceeded, or an error. A bundle is a "
        "file that `vmcu build --json`, `vmcu bench --json` or a benchmark's --write wrote, or a "
        "folder of them: figures of the same name in BEFORE and AFTER are compared.",
    )
    limits = titled(check, LIMITS)
    limits.add_argument("--max-ram", type=byte_count, metavar="SIZE", help="limit the pool")
    limits.add_argument(
        "--max-flash", type=byte_count, metavar="SIZE", help="limit weights and tables"
    )
    board_options(check, "--max-ram and --max-flash")
    limits.add_argument(
        "--max-cycles", type=count, metavar="N", help="limit the estimated cycles of an inference"
    )
    limits.add_argument(
        "--baseline",
        type=Path,
        metavar="BEFORE",
        help=f"fail if a figure grew since BEFORE: {WHAT}; for a bundle, another bundle",
    )
    limits.add_argument(
        "--tolerance",
        type=tolerance,
        action="append",
        default=[],
        metavar="[METRIC=]PERCENT",
        help="allow growth by PERCENT (default 0); METRIC: one of "
        + ", ".join(METRICS)
        + " (default: all but seconds, which may grow); repeatable",
    )
    output = titled(check, OUTPUT)
    output.add_argument("--junit", type=Path, metavar="FILE", help="write the limits as JUnit XML")
    output.add_argument("--markdown", type=Path, metavar="FILE", help="write them as Markdown")
    options.hop_option(check)
    options.name_option(check)
    options.json_option(check, "the report, which is the next baseline,")
    return check


def run(args: argparse.Namespace) -> int:
    allowed = dict(args.tolerance)
    if args.model.is_dir() or args.model.suffix == REPORT:
        return _bundle(args, allowed)
    return _model(args, allowed)


def _model(args: argparse.Namespace, allowed: Mapping[str, float]) -> int:
    from ..report import checks, sheet
    from ..report.difference import difference, print_difference
    from ..report.terminal import console, say, write_json
    from .sheets import report_of
    from .sheets import sheet as sheet_of

    ram, flash = (None, None) if args.board is None else left_on_board(args)
    most = {
        "pool_bytes": args.max_ram or ram,
        "flash_bytes": args.max_flash or flash,
        "cycles": args.max_cycles,
    }
    if args.baseline is None and all(limit is None for limit in most.values()):
        reason, remedy = (
            "no limit is given",
            "name --max-ram, --max-flash, ... or --baseline",
        )
        raise UserError(Problem(reason, remedy, str(args.model)))
    before = None if args.baseline is None else sheet_of(args, args.baseline)
    report = report_of(args)
    now = sheet.of_report(report)
    against = None if before is None else difference(before, now)
    checked = checks.limits(now, most, against, allowed)
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


def _bundle(args: argparse.Namespace, allowed: Mapping[str, float]) -> int:
    usual = {**vars(options.model_options().parse_args(["model"])), "name": None, "hop": 0}
    usual |= dict.fromkeys(
        ("state", "time", "max_ram", "max_flash", "max_cycles", "markdown", "board")
    )
    del usual["model"]
    reason = "{} requires a model, not a bundle of figures"
    remedy = "leave it out; limit growth with --tolerance"
    options.refuse_with(options.changed(args, usual), reason, remedy, args.model)
    if args.baseline is None:
        reason = "a bundle of figures requires a baseline"
        raise UserError(Problem(reason, "name it with --baseline", str(args.model)))
    return growth(args, args.baseline, args.model, allowed)


def growth(
    args: argparse.Namespace, before: Path, after: Path, allowed: Mapping[str, float]
) -> int:
    """Two bundles. allowed: the part by which figures of a metric, or of ALL, may grow."""
    from ..report.checks import junit
    from ..report.growth import compared, print_growth
    from ..report.runs import ALL, KINDS
    from ..report.terminal import console, write_json

    usual = {kind: None if part is None else allowed.get(ALL, part) for kind, part in KINDS.items()}
    comparison = compared(before, after, usual | {k: p for k, p in allowed.items() if k != ALL})
    print_growth(comparison, console())
    write_json(asdict(comparison), args.json)
    if args.junit:
        judged = [one for one in comparison.changes if one.most is not None]
        args.junit.write_bytes(junit(args.command, after.stem, judged))
    return EXIT_PROBLEM if comparison.beyond else EXIT_DONE
