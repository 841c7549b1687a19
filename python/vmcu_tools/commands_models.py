# SPDX-License-Identifier: Apache-2.0
"""The commands that look at model files or make them."""

from __future__ import annotations

import argparse
import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from . import frontends, inspection
from .errors import Problem, UserError
from .graph import Port
from .plan.plan import Plan
from .quantize import calibration
from .report import models
from .report.terminal import console, write_json


def quantised(args: argparse.Namespace) -> Path:
    """The model that a command shall work on: with calibration data, an int8 file made from it
    that lives as long as the program."""
    if getattr(args, "calibration", None) is None:
        return args.model
    frontends.format_of(args.model)
    folder = Path(tempfile.mkdtemp(prefix="vmcu-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / args.model.name
    samples = calibration.read_samples(args.model, args.calibration)
    method, per_channel = args.calibration_method, not args.per_tensor
    calibration.quantize(args.model, target, samples, method, per_channel)
    return target


def with_layout(plan: Plan, layout: str) -> Plan:
    """The plan with inputs whose channels come last, if `layout` is "nhwc"."""
    if layout != "nhwc":
        return plan
    ports = tuple(_channels_last(port) for port in plan.graph.inputs)
    return replace(plan, graph=replace(plan.graph, inputs=ports))


def _channels_last(port: Port) -> Port:
    if port.layout != "nchw":
        return port
    batch, channels, *spatial = port.file_shape
    return replace(port, layout="nhwc", file_shape=(batch, *spatial, channels))


def quantize(args: argparse.Namespace) -> int:
    if frontends.format_of(args.model) != "onnx":
        reason = "only .onnx models can be quantised here"
        remedy = "Convert a .tflite model again, with full-integer int8 quantisation."
        raise UserError(Problem(reason, remedy, str(args.model)))
    samples = calibration.read_samples(args.model, args.calibration)
    report = calibration.quantize_and_judge(
        args.model, args.output, samples, args.calibration_method, not args.per_tensor
    )
    models.print_quantization(report, args.layers, console())
    write_json(asdict(report), args.json)
    return 0


def inspect(args: argparse.Namespace) -> int:
    found = inspection.inspect(args.model)
    models.print_inspection(found, console())
    write_json(asdict(found), args.json)
    if found.problems:
        raise UserError(*found.problems)
    return 0


def ops(args: argparse.Namespace) -> int:
    found = inspection.coverage()
    if args.markdown:
        print(inspection.markdown(found), end="")
    else:
        models.print_coverage(found, console())
    write_json([asdict(entry) for entry in found], args.json)
    return 0


MODEL_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "inspect": inspect,
    "ops": ops,
    "quantize": quantize,
}
