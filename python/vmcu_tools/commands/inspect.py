# SPDX-License-Identifier: Apache-2.0
"""`vmcu inspect`: what is in a model file."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import UserError
from ..exits import EXIT_DONE
from .options import Subparsers, json_option, name_option


def add(commands: Subparsers) -> argparse.ArgumentParser:
    inspect = commands.add_parser(
        "inspect", help="what is in a model: operators, shapes, quantisation, MACs, what is missing"
    )
    inspect.add_argument("model", type=Path, metavar="MODEL", help=".tflite or .onnx")
    name_option(inspect)
    json_option(inspect, "the same")
    return inspect


def run(args: argparse.Namespace) -> int:
    from ..report.inspection import inspect
    from ..report.models import print_inspection
    from ..report.terminal import console, write_json
    from .models import name_of

    found = inspect(args.model, args.name or name_of(args.model))
    print_inspection(found, console())
    write_json(asdict(found), args.json)
    if found.problems:
        raise UserError(*found.problems)
    return EXIT_DONE
