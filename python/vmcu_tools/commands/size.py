# SPDX-License-Identifier: Apache-2.0
"""`vmcu size`: what a linked image holds."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..exits import EXIT_DONE
from .options import Subparsers, json_option


def add(commands: Subparsers) -> argparse.ArgumentParser:
    size = commands.add_parser("size", help="what models and the runtime cost in a linked image")
    size.add_argument("elf", type=Path, metavar="ELF", help="such as build/zephyr/zephyr.elf")
    json_option(size)
    return size


def run(args: argparse.Namespace) -> int:
    from ..image.size import size
    from ..report.costs import print_size
    from ..report.terminal import console, write_json

    report = size(args.elf)
    print_size(report, console())
    write_json(asdict(report), args.json)
    return EXIT_DONE
