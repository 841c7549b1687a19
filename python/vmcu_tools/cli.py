# SPDX-License-Identifier: Apache-2.0
"""The commands: `python -m vmcu_tools`, `vmcu` and `west vmcu` all come in here."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from . import __version__, paths
from .commands import completion, needs, old_spellings
from .commands.options import Subparsers, quiet_option
from .commands.parser import Parser
from .errors import PlanError, Problem, UserError
from .exits import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PROBLEM


class Command(Protocol):
    """A module of commands/. One without EXAMPLES, see parser.Examples, shows none."""

    def add(self, commands: Subparsers) -> argparse.ArgumentParser: ...

    def run(self, args: argparse.Namespace) -> int: ...


# Modules by the package that has them, in the order of `vmcu --help`.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Build": (
        *(f"vmcu_tools.{n}" for n in ("build", "quantize", "train_head", "audio", "new")),
        "vmcu_split.split",
    ),
    "Run": ("vmcu_bench.run", "vmcu_bench.verify", "vmcu_bench.bench"),
    "Check": (
        "vmcu_bench.fit",
        "vmcu_tools.check",
        "vmcu_bench.check_image",
        "vmcu_bench.evidence",
        "vmcu_bench.inspect",
    ),
    "Analyse": ("vmcu_lab.compare", "vmcu_lab.place", "vmcu_lab.check_plan"),
    "Manage": ("vmcu_tools.container", "vmcu_tools.boards"),
}
HELP = "help"


def name_of(command: str) -> str:
    """Returns the name by which a command of GROUPS is called."""
    return command.rpartition(".")[2].replace("_", "-")


def commands_of(group: str, only: str = "") -> list[Command]:
    """Those of a group whose package is there; only: that of this name alone."""
    return [
        cast(Command, importlib.import_module(".commands.".join(command.split("."))))
        for command in GROUPS[group]
        if only in ("", name_of(command)) and _package(command)
    ]


def _package(command: str) -> bool:
    return importlib.util.find_spec(command.partition(".")[0]) is not None


# The files of a command, by the names of its options.
_WRITTEN = ("output", "json", "html", "picture", "junit", "markdown", "report")


class _Print(argparse.Action):
    """Prints a text instead of running a command, as --version prints the version."""

    def __call__(
        self, parser: argparse.ArgumentParser, args: argparse.Namespace, values: Any, *_: object
    ) -> None:
        try:
            print(self.const(*([values] if values else [])))
        except UserError as error:
            parser.exit(EXIT_PROBLEM, f"error: {error}\n")
        parser.exit()


class Top(Parser):
    """The parser of the program, which lists its commands in groups."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage("%(prog)s COMMAND [OPTION ...]", self._actions, [])
        formatter.add_text(self.description)
        (commands,) = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        listed = iter(commands._get_subactions())
        for title in GROUPS:
            formatter.start_section(title)
            formatter.add_arguments([next(listed) for _ in commands_of(title)])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([one for one in self._actions if one is not commands])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def parser(prog: str = "vmcu", only: str = "") -> Top:
    """Commands with their options; `action` of the parsed arguments runs the command. prog:
    their name; only: one of them, which is found without loading the others."""
    top = Top(
        prog=prog,
        description="Compiles int8 neural networks (.tflite, .onnx) to C tables that run in one "
        "circular pool of RAM.",
        epilog=f"`{prog} help COMMAND` shows options and examples. Exit codes: 0 done, 1 problem "
        "with the model or the call, 2 usage, 130 interrupted.",
    )
    top.add_argument("--version", action="version", version=f"vmcu {__version__}")
    top.add_argument(
        "--root",
        action=_Print,
        nargs=0,
        const=paths.root,
        help="print the folder of the C runtime and the Zephyr module; its cmake folder is for "
        "find_package(vmcu)",
    )
    top.add_argument(
        "--completion",
        action=_Print,
        choices=completion.SHELLS,
        const=completion.script,
        metavar="SHELL",
        help="print a completion script for bash, zsh or fish; bash: "
        f'eval "$({prog} --completion bash)"',
    )
    added = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=Parser
    )
    commands = cast(Subparsers, added)
    for command in (one for group in GROUPS for one in commands_of(group, only)):
        one = command.add(commands)
        assert isinstance(one, Parser)
        quiet_option(one)
        one.show_examples(getattr(command, "EXAMPLES", ()))
        one.set_defaults(action=command.run)
    shown = commands.add_parser(HELP, description="Prints the help of a command or a page of doc.")
    shown.add_argument("words", nargs="*", metavar="COMMAND", help="such as build or cycles.md")
    shown.set_defaults(action=_help_of(top), quiet=False)
    return top


