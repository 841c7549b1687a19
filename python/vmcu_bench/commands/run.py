# SPDX-License-Identifier: Apache-2.0
"""`vmcu run`: a model on given inputs."""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vmcu_tools.commands.options import (
    RUNNABLE,
    Subparsers,
    hop_option,
    model_options,
    target_options,
)
from vmcu_tools.commands.parser import MODEL, OUTPUT, titled
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.exits import EXIT_DONE
from vmcu_tools.values import is_container

if TYPE_CHECKING:
    import numpy as np
    from vmcu_tools.graph import Graph
    from vmcu_tools.plan.plan import Plan

    Run = Callable[[list[list[np.ndarray]]], list[list[np.ndarray]]]


# Characters of a line of values, as numpy prints them.
LINE = 75
EXAMPLES = (
    ("model.onnx --input x.npy --output y.npy", "inputs and outputs as numpy has them"),
    ("okay_nabu.tflite --input rows.npy", "a stream: any number of rows"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    run = commands.add_parser(
        "run",
        parents=[model_options(RUNNABLE)],
        help="run a model on your inputs",
        description="Prints the outputs, or writes them. A container is loaded as firmware loads "
        "it.",
    )
    target_options(run)
    titled(run, MODEL).add_argument(
        "--input",
        type=Path,
        action="append",
        required=True,
        metavar="X.npy",
        help="input in int8, or in real values to quantise; once for each input, in order; with "
        "--hop, or for a model that keeps state: any number of rows from one window on",
    )
    titled(run, OUTPUT).add_argument(
        "--output",
        type=Path,
        action="append",
        default=[],
        metavar="Y.npy",
        help="file for an output; once for each output, in order (default: print); of a stream, an "
        "answer for each hop",
    )
    hop_option(run)
    return run


def _prepared(args: argparse.Namespace) -> tuple[Graph, Run]:
    """The graph whose inputs and outputs the files have, and the function that runs samples. A plan
    with a hop runs a stream: each sample is its rows, and its answers follow each other."""
    if is_container(args.model):
        from .containers import opened, target_of

        container = opened(args)
        loader = target_of(args.on, container, args.model)
        plan = container.outline
        if plan.graph.state.step_rows:
            run = functools.partial(loader.run_container_stream, container)
            return plan.graph, _streaming(plan, run)
        return plan.graph, functools.partial(loader.run_container, container)
    from vmcu_tools.commands.models import compiled

    from .. import runners
    from ..runners.stream import streamed

    plan = compiled(args)
    target = runners.get(args.on or runners.VIRTUAL)
    if plan.graph.state.step_rows:
        return plan.model, _streaming(plan, functools.partial(streamed, target, plan))
    return plan.graph, functools.partial(target.run, plan)


def _streaming(plan: Plan, streamed: Callable[[np.ndarray], np.ndarray]) -> Run:
    """The function that runs rows; of each output it returns the answers, int8 (hops, bytes)."""
    import numpy as np

    sizes = [plan.model.tensors[port.tensor].bytes for port in plan.model.outputs]
    ends = list(itertools.accumulate(sizes))[:-1]
    return lambda samples: [np.split(streamed(rows), ends, axis=1) for (rows,) in samples]


def run(args: argparse.Namespace) -> int:
    import numpy as np
    from vmcu_tools.report.terminal import console

    from ..runners.borders import read_input, read_stream, to_file

    files = args.input
    graph, run_on = _prepared(args)
    if len(files) != len(graph.inputs):
        raise UserError(
            Problem(
                f"{len(files)} inputs given, the model has {len(graph.inputs)}",
                "give --input once for each: " + ", ".join(port.name for port in graph.inputs),
                str(args.model),
            )
        )
    moves = getattr(args, "hop", 0) > 0
    read = read_stream if moves else read_input
    sample = [read(path, graph, port) for path, port in zip(files, graph.inputs, strict=True)]
    outputs = run_on([sample])[0]
    for number, (port, data) in enumerate(zip(graph.outputs, outputs, strict=True)):
        if moves:
            values = np.stack([to_file(answer, graph, port) for answer in data])
        else:
            values = to_file(data, graph, port)
        if number < len(args.output):
            np.save(args.output[number], values)
        else:
            print(f"{port.name} {values.dtype} {list(values.shape)}")
            width = min(LINE, console().width)
            print(np.array2string(values, max_line_width=width, threshold=2000))
    return EXIT_DONE
