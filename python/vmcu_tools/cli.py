# SPDX-License-Identifier: Apache-2.0
"""The commands: `python -m vmcu_tools`, `vmcu` and `west vmcu` all come in here."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import __version__, paths
from .commands import (
    audio,
    bench,
    boards,
    build,
    check,
    compare,
    compare_runs,
    completion,
    container,
    diff,
    fit,
    inspect,
    new,
    ops,
    place,
    plan_tflite,
    quantize,
    run,
    size,
    verify,
    wear,
)
from .commands.examples import show_examples
from .commands.options import quiet_option
from .errors import PlanError, Problem, UserError
from .exits import EXIT_INTERRUPTED, EXIT_PROBLEM

# In the order of `vmcu --help`.
COMMANDS = (
    *(build, fit, check, diff, compare, compare_runs, verify, run, bench, size, boards),
    *(container, place, plan_tflite, inspect, new, ops, quantize, audio, wear, completion),
)


# What a command writes, by the names of its options.
_WRITTEN = ("output", "json", "html", "svg", "png", "junit", "markdown")


class _Root(argparse.Action):
    """Prints where the C runtime is, as --version prints the version."""

    def __init__(self, option_strings: list[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        try:
            print(paths.root())
        except UserError as error:
            parser.exit(EXIT_PROBLEM, f"vmcu: {error}\n")
        parser.exit()


def parser(prog: str = "vmcu") -> argparse.ArgumentParser:
    """All commands with their options; `action` of what is parsed does what is asked for. prog:
    what they are called by."""
    top = argparse.ArgumentParser(
        prog=prog,
        description="Compiles int8 neural networks (.tflite, .onnx) to const C tables that run in "
        "one circular pool of RAM.",
        epilog="Exit: 0 done, 1 something to change in the model or the call, 2 usage, "
        "130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"vmcu {__version__}")
    top.add_argument(
        "--root",
        action=_Root,
        help="print the folder with the C runtime, the Zephyr module and, in cmake, the package "
        "that find_package(vmcu) takes",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        one = command.add(commands)
        quiet_option(one)
        show_examples(one, one.prog.removeprefix(prog).strip())
        one.set_defaults(action=command.run)
    return top


def _check_written(args: argparse.Namespace) -> None:
    """UserError where a file that is read would be written over, or one would be written twice."""
    named: dict[str, str] = {}
    for option, values in sorted(vars(args).items(), key=lambda item: item[0] in _WRITTEN):
        for path in values if isinstance(values, list | tuple) else [values]:
            if not isinstance(path, Path) or path == Path("-") or path.is_dir():
                continue
            before = named.setdefault(os.path.realpath(path), option)
            if option in _WRITTEN and before != option:
                how = "written twice" if before in _WRITTEN else "read, and written over"
                remedy = f"name another file to write, not '{path}'"
                raise UserError(Problem(f"the file would be {how}", remedy, str(path)))


@contextlib.contextmanager
def _reports_of(args: argparse.Namespace) -> Iterator[None]:
    """Keeps what is for people off standard output where that is JSON's, and away where --quiet
    says so."""
    if args.quiet:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    elif str(getattr(args, "json", None)) == "-":
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def main(argv: list[str] | None = None, prog: str = "vmcu", begun: float | None = None) -> int:
    """Runs one command; returns its exit code. Problems go to stderr, one message. begun: when the
    command began, of time.monotonic(), now if None."""
    begun = time.monotonic() if begun is None else begun
    try:
        args = parser(prog).parse_args(argv, argparse.Namespace(begun=begun))
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        _check_written(args)
        with _reports_of(args):
            found: int = args.action(args)
            return found
    except UserError as error:
        print(f"vmcu {args.command}: {error}", file=sys.stderr)
    except PlanError as error:
        remedy = (
            "This is a defect of vmcu: report it with the model. Other options may do meanwhile."
        )
        problem = Problem(f"the proof refuses the plan, nothing is written: {error}", remedy)
        print(f"vmcu {args.command}: {problem}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        problem = Problem(error.strerror or str(error), file=str(error.filename or ""))
        print(f"vmcu {args.command}: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"vmcu {args.command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_PROBLEM
