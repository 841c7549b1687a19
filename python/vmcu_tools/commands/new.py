# SPDX-License-Identifier: Apache-2.0
"""`vmcu new`: begins an application."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ..errors import Problem
from ..exits import EXIT_DONE
from .options import Subparsers, calibration_options, hop_option
from .parser import MODEL, OUTPUT, titled

EXAMPLES = (
    ("app --model model.tflite", "then: west build -b qemu_cortex_m3 app -t run"),
    ("listener --model okay_nabu.tflite", "a stream"),
)


def add(commands: Subparsers) -> argparse.ArgumentParser:
    new = commands.add_parser(
        "new",
        help="write a Zephyr application around a model",
        description="Writes CMakeLists.txt, prj.conf, src/main.c, a README and a copy of the "
        "model. With --hop, or for a model that keeps state, the application feeds rows without "
        "end.",
    )
    new.add_argument("folder", type=Path, metavar="DIR", help="new or empty folder")
    titled(new, MODEL).add_argument(
        "--model", type=Path, required=True, metavar="MODEL", help="int8 model, .tflite or .onnx"
    )
    titled(new, OUTPUT).add_argument(
        "--name", help="C name of the model (default: from the file name)"
    )
    calibration_options(new)
    hop_option(new)
    return new


def run(args: argparse.Namespace) -> int:
    from ..compiler import compile_model, rows_of_call
    from ..emit.application import application, check_new, create
    from ..frontends import format_of, load
    from ..model_file import name_of
    from ..planner.options import CompileOptions
    from .models import quantised

    check_new(args.folder)
    model = quantised(args)
    graph = load(model)
    hop = args.hop or rows_of_call(model, args.state)
    if hop:
        # Which says what stands in the way of a stream, and what is left to be pushed.
        graph = compile_model(
            model, CompileOptions(hop=hop, state=args.state, time=args.time)
        ).model
    name = args.name or name_of(args.model)
    file = f"{name}.{format_of(model)}"
    files = {
        path: text.encode()
        for path, text in application(graph, name, file, hop, args.state, args.time).items()
    }
    for path in create(files | {file: in_one_file(model)}, args.folder):
        print(f"wrote {path}")
    folder = shlex.quote(str(args.folder))
    print(f"build and run: west build -b qemu_cortex_m3 {folder} -t run")
    if " " in str(args.folder.resolve()):
        reason = "the path has a space, and Zephyr 3.7 cannot build there"
        problem = Problem(reason, "move the folder", str(args.folder.resolve()))
        print(f"warning: {problem}", file=sys.stderr)
    return EXIT_DONE


def in_one_file(model: Path) -> bytes:
    """A model's file as it is, unless its weights lie in others."""
    import onnx

    from ..frontends import format_of

    data = model.read_bytes()
    if format_of(model) == "onnx":
        whole = onnx.load(model)
        if whole != onnx.load_from_string(data):
            joined: bytes = whole.SerializeToString()
            return joined
    return data
