# SPDX-License-Identifier: Apache-2.0
"""What each command does once its words are parsed."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from rich.console import Console

from . import commands_wear, compare, progress
from . import placement as placing
from . import runners as targets
from .bench import kernels as kernel_bench
from .bench import model as model_bench
from .cli import EXIT_DONE, EXIT_INTERRUPTED, EXIT_PROBLEM
from .commands_models import MODEL_COMMANDS, quantised, with_layout
from .commands_new import new
from .compiler import compile_model
from .emit import emit, write
from .errors import Problem, UserError
from .frontends import load
from .image import size
from .ops.biases import bias_warnings
from .passes import optimize
from .placement import files
from .plan.plan import Plan
from .planner import Options
from .planner.stages import fusion
from .report import costs, html, model, placements, text
from .report.terminal import console, write_json
from .runners.borders import read_input, to_file
from .verify import verify


def name_of(path: Path) -> str:
    """A C name made from a file's: 'mcunet-vww-5fps.tflite' gives mcunet_vww_5fps."""
    name = re.sub(r"\W", "_", path.stem, flags=re.ASCII).lower()
    return name if name[:1].isalpha() else f"model_{name}"


def compiled(args: argparse.Namespace, ram: int | None = None) -> Plan:
    """The plan that a command's model and planner options ask for. What is doubtful in the model
    goes to stderr and among the plan's notes."""
    plan = compile_model(
        quantised(args),
        args.planner,
        ram,
        args.solver_seconds,
        stream_input=args.stream_input,
        tile_cost=args.tile_cost,
        extra_macs=args.extra_macs,
        rotated=args.rotate,
        target=args.target,
    )
    warnings = bias_warnings(plan.model)
    for warning in warnings:
        print(f"vmcu {args.command}: warning: {warning}", file=sys.stderr)
    notes = tuple(f"warning: node '{w.node}': {w.op}: {w.reason}" for w in warnings)
    plan = replace(plan, notes=(*plan.notes, *notes))
    return with_layout(plan, getattr(args, "input_layout", "file"))


def build(args: argparse.Namespace) -> int:
    if args.pareto:
        return show_front(args)
    name = args.name or name_of(args.model)
    plan = compiled(args, args.ram)
    emitted = emit(plan, name)
    report = model.report(plan, name, emitted.tables_bytes, emitted.weights_bytes)
    text.print_report(report, Console())
    if args.json:
        args.json.write_text(json.dumps(asdict(report), indent=2) + "\n")
    if args.html:
        args.html.write_text(html.render(plan, report))
    if args.output:
        for path in write(emitted.files, args.output):
            print(f"wrote {path}")
    return EXIT_DONE


def show_front(args: argparse.Namespace) -> int:
    graph = replace(optimize(load(quantised(args))), target=args.target)
    choices = fusion.front(graph, Options(args.solver_seconds, stream_input=args.stream_input))
    text.print_front(choices, console())
    write_json([asdict(choice) for choice in choices], args.json)
    return EXIT_DONE


def compare_planners(args: argparse.Namespace) -> int:
    outcome = compare.compare(args.model)
    text.print_comparison(outcome, Console())
    if args.json:
        args.json.write_text(json.dumps(asdict(outcome), indent=2) + "\n")
    return EXIT_DONE


def verify_model(args: argparse.Namespace) -> int:
    plan = compiled(args)
    outcome = verify.verify(plan, args.on, args.samples, args.structured, args.seed)
    text.print_verification(outcome, Console())
    return EXIT_DONE if outcome.passed else EXIT_PROBLEM


def run(args: argparse.Namespace) -> int:
    plan = compiled(args)
    graph = plan.graph
    if len(args.input) != len(graph.inputs):
        raise UserError(
            Problem(
                f"{len(args.input)} inputs given, the model has {len(graph.inputs)}",
                "give --input once for each: " + ", ".join(port.name for port in graph.inputs),
                str(args.model),
            )
        )
    sample = [
        read_input(path, graph, port) for path, port in zip(args.input, graph.inputs, strict=True)
    ]
    outputs = targets.get(args.on).run(plan, [sample])[0]
    for number, (port, data) in enumerate(zip(graph.outputs, outputs, strict=True)):
        values = to_file(data, graph, port)
        if number < len(args.output):
            np.save(args.output[number], values)
        else:
            print(f"{port.name} {values.dtype} {list(values.shape)}")
            print(np.array2string(values, threshold=2000))
    return EXIT_DONE


def bench(args: argparse.Namespace) -> int:
    if args.model is None:
        results = kernel_bench.bench_kernels(args.on, args.planner, args.target)
        costs.print_kernels(results, console())
        figures: object = {"kernels": [asdict(result) for result in results]}
    else:
        model_bench.board(args.on)
        plan = compiled(args)
        report = model_bench.bench(plan, name_of(args.model), args.on)
        costs.print_bench(report, console())
        figures = asdict(report)
    write_json(figures, args.json)
    return EXIT_DONE


def image_size(args: argparse.Namespace) -> int:
    report = size.size(args.elf)
    costs.print_size(report, console())
    write_json(asdict(report), args.json)
    return EXIT_DONE


def place(args: argparse.Namespace) -> int:
    problem = files.read(args.problem)
    with progress.clock("placing", args.seconds) as watch:
        placement = placing.place(problem, args.capacity, args.seconds, watch=watch, keep=True)
    placements.print_placement(problem, placement, console())
    write_json(placements.figures(problem, placement, args.capacity), args.json)
    if args.output:
        files.write(problem, placement, args.output)
    if placement.interrupted:
        return EXIT_INTERRUPTED
    if args.capacity is not None and placement.height > args.capacity:
        raise placements.too_high(problem, placement, args.capacity)
    return EXIT_DONE


def wear(args: argparse.Namespace) -> int:
    if args.model is None:
        return commands_wear.paper_setting(args)
    return commands_wear.pool_of_model(args, compiled(args))


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "build": build,
    "compare": compare_planners,
    "verify": verify_model,
    "run": run,
    "bench": bench,
    "size": image_size,
    "place": place,
    "new": lambda args: new(args, args.name or name_of(args.model)),
    "wear": wear,
    **MODEL_COMMANDS,
}
