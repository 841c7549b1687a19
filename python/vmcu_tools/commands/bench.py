# SPDX-License-Identifier: Apache-2.0
"""`vmcu bench`: instructions, loads and stores, counted, and cycles by rules."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import Problem, UserError
from .options import EXIT_DONE, Subparsers, count, int8_model, json_option, planner_options


def add(commands: Subparsers) -> argparse.ArgumentParser:
    bench = commands.add_parser(
        "bench",
        parents=[planner_options()],
        help="count instructions, loads, stores and cycles on an emulated board, layer by layer",
    )
    int8_model(bench, "single kernels, beside CMSIS-NN's figures")
    bench.add_argument(
        "--on",
        default="qemu:m4",
        metavar="TARGET",
        help="qemu:m3, qemu:m4, qemu:m4-64k, qemu:m7, qemu:m33 (default qemu:m4)",
    )
    bench.add_argument(
        "--flash-wait",
        type=count,
        metavar="N",
        help="add what flash with N wait states behind small caches costs, by a model",
    )
    bench.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the image that was counted in DIR"
    )
    json_option(bench)
    return bench


def run(args: argparse.Namespace) -> int:
    from ..bench import kernels, model
    from ..report import costs
    from ..report.terminal import console, write_json
    from .models import compiled, name_of

    if args.model is None:
        if args.flash_wait is not None or args.keep is not None:
            raise UserError(Problem("--flash-wait and --keep are of a model", "name one"))
        results = kernels.bench_kernels(args.on, args.planner, args.target)
        costs.print_kernels(results, console())
        figures: object = {"kernels": [asdict(result) for result in results]}
    else:
        model.board(args.on)
        plan, name = compiled(args), name_of(args.model)
        report = model.bench(plan, name, args.on, flash_waits=args.flash_wait, keep=args.keep)
        costs.print_bench(report, console())
        figures = asdict(report)
    write_json(figures, args.json)
    return EXIT_DONE
