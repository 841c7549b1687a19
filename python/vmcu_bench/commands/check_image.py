# SPDX-License-Identifier: Apache-2.0
"""`vmcu check-image`: a linked image beside its model file, by a checker of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from vmcu_tools.commands.options import Subparsers, json_option
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.values import count

EXAMPLES = (
    ("build/zephyr/zephyr.elf", "the plan alone"),
    ("kws-m4/kws.elf --model kws.tflite", "and weights; of `vmcu bench --keep kws-m4`, runs too"),
)
INPUTS = 3


def add(commands: Subparsers) -> argparse.ArgumentParser:
    check = commands.add_parser(
        "check-image",
        help="check the plan and the weights in a linked image or a container",
        description="Reads the tables of compiled models from an ELF file or a container, replays "
        "each inference byte by byte, and compares the weights with the model file. The checker "
        "shares no code with the compiler. Exit 1 names the layer, the tensor and the byte. An "
        "image that `vmcu bench --keep` left also runs in QEMU beside the runtime of the file.",
    )
    check.add_argument(
        "elf", type=Path, metavar="ELF", help="linked image with symbols, or a container, .vmcu"
    )
    check.add_argument("--model", type=Path, metavar="FILE", help=".tflite or .onnx in the image")
    check.add_argument("--name", metavar="NAME", help="model in the image, such as kws")
    check.add_argument(
        "--inputs",
        type=count,
        default=INPUTS,
        metavar="N",
        help=f"inputs to run in QEMU (default {INPUTS}); 0: none",
    )
    json_option(check, "what was checked")
    return check


def run(args: argparse.Namespace) -> int:
    from vmcu_check.images.check import check
    from vmcu_check.images.elf import ImageError
    from vmcu_tools.report.terminal import console, say, write_json

    from .references import reference_of

    try:
        verdicts = check(args.elf, args.model, args.inputs, reference_of, args.name)
    except ImageError as error:
        raise UserError(Problem(str(error), error.hint, str(args.elf))) from error
    for one in verdicts:
        for line in one.lines():
            say(console(), line)
    write_json({"image": str(args.elf), "models": [vars(one) for one in verdicts]}, args.json)
    return EXIT_DONE