def _help_of(top: Top) -> Any:
    def show(args: argparse.Namespace) -> int:
        parser: Parser = top
        page = paths.root() / "doc" / Path(*args.words[:1]).name
        if page.suffix == ".md" and page.is_file():
            print(page.read_text(encoding="utf-8"), end="")
            return EXIT_DONE
        for word in args.words:
            if word not in parser.commands():
                parser.unknown_command(word)
            parser = parser.commands()[word]
        print(parser.format_help(), end="")
        return EXIT_DONE

    return show


def _check_written(args: argparse.Namespace) -> None:
    """UserError where a file that is read would be written over, or one would be written twice."""
    named: dict[str, str] = {}
    for option, values in sorted(vars(args).items(), key=lambda item: item[0] in _WRITTEN):
        for path in values if isinstance(values, list | tuple) else [values]:
            if not isinstance(path, Path) or path == Path("-") or path.is_dir():
                continue
            before = named.setdefault(os.path.realpath(path), option)
            if option in _WRITTEN and before != option:
                how = (
                    "write this file twice"
                    if before in _WRITTEN
                    else "overwrite this file, which it reads"
                )
                remedy = f"name another file to write, not '{path}'"
                raise UserError(Problem(f"the command would {how}", remedy, str(path)))


@contextlib.contextmanager
def _reports_of(args: argparse.Namespace) -> Iterator[None]:
    """Keeps the text for people off standard output where that is JSON's, and away where --quiet
    says so."""
    if args.quiet:
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield
    elif str(getattr(args, "json", None)) == "-":
        with contextlib.redirect_stdout(sys.stderr):
            yield
    else:
        yield


def _complain(*problems: Problem) -> None:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)


def main(argv: list[str] | None = None, prog: str = "vmcu") -> int:
    """Runs one command; returns its exit code. Problems go to stderr, one message."""
    try:
        words, notes = old_spellings.rewritten(sys.argv[1:] if argv is None else argv)
        named = {name_of(command): command for group in GROUPS.values() for command in group}
        only = words[0] if words and words[0] in named else ""
        if only and not _package(named[only]):
            package = named[only].partition(".")[0]
            reason = f"the command '{only}' is in the package {package}, which is not installed"
            _complain(Problem(reason, "pip install vmcu-tools"))
            return EXIT_PROBLEM
        args = parser(prog, only).parse_args(words)
    except SystemExit as stop:
        return int(stop.code or 0)
    if not args.quiet:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
    try:
        _check_written(args)
        needs.check(args)
        with _reports_of(args):
            code: int = args.action(args)
            return code
    except SystemExit as stop:
        return int(stop.code or 0)
    except UserError as error:
        _complain(*error.problems)
    except PlanError as error:
        remedy = "this is a defect of vmcu: report it with the model"
        file = str(getattr(args, "model", None) or "")
        _complain(Problem(f"the proof refuses the plan, nothing is written: {error}", remedy, file))
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        _complain(Problem(reason, file=str(error.filename or "")))
    except KeyboardInterrupt:
        print(f"vmcu {args.command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_PROBLEM
