# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that look at model files or make them."""

from __future__ import annotations

import argparse
from pathlib import Path

from .quantize.ranges import METHODS

Subparsers = argparse._SubParsersAction  # argparse gives it no public name


def border_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-layout",
        choices=("file", "nhwc"),
        default="file",
        help="axes of inputs given in real numbers: as in the model file, or channels last "
        "(default file); int8 inputs of the C interface always have the channels last",
    )


def calibration_options(parser: argparse.ArgumentParser, needed: bool) -> None:
    parser.add_argument(
        "--calibration",
        type=Path,
        required=needed,
        metavar="FILE.npz",
        help="quantise a float .onnx model on these samples: an array (N, ...) for each input",
    )
    parser.add_argument(
        "--calibration-method",
        choices=METHODS,
        default="minmax",
        help="how ranges are chosen from the samples (default minmax)",
    )
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer (default: one per output channel)",
    )


def add_inspect(commands: Subparsers) -> None:
    inspect = commands.add_parser(
        "inspect", help="what is in a model: operators, shapes, quantisation, MACs, what is missing"
    )
    inspect.add_argument("model", type=Path, metavar="MODEL", help=".tflite or .onnx")
    inspect.add_argument("--json", type=Path, metavar="FILE", help="write the same as JSON")


def add_new(commands: Subparsers) -> None:
    new = commands.add_parser(
        "new",
        help="write a Zephyr application around a model",
        description="Fills a new or empty folder with CMakeLists.txt, prj.conf, src/main.c, a "
        "README and a copy of the model.",
    )
    new.add_argument("folder", type=Path, metavar="DIR", help="missing or empty")
    new.add_argument(
        "--model", type=Path, required=True, metavar="MODEL", help="int8 model, .tflite or .onnx"
    )
    new.add_argument("--name", help="C name of the model (default: the file's)")
    calibration_options(new, needed=False)


def add_ops(commands: Subparsers) -> None:
    ops = commands.add_parser("ops", help="the operators that models may have, by format")
    ops.add_argument("--json", type=Path, metavar="FILE", help="write them as JSON")
    ops.add_argument("--markdown", action="store_true", help="print doc/ops.md")


def add_quantize(commands: Subparsers) -> None:
    quantize = commands.add_parser(
        "quantize",
        help="write the int8 form of a float .onnx model, and how well each layer survived",
    )
    quantize.add_argument("model", type=Path, metavar="MODEL", help="float .onnx model")
    quantize.add_argument(
        "-o", "--output", type=Path, required=True, metavar="INT8.onnx", help="the file to write"
    )
    calibration_options(quantize, needed=True)
    quantize.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    quantize.add_argument(
        "--layers",
        type=int,
        default=12,
        metavar="N",
        help="layers to print, the worst first (default 12)",
    )
