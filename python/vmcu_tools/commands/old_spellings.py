# SPDX-License-Identifier: Apache-2.0
"""Old spellings, which work until version 0.3: delete this file and its calls in cli.py then. Each
call prints a note on standard error."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from . import check, compare, completion, inspect, place, wear
from .options import Subparsers, json_option, planner_options
from .sheets import WHAT
from .values import percentage, seconds


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


# Old options by command, "" for all: a pattern of the value, empty if there is none, and what the
# option is now, with {} for the value; empty if it has no effect.
OPTIONS = (
    ("build", "--flash", ".+", "--flash-bus {}"),
    ("bench", "--flash", ".+", "--flash-bus {}"),
    ("run", "--board", ".+", "--on zephyr:{}"),
    ("verify", "--board", ".+", "--on zephyr:{}"),
    ("bench", "--board", r"(qemu|native)_\S+", "--on zephyr:{}"),
    ("train-head", "--rate", ".+", "--learning-rate {}"),
    ("quantize", "--layers", ".+", "--all"),
    ("inspect", "--markdown", "", "--markdown -"),
    ("", "--input", "elsewhere", "--external-input"),
    ("", "--solver-seconds", ".+", ""),
)


def rewritten(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """A call in today's spellings, and what to tell of the old ones in it."""
    found: list[str] = []
    notes: list[str] = []
    number = 0
    while number < len(words) and words[number] != "--":
        option, is_joined, value = words[number].partition("=")
        after = words[number + 1 : number + 2]
        if not is_joined and after and (after == ["-"] or not after[0].startswith("-")):
            value = after[0]
        for command, old, pattern, template in OPTIONS:
            if command in ("", words[0]) and old == option and re.fullmatch(pattern, value):
                found += [part.format(value) for part in template.split()]
                now = template.format(value)
                was = f"{old} {value}".rstrip()
                notes.append(f"'{was}' is now '{now}'" if now else f"'{was}' has no effect")
                number += 1 if is_joined or not value else 2
                break
        else:
            found.append(words[number])
            number += 1
    return [*found, *words[number:]], notes


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
    ops.add_argument("--markdown", action="store_const", const=Path("-"), help="print Markdown")
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
