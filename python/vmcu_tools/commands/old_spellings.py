# SPDX-License-Identifier: Apache-2.0
"""Spellings of version 0.1, which work until the next version: delete this file and its two calls
in cli.py with it. Each call prints a note on standard error."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from . import check, compare, completion, inspect, place, wear
from .options import Subparsers, json_option, planner_options
from .sheets import WHAT
from .values import percentage, seconds

ELSEWHERE = "elsewhere"
EXTERNAL_INPUT = "--external-input"


def add(commands: Subparsers) -> None:
    """Adds old commands. They have no help, so that `vmcu --help` does not list them."""
    for one, now in (
        (_diff(commands), "compare"),
        (_compare_runs(commands), "check AFTER --baseline BEFORE"),
        (_size(commands), "inspect"),
        (_ops(commands), "inspect --operators"),
        (_plan_tflite(commands), "place IN.tflite --output OUT.tflite"),
        (_wear(commands), "bench --wear"),
        (_completion(commands), "--completion SHELL"),
    ):
        one.add_argument("-q", "--quiet", action="store_true", help=argparse.SUPPRESS)
        one.set_defaults(now=now)


NAMES = ("diff", "compare-runs", "size", "ops", "plan-tflite", "wear", "completion")


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds old options to a command."""
    destinations = {action.dest for action in command._actions}
    if "external_input" in destinations and "input" not in destinations:
        command.add_argument(
            "--input", action=_Elsewhere, choices=(ELSEWHERE,), help=argparse.SUPPRESS
        )
    if "plan_seconds" in destinations:
        command.add_argument(
            "--solver-seconds", type=seconds, dest="old_solver_seconds", help=argparse.SUPPRESS
        )


class _Elsewhere(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, args: argparse.Namespace, *_: Any) -> None:
        args.external_input, args.old_input = True, True


def notes(args: argparse.Namespace) -> list[str]:
    """What to tell of the old spellings that a command was given; a word among the files of
    `vmcu run --input` becomes the option that it is now."""
    found = [f"'vmcu {args.command}' is now 'vmcu {args.now}'"] if hasattr(args, "now") else []
    files = getattr(args, "input", None)
    if isinstance(files, list) and Path(ELSEWHERE) in files:
        args.input = [path for path in files if path != Path(ELSEWHERE)]
        args.external_input = args.old_input = True
    if getattr(args, "old_input", False):
        found.append(f"'--input {ELSEWHERE}' is now '{EXTERNAL_INPUT}'")
    if getattr(args, "old_solver_seconds", None) is not None:
        found.append("'--solver-seconds' has no effect: no plan needs a solver")
    return found


def _diff(commands: Subparsers) -> argparse.ArgumentParser:
    diff = commands.add_parser("diff", parents=[planner_options()])
    diff.add_argument("model", type=Path, metavar="A", help=WHAT)
    diff.add_argument("after", type=Path, metavar="B", help=WHAT)
    compare.add_options(diff)
    diff.set_defaults(action=compare.differences)
    return diff


def _compare_runs(commands: Subparsers) -> argparse.ArgumentParser:
    runs = commands.add_parser("compare-runs")
    runs.add_argument("before", type=Path, metavar="A", help="bundle of figures")
    runs.add_argument("after", type=Path, metavar="B", help="bundle of figures")
    for metric, what in check.METRICS.items():
        option = f"--max-{metric}"
        runs.add_argument(option, type=percentage, metavar="PERCENT", help=f"growth of {what}")
    runs.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    json_option(runs)
    runs.set_defaults(action=_growth)
    return runs


def _growth(args: argparse.Namespace) -> int:
    given = {metric: getattr(args, f"max_{metric}") for metric in check.METRICS}
    allowed = {metric: float(part) for metric, part in given.items() if part is not None}
    return check.growth(args, args.before, args.after, allowed)


def _size(commands: Subparsers) -> argparse.ArgumentParser:
    size = commands.add_parser("size")
    size.add_argument("model", type=Path, metavar="ELF", help="linked image")
    json_option(size)
    size.set_defaults(action=inspect.image)
    return size


def _ops(commands: Subparsers) -> argparse.ArgumentParser:
    ops = commands.add_parser("ops")
    json_option(ops)
    ops.add_argument("--markdown", action="store_true", help="print Markdown")
    ops.set_defaults(action=inspect.operators)
    return ops


def _plan_tflite(commands: Subparsers) -> argparse.ArgumentParser:
    plan = commands.add_parser("plan-tflite")
    plan.add_argument("problem", type=Path, metavar="IN.tflite")
    plan.add_argument("output", type=Path, metavar="OUT.tflite")
    plan.add_argument("--seconds", type=seconds, help="limit of the search")
    plan.set_defaults(action=place.tflite)
    return plan


def _wear(commands: Subparsers) -> argparse.ArgumentParser:
    old = commands.add_parser("wear", parents=[planner_options()])
    old.add_argument("model", type=Path, nargs="?", metavar="MODEL", help=".tflite or .onnx")
    wear.options(old)
    old.add_argument("--on", default=wear.DEFAULT, metavar="MACHINE", help="where writes count")
    json_option(old)
    old.set_defaults(action=wear.run)
    return old


def _completion(commands: Subparsers) -> argparse.ArgumentParser:
    old = commands.add_parser("completion")
    old.add_argument("shell", choices=completion.SHELLS)
    old.set_defaults(action=_print_completion)
    return old


def _print_completion(args: argparse.Namespace) -> int:
    print(completion.script(args.shell))
    return 0
