# SPDX-License-Identifier: Apache-2.0
"""`vmcu inspect`: the contents of a model or of a linked image, and the supported operators."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from vmcu_tools.commands.options import Subparsers, json_option, name_option
from vmcu_tools.commands.parser import OUTPUT, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE

EXAMPLES = (
    ("model.tflite", "operators, supported or not"),
    ("build/zephyr/zephyr.elf", "RAM, flash and stack of each model in an image"),
    ("--operators", "operators that vmcu supports"),
)
# How a linked image begins.
ELF = b"\x7fELF"


def add(commands: Subparsers) -> argparse.ArgumentParser:
    inspect = commands.add_parser(
        "inspect",
        help="list the contents of a model or an ELF image",
        description="Of a model: operators, shapes, quantisation, MACs and what vmcu does not "
        "support. Of an ELF image: RAM, flash and stack of each model and of the runtime.",
    )
    inspect.add_argument(
        "model",
        type=Path,
        metavar="FILE",
        nargs="?",
        help=".tflite or .onnx, or a linked image, such as build/zephyr/zephyr.elf",
    )
    inspect.add_argument(
        "--operators", action="store_true", help="list the operators that vmcu supports, by format"
    )
    name_option(inspect)
    output = titled(inspect, OUTPUT)
    output.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="with --operators: write them and their constraints as Markdown",
    )
    json_option(inspect)
    return inspect


def run(args: argparse.Namespace) -> int:
    if args.operators and args.model is not None:
        raise UserError(
            Problem("--operators cannot be combined with a file", "leave out one of the two")
        )
    if args.operators:
        return operators(args)
    if args.model is None:
        raise UserError(Problem("there is no file to inspect", "name one, or give --operators"))
    if args.markdown:
        raise UserError(Problem("--markdown requires --operators", "leave it out", str(args.model)))
    return image(args) if is_elf(args.model) else contents(args)


def is_elf(path: Path) -> bool:
    """True for a file that begins as linked images do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(ELF)) == ELF


def contents(args: argparse.Namespace) -> int:
    """A model file."""
    from vmcu_tools.model_file import name_of
    from vmcu_tools.report.inspection import inspect
    from vmcu_tools.report.models import print_inspection
    from vmcu_tools.report.terminal import console, write_json

    inspection = inspect(args.model, args.name or name_of(args.model))
    print_inspection(inspection, console())
    write_json(asdict(inspection), args.json)
    if inspection.problems:
        raise UserError(*inspection.problems)
    return EXIT_DONE


def image(args: argparse.Namespace) -> int:
    """A linked image."""
    from vmcu_tools.report.terminal import console, write_json

    from ..image.size import size
    from ..report.costs import print_size

    report = size(args.model)
    print_size(report, console())
    write_json(asdict(report), args.json)
    return EXIT_DONE


def operators(args: argparse.Namespace) -> int:
    """The operators that models may have."""
    from vmcu_tools.report.inspection import coverage, markdown
    from vmcu_tools.report.models import print_coverage
    from vmcu_tools.report.terminal import console, write_json, write_text

    entries = coverage()
    if args.markdown:
        write_text(markdown(entries), args.markdown)
    else:
        print_coverage(entries, console())
    write_json([asdict(entry) for entry in entries], args.json)
    return EXIT_DONE
