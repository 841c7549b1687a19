# SPDX-License-Identifier: Apache-2.0
"""The command that begins an application."""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from .commands_models import quantised
from .emit.application import application, check_new, create
from .frontends import format_of, load


def new(args: argparse.Namespace, name: str) -> int:
    """Writes an application for a model whose C name is `name`, and says how to build it."""
    check_new(args.folder)
    model = quantised(args)
    graph = load(model)
    file = f"{name}.{format_of(model)}"
    files = {path: text.encode() for path, text in application(graph, name, file).items()}
    for path in create(files | {file: in_one_file(model)}, args.folder):
        print(f"wrote {path}")
    print(f"build and run: west build -b qemu_cortex_m3 {args.folder} -t run")
    return 0


def in_one_file(model: Path) -> bytes:
    """A model's file as it is, unless its weights lie in others."""
    data = model.read_bytes()
    if format_of(model) == "onnx":
        whole = onnx.load(model)
        if whole != onnx.load_from_string(data):
            return whole.SerializeToString()
    return data
