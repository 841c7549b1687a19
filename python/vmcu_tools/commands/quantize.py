# SPDX-License-Identifier: Apache-2.0
"""`vmcu quantize`: a float model to int8."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from ..errors import Problem, UserError
from ..exits import EXIT_DONE
from .options import Subparsers, all_option, calibration_options, json_option
from .parser import OUTPUT, titled
from .values import count

EXAMPLES = (
    ("net.onnx --calibration data.npz -o int8.onnx", "an int8 model and the error of each layer"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    quantize = commands.add_parser(
        "quantize",
        help="quantise a float .onnx model to int8",
        description="Writes the int8 model and prints the error of each layer. For a .tflite "
        "model, convert the original again with full-integer quantisation: doc/tensorflow.md.",
    )
    quantize.add_argument("model", type=Path, metavar="MODEL", help="float .onnx model")
    output = titled(quantize, OUTPUT)
    output.add_argument(
        "-o", "--output", type=Path, required=True, metavar="INT8.onnx", help="file to write"
    )
    calibration_options(quantize, needed=True)
    json_option(quantize, "the report")
    output.add_argument(
        "--layers",
        type=count,
        default=12,
        metavar="N",
        help="layers to print, those with the largest error first (default 12)",
    )
    all_option(quantize, "error")
    return quantize


def run(args: argparse.Namespace) -> int:
    from ..frontends import format_of
    from ..quantize import calibration
    from ..report.models import print_quantization
    from ..report.terminal import console, write_json

    if format_of(args.model) != "onnx":
        reason = "only .onnx models can be quantised here"
        remedy = "Convert a .tflite model again, with full-integer int8 quantisation."
        raise UserError(Problem(reason, remedy, str(args.model)))
    samples = calibration.read_samples(args.model, args.calibration)
    report = calibration.quantize_and_judge(
        args.model, args.output, samples, args.calibration_method, not args.per_tensor
    )
    print_quantization(report, len(report.layers) if args.all else args.layers, console())
    write_json(asdict(report), args.json)
    return EXIT_DONE
