# SPDX-License-Identifier: Apache-2.0
"""Options of `vmcu wear`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

Subparsers = argparse._SubParsersAction  # argparse gives it no public name

ENDURANCE = 100_000_000
INFERENCES = 1_000_000


def whole(text: str) -> int:
    """'1000', '1e8' to a positive count."""
    value = positive(text)
    if value != int(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a count")
    return int(value)


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return value


def alignment(text: str) -> int:
    value = whole(text)
    if value < 4 or value & (value - 1):
        raise argparse.ArgumentTypeError(f"'{text}' is not a power of two from 4 on")
    return value


def add_wear(commands: Subparsers, planner: argparse.ArgumentParser) -> None:
    wear = commands.add_parser(
        "wear",
        parents=[planner],
        help="where writes go in a memory that wears out, and how long it lasts",
        description="With a model: writes to everything that an inference writes, and how long the "
        "memory lasts. Without: stacks that move, in the setting of the paper on task stack "
        "migration.",
    )
    wear.add_argument(
        "model", type=Path, nargs="?", metavar="MODEL", help="int8 model, .tflite or .onnx"
    )
    wear.add_argument(
        "--endurance",
        type=whole,
        default=ENDURANCE,
        metavar="N",
        help=f"writes that a cell survives (default {ENDURANCE:.0e})",
    )
    wear.add_argument(
        "--rate",
        type=positive,
        default=1.0,
        metavar="HZ",
        help="inferences, or jobs, in a second (default 1)",
    )
    wear.add_argument(
        "--inferences",
        type=whole,
        default=INFERENCES,
        metavar="N",
        help=f"of the model, for the figures of its pool (default {INFERENCES:.0e})",
    )
    wear.add_argument(
        "--align",
        type=alignment,
        metavar="BYTES",
        help="between places of a stack, and between origins of a pool built without --rotate "
        "(default 4; 8 for a model's stack, as CONFIG_VMCU_STACK_MIGRATION has it)",
    )
    wear.add_argument(
        "--on",
        default="qemu:m4",
        metavar="TARGET",
        help="where the model's writes are counted: qemu:m3, qemu:m4, qemu:m7 (everything, store "
        "by store), or virtual (the pool, from the plan; no years) (default qemu:m4)",
    )
    wear.add_argument("--seed", type=int, default=0, help="of the random strides (default 0)")
    wear.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    wear.add_argument(
        "--pictures", type=Path, metavar="DIR", help="write heat maps here, .png and .svg"
    )
