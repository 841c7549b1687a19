# SPDX-License-Identifier: Apache-2.0
"""`vmcu verify`: every byte against the runtime that the model was made for."""

from __future__ import annotations

import argparse

from .options import EXIT_DONE, EXIT_PROBLEM, Subparsers, count, model_options, target_options


def add(commands: Subparsers) -> argparse.ArgumentParser:
    verify = commands.add_parser(
        "verify",
        parents=[model_options(), target_options()],
        help="compare with TFLite Micro or ONNX Runtime, byte by byte",
        description="Compares the target's bytes with the graph's meaning, that with the runtime's "
        "tensors node by node, and the outputs with the runtime's for inputs in the file's form. "
        "Exit 1 where something differs by more than doc/models.md allows.",
    )
    verify.add_argument(
        "-n", "--samples", type=count, default=20, help="random inputs (default 20)"
    )
    verify.add_argument(
        "--structured", type=count, default=5, help="constant and patterned inputs, 0-5 (default 5)"
    )
    verify.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")
    return verify


def run(args: argparse.Namespace) -> int:
    from ..report.terminal import console
    from ..report.text import print_verification
    from ..verify.verify import verify
    from .models import compiled

    outcome = verify(compiled(args), args.on, args.samples, args.structured, args.seed)
    print_verification(outcome, console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM
