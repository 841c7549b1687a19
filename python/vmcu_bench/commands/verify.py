# SPDX-License-Identifier: Apache-2.0
"""`vmcu verify`: every byte against the runtime that the model was made for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vmcu_tools.commands import options
from vmcu_tools.commands.parser import MACHINE, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE, EXIT_PROBLEM
from vmcu_tools.values import count, is_container

if TYPE_CHECKING:
    from vmcu_tools.plan.plan import Plan


EXAMPLES = (
    ("model.onnx", "tensor by tensor, on this computer"),
    ("model.tflite --on qemu:m4 -n 5", "on an emulated Cortex-M4, five inputs"),
    ("kws.vmcu", "a container, against its own tables"),
    ("model.tflite --board nucleo_f411re --serial /dev/ttyACM0", "layer by layer on a board"),
)


def add(commands: options.Subparsers) -> argparse.ArgumentParser:
    verify = commands.add_parser(
        "verify",
        parents=[options.model_options(options.RUNNABLE)],
        help="compare a model with TFLite Micro or ONNX Runtime",
        description="Runs random and patterned inputs and compares each tensor with the file's own "
        "runtime: TensorFlow Lite Micro for .tflite, ONNX Runtime for .onnx. Exit 1 if a tensor "
        "differs by more than `vmcu help models.md` allows. A container has no such runtime: "
        "vmcu compares the loaded container with its tables, compiled on this computer.",
    )
    options.target_options(verify)
    where = titled(verify, MACHINE)
    where.add_argument(
        "--board",
        metavar="BOARD",
        help="with --serial: build a Zephyr application for this board and flash it (default: the "
        "firmware that runs there serves a probe, see vmcu/probe.h)",
    )
    where.add_argument(
        "--serial",
        metavar="PORT",
        help="compare each layer on the board at this serial port, and name the first wrong byte; "
        "`emulated`: at the UART of --on qemu:m4 or the like",
    )
    where.add_argument(
        "--data",
        type=Path,
        metavar="FILE.npz",
        help="with --serial: print the accuracy on labelled inputs: an array (N, ...) for each "
        "input, and N integers `labels`",
    )
    samples = titled(verify, "samples")
    samples.add_argument(
        "-n",
        "--samples",
        type=count,
        default=20,
        metavar="N",
        help="N random inputs and up to five patterned ones (default 20); with --hop, hops of one "
        "stream, each compared with the whole window",
    )
    options.seed_option(samples, "random inputs")
    options.hop_option(verify)
    return verify


def run(args: argparse.Namespace) -> int:
    from vmcu_tools.report.terminal import console

    from ..report.verification import print_verification

    if args.samples == 0:
        raise UserError(
            Problem("no input to compare", "give at least one with -n", str(args.model))
        )
    if args.serial is not None:
        return _serial(args)
    unused = {"--board": args.board is not None, "--data": args.data is not None}
    options.refuse_with(
        unused, "{} requires --serial", "add --serial PORT, or leave it out", args.model
    )
    if is_container(args.model):
        return _container(args)
    from vmcu_tools.commands.models import compiled

    from .. import runners
    from ..verify.verify import verify

    plan = compiled(args)
    if plan.graph.state.step_rows:
        return _stream(args, plan)
    target = args.on or runners.VIRTUAL
    outcome = verify(plan, target, args.samples, args.samples, args.seed)
    print_verification(outcome, console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM


def _serial(args: argparse.Namespace) -> int:
    """Compares layers over a serial port. Raises UserError for options that do not go together."""
    from vmcu_tools.commands.models import compiled
    from vmcu_tools.report.terminal import console

    from ..report.board import print_accuracy, print_board
    from ..verify import board

    if is_container(args.model):
        reason = "--serial does not support containers"
        raise UserError(Problem(reason, "give the model that it was built from", str(args.model)))
    if args.serial == board.EMULATED and args.on is None:
        reason = f"--serial {board.EMULATED} requires a machine that is emulated"
        raise UserError(Problem(reason, "add --on qemu:m4", str(args.model)))
    target = f"{board.ZEPHYR}{args.board}" if args.board else args.on
    plan = compiled(args)
    with board.firmware_of(plan, target, args.serial) as firmware:
        if args.data is not None:
            print_accuracy(board.accuracy(plan, firmware, args.data), console())
            return EXIT_DONE
        where = target or args.serial
        outcome = board.verify(plan, firmware, where, args.samples, args.samples, args.seed)
    print_board(outcome, console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM


def _stream(args: argparse.Namespace, plan: Plan) -> int:
    from vmcu_tools.report.terminal import console

    from .. import runners
    from ..report.streams import print_verified
    from ..verify.stream import verify

    outcome = verify(plan, args.on or runners.HOST, args.samples, args.seed)
    print_verified(outcome, console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM


def _container(args: argparse.Namespace) -> int:
    from ..verify.container import verify, verify_stream
    from .containers import opened, target_of

    container = opened(args)
    target = target_of(args.on, container, args.model)
    if container.outline.graph.state.step_rows:
        results = verify_stream(container, target, args.samples, args.seed)
    else:
        results = verify(container, target, args.samples, args.samples, args.seed)
    for result in results:
        claim = f"matches the reference ({result.bytes:,} bytes)"
        if result.differing:
            claim = f"differs from the reference in {result.differing:,} of {result.bytes:,} bytes"
        print(f"output {result.name} {claim}")
    passed = bool(results) and not any(result.differing for result in results)
    said = "PASSED" if passed else "FAILED"
    print(f"{args.model}: {container.name} on {target.name}: {said}")
    return EXIT_DONE if passed else EXIT_PROBLEM
