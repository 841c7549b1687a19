# SPDX-License-Identifier: Apache-2.0
"""`vmcu verify`: every byte against the runtime that the model was made for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import Problem, UserError
from ..exits import EXIT_DONE, EXIT_PROBLEM
from .options import (
    RUNNABLE,
    Subparsers,
    count,
    hop_option,
    is_container,
    model_options,
    target_options,
)

if TYPE_CHECKING:
    from ..plan.plan import Plan


def add(commands: Subparsers) -> argparse.ArgumentParser:
    verify = commands.add_parser(
        "verify",
        parents=[model_options(RUNNABLE), target_options()],
        help="compare with TFLite Micro or ONNX Runtime, byte by byte",
        description="Compares the target's bytes with the graph's meaning, that with the runtime's "
        "tensors node by node, and the outputs with the runtime's for inputs in the file's form. "
        "Exit 1 where something differs by more than doc/models.md allows. A container, FILE.vmcu, "
        "names no runtime: the outputs of the target that loads it are compared with those of its "
        "own tables, read back and compiled in, on this computer. That the tables are the model's "
        "is proven when it is built.",
    )
    verify.add_argument(
        "-n",
        "--samples",
        type=count,
        default=20,
        help="random inputs; with --hop so many hops of one stream, each compared with the runtime "
        "on the whole window, or, of a file that keeps its state, call by call (default 20)",
    )
    verify.add_argument(
        "--structured", type=count, default=5, help="constant and patterned inputs, 0-5 (default 5)"
    )
    hop_option(verify)
    verify.add_argument("--seed", type=count, default=0, help="of the random inputs (default 0)")
    return verify


def run(args: argparse.Namespace) -> int:
    from ..report.terminal import console
    from ..report.verification import print_verification

    if args.samples + args.structured == 0:
        raise UserError(Problem("no input to compare", "give some with -n", str(args.model)))
    if is_container(args.model):
        return _container(args)
    from .. import runners
    from ..verify.verify import verify
    from .models import compiled

    plan = compiled(args)
    if plan.graph.hop:
        return _stream(args, plan)
    target = args.on or runners.VIRTUAL
    outcome = verify(plan, target, args.samples, args.structured, args.seed)
    print_verification(outcome, console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM


def _stream(args: argparse.Namespace, plan: Plan) -> int:
    from .. import runners
    from ..report.streams import print_verified
    from ..report.terminal import console
    from ..verify.stream import verify

    outcome = verify(plan, args.on or runners.HOST, args.samples, args.seed)
    print_verified(outcome, console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM


def _container(args: argparse.Namespace) -> int:
    from ..verify.container import verify, verify_stream
    from .containers import opened, target_of

    container, target = opened(args), target_of(args.on)
    if container.outline.graph.hop:
        results = verify_stream(container, target, args.samples, args.seed)
    else:
        results = verify(container, target, args.samples, args.structured, args.seed)
    for result in results:
        state = f"{result.differing} differ" if result.differing else "all equal"
        print(f"output {result.name}: {result.bytes:,} bytes, {state}")
    passed = bool(results) and not any(result.differing for result in results)
    said = "passed" if passed else "FAILED"
    print(f"{args.model}: {container.name} on {target.name}: {said}")
    return EXIT_DONE if passed else EXIT_PROBLEM
