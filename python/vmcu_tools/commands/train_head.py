# SPDX-License-Identifier: Apache-2.0
"""`vmcu train-head`: a model to C tables that train its last dense layers on the device."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from ..exits import EXIT_DONE
from ..training import Training
from ..values import count, learning_rate
from .options import (
    Subparsers,
    calibration_options,
    int8_model,
    json_option,
    name_option,
    plan_options,
    report_option,
)
from .parser import MODEL, OUTPUT, titled

EXAMPLES = (
    ("kws.tflite", "RAM of training beside that of inference"),
    ("kws.tflite --classes 6 -o out", "C tables; the last layer gets a sixth class"),
    ("kws.tflite --classes 6 --new-only", "less RAM: train the weights of new classes only"),
)
USUAL = Training()


def add(commands: Subparsers) -> argparse.ArgumentParser:
    train = commands.add_parser(
        "train-head",
        help="compile a classifier that learns classes on the device",
        description="Compiles a model whose last dense layers are trained on the device, by "
        "gradient descent on one example a call. Additional inputs: the label, -1 for inference "
        "only, and the weights of each trained layer, which stay at their address.",
    )
    int8_model(train)
    model = titled(train, MODEL)
    model.add_argument(
        "--classes",
        type=count,
        metavar="N",
        help="classes of the trained model; new ones have weights of zero (default: as the model)",
    )
    model.add_argument(
        "--layers",
        type=int,
        choices=(1, 2),
        default=USUAL.layers,
        help=f"dense layers to train, from the last one (default {USUAL.layers})",
    )
    model.add_argument(
        "--learning-rate",
        type=learning_rate,
        dest="rate",
        default=USUAL.rate,
        metavar="R",
        help=f"learning rate (default {USUAL.rate:g})",
    )
    model.add_argument(
        "--new-only",
        action="store_true",
        help="train only the classes that --classes adds; the weights of the others stay in flash",
    )
    plan_options(train, "ram", "target")
    titled(train, OUTPUT).add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write NAME.c, NAME.h and NAME_weights.h into this folder",
    )
    calibration_options(train)
    name_option(train)
    json_option(train)
    report_option(train)
    return train


def run(args: argparse.Namespace) -> int:
    from ..emit import emit, write
    from ..emit.trained import weights_header
    from ..model_file import name_of
    from ..planner.options import CompileOptions
    from ..report.build import print_brief
    from ..report.terminal import console, write_json
    from ..report.time import brief_time
    from ..report.training import print_training, training_report
    from ..training_compiler import compile_training
    from .models import quantised

    name = args.name or name_of(args.model)
    training = Training(args.classes, args.layers, args.rate, args.new_only)
    options = CompileOptions(ram=args.ram, target=args.target, state=())
    compiled = compile_training(quantised(args), training, options)
    command = command_line(args, name)
    emitted = emit(compiled.plan, name, command)
    report = training_report(name, compiled, emitted)
    write_json({**asdict(report), "ratio": report.ratio}, args.json)
    files = {**emitted.files, **weights_header(name, compiled.weights, command)}
    written = write(files, args.output) if args.output else []
    if args.report:
        said = name, report.pool_bytes, report.flash_bytes, brief_time(compiled.plan, None)
        print_brief(*said, args.report, lambda file: print_training(report, file))
    else:
        print_training(report, console())
        for path in written:
            print(f"wrote {path}")
    return EXIT_DONE


def command_line(args: argparse.Namespace, name: str) -> str:
    """The command that makes the same tables again, in the model's folder."""
    words = ["vmcu", "train-head", args.model.name, "--name", name]
    given = {
        "--classes": (args.classes, None),
        "--layers": (args.layers, USUAL.layers),
        "--learning-rate": (args.rate, USUAL.rate),
        "--ram": (args.ram, None),
        "--target": (args.target, None),
    }
    for option, (value, usual) in given.items():
        words += [option, str(value)] if value != usual else []
    words += ["--new-only"] if args.new_only else []
    return shlex.join(words)
