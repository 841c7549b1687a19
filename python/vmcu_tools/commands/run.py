# SPDX-License-Identifier: Apache-2.0
"""`vmcu run`: a model on given inputs."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import Problem, UserError
from .options import ELSEWHERE, EXIT_DONE, Subparsers, model_options, target_options


def add(commands: Subparsers) -> argparse.ArgumentParser:
    run = commands.add_parser(
        "run",
        parents=[model_options(), target_options()],
        help="run a model on given inputs",
        # Its own --input takes files besides the word that the planner's takes.
        conflict_handler="resolve",
    )
    run.add_argument(
        "--input",
        type=Path,
        action="append",
        required=True,
        metavar="X.npy",
        help="int8, or real values to quantise; once per model input, in order; the word "
        f"'{ELSEWHERE}' besides: it is read where it lies, see `vmcu build --help`",
    )
    run.add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="Y.npy",
        help="once per model output, in order (default: print them)",
    )
    return run


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from .. import runners
    from ..runners.borders import read_input, to_file
    from .models import compiled

    files = [path for path in args.input if str(path) != ELSEWHERE]
    args.input = ELSEWHERE if len(files) < len(args.input) else None
    plan = compiled(args)
    graph = plan.graph
    if len(files) != len(graph.inputs):
        raise UserError(
            Problem(
                f"{len(files)} inputs given, the model has {len(graph.inputs)}",
                "give --input once for each: " + ", ".join(port.name for port in graph.inputs),
                str(args.model),
            )
        )
    sample = [read_input(path, graph, port) for path, port in zip(files, graph.inputs, strict=True)]
    outputs = runners.get(args.on).run(plan, [sample])[0]
    for number, (port, data) in enumerate(zip(graph.outputs, outputs, strict=True)):
        values = to_file(data, graph, port)
        if number < len(args.output):
            np.save(args.output[number], values)
        else:
            print(f"{port.name} {values.dtype} {list(values.shape)}")
            print(np.array2string(values, threshold=2000))
    return EXIT_DONE
