# SPDX-License-Identifier: Apache-2.0
"""`vmcu quantize`: a model to int8."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Problem, UserError
from ..exits import EXIT_DONE
from ..quantize.ranges import LEAST_AGREEMENT, LEAST_DB
from ..values import byte_count, percentage
from .options import Subparsers, all_option, calibration_options, json_option, refuse_with
from .parser import LIMITS, OUTPUT, QUANTISATION, titled

if TYPE_CHECKING:
    from ..quantize.widths import Int4

EXAMPLES = (
    ("net.onnx --calibration data.npz -o int8.onnx", "an int8 model and the error of each layer"),
    (
        "net.onnx --calibration data.npz --weights int4 -o q.onnx",
        "int4 weights, and what they cost each layer",
    ),
    (
        "net.onnx --calibration data.npz --flash 256K -o q.onnx",
        "int4 weights in as many layers as flash requires",
    ),
)
GROUPS = (16, 32, 64, 128, 256)
WEIGHTS = ("int8", "int4", *(f"int4:{group}" for group in GROUPS))


def add(commands: Subparsers) -> argparse.ArgumentParser:
    quantize = commands.add_parser(
        "quantize",
        help="quantise a model to int8",
        description="Writes the int8 model and prints the error of each layer. If the "
        "calibration file has an array 'labels' with the class of each sample, the report has the "
        "accuracy.",
    )
    quantize.add_argument(
        "model",
        type=Path,
        metavar="MODEL",
        help=".onnx or .tflite model in float, at least in part",
    )
    titled(quantize, OUTPUT).add_argument(
        "-o", "--output", type=Path, required=True, metavar="INT8.onnx", help="file to write"
    )
    calibration_options(quantize)
    weights_options(quantize)
    json_option(quantize, "the report")
    all_option(quantize, "error")
    return quantize


def weights_options(parser: argparse.ArgumentParser) -> None:
    """The widths of weights."""
    group = titled(parser, QUANTISATION)
    group.add_argument(
        "--weights",
        choices=WEIGHTS,
        metavar="int8|int4|int4:N",
        help="int4: weights of 4 bits for convolutions and fully connected layers; depthwise "
        "convolutions keep 8 bits; int4:N: one scale for N inputs of a fully connected layer with "
        f"a multiple of N; N: {', '.join(map(str, GROUPS))} (default int8; with --flash: int4)",
    )
    group.add_argument(
        "--min-agreement",
        type=percentage,
        default=LEAST_AGREEMENT,
        metavar="PERCENT",
        help="exit 1 if a classifier agrees with the float model on fewer samples, or an output is "
        f"below {LEAST_DB:.0f} dB; 0: exit 0 (default {LEAST_AGREEMENT:.0f})",
    )
    titled(parser, LIMITS).add_argument(
        "--flash",
        type=byte_count,
        metavar="SIZE",
        help="limit weights and tables: layers get int4 weights until the model fits, those first "
        "that add the least error for each byte; fail if int4 weights in all layers are too large",
    )


def run(args: argparse.Namespace) -> int:
    from ..quantize import calibration
    from ..quantize.verdict import Quality, remedies
    from ..report.models import print_quantization
    from ..report.terminal import console, write_json

    int4 = _int4(args)
    model, samples = calibration.read_calibration(args.model, args.calibration, args.constant)
    labels = calibration.read_labels(model, args.calibration, len(samples))
    how = args.calibration_method, not args.per_tensor
    least = 0.0 if model.label else args.min_agreement
    report = calibration.quantize_and_judge(
        model, args.output, samples, *how, int4=int4, labels=labels, least=least
    )
    print_quantization(report, args.all, console())
    write_json(asdict(report), args.json)
    short = Quality(report.top1, report.snr_db, report.is_classifier).shortfall(least)
    if short:
        options = remedies(report.trials, int4 is not None and int4.flash is None)
        hint = f"try {' or '.join(options)}" if options else "give more samples, like those in use"
        hint += "; --min-agreement 0 accepts the file, which is written"
        raise UserError(Problem(short, hint, str(args.model)))
    return EXIT_DONE


def _int4(args: argparse.Namespace) -> Int4 | None:
    """The int4 weights that the options ask for; None: no int4 weights. Raises UserError for
    options that exclude each other."""
    from ..model_file import name_of
    from ..quantize.widths import Int4

    if args.weights == "int8":
        reason = "{} cannot be combined with --weights int8"
        refuse_with({"--flash": args.flash is not None}, reason, "leave out --weights", args.model)
    if args.weights in (None, "int8") and args.flash is None:
        return None
    reason = "{} cannot be combined with int4 weights, which have a scale for each output channel"
    refuse_with({"--per-tensor": args.per_tensor}, reason, "leave it out", args.model)
    group = (args.weights or "").partition(":")[2]
    return Int4(int(group or 0), args.flash, name_of(args.output))
