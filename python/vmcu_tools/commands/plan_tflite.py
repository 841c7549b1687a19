# SPDX-License-Identifier: Apache-2.0
"""`vmcu plan-tflite`: a memory plan for TensorFlow Lite Micro, in the model's own file."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..exits import EXIT_DONE
from .options import Subparsers, seconds


def add(commands: Subparsers) -> argparse.ArgumentParser:
    plan = commands.add_parser(
        "plan-tflite",
        help="write a memory plan for TensorFlow Lite Micro into a .tflite file",
        description="Finds the best order of a model's operators and the lowest placement of its "
        "tensors as TensorFlow Lite Micro has them, whole and at multiples of 16 bytes, and writes "
        "both into the file (OfflineMemoryAllocation). Its interpreter follows that plan; outputs "
        "stay the same.",
    )
    plan.add_argument("model", type=Path, metavar="IN.tflite")
    plan.add_argument("output", type=Path, metavar="OUT.tflite")
    plan.add_argument(
        "--seconds", type=seconds, default=20.0, help="to search for places at most (default 20)"
    )
    return plan


def run(args: argparse.Namespace) -> int:
    from ..oracle import offline

    plan = offline.plan(args.model, args.seconds)
    args.output.write_bytes(offline.written(args.model, plan))
    known = "no order and placement needs less"
    if plan.height > plan.bound:
        known = f"none needs less than {plan.bound:,}"
    moved = "" if list(plan.order) == sorted(plan.order) else ", operators in another order"
    print(f"wrote {args.output}: tensors take {plan.height:,} bytes of the arena, {known}{moved}")
    return EXIT_DONE
