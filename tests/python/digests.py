# SPDX-License-Identifier: Apache-2.0
"""Prints a line a build: its pool's bytes, and a digest of all that is emitted for it. A change
that must leave what devices get alone has the same lines before and after.

    python tests/python/digests.py > before.txt
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from builders.exported import Net, static
from builders.exported_more import MORE
from builders.exported_networks import IMAGES
from builders.exported_sequences import SEQUENCES
from builders.networks import SHARED
from builders.tflite_models import TfliteModel
from random_graphs import random_layers
from random_streams import Mixed, Temporal, drawn
from test_lstm import lstm
from vmcu_tools.compiler import compile_model
from vmcu_tools.container.build import build
from vmcu_tools.emit.model import emit
from vmcu_tools.errors import UserError
from vmcu_tools.kernels.targets import TARGETS
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

ROOT = Path(__file__).resolve().parents[2]
USUAL = CompileOptions(state=())
KINDS = ("conv2d", "depthwise", "int4", "add", "concat", "matmul")


def files() -> Iterator[tuple[Path, CompileOptions]]:
    """Real networks, and the same on each target, in little RAM and hop by hop."""
    samples = sorted(ROOT.glob("samples/*/*.onnx"))
    yield from ((file, USUAL) for file in [*samples, *sorted(SHARED.glob("*.tflite"))])
    digits, keyword = ROOT / "samples/digits/digits.onnx", ROOT / "samples/keyword/keyword.onnx"
    yield from ((digits, replace(USUAL, target=target)) for target in TARGETS)
    yield keyword, replace(USUAL, hop=1)
    yield SHARED / "mlperf-tiny-kws.tflite", replace(USUAL, hop=1)
    yield SHARED / "mlperf-tiny-kws.tflite", replace(USUAL, target="helium", stream_input=True)
    yield digits, replace(USUAL, rotate=True)


def drawn_files(folder: Path) -> Iterator[tuple[Path, CompileOptions]]:
    """Networks as quantize_static leaves them, and one that keeps a state."""
    for name, network in {**IMAGES, **SEQUENCES, **MORE}.items():
        path = folder / f"{name}.onnx"
        static(network(Net(False)), path)
        yield path, replace(USUAL, ram=None)
    m = TfliteModel(seed=1)
    x = m.activation((1, 5, 6), 0.05, 3)
    yield m.save(folder / "lstm.tflite", [x], [lstm(m, x, 6, 5, 7)]), USUAL


def plans(folder: Path) -> Iterator[tuple[str, Plan | UserError]]:
    for path, options in (*files(), *drawn_files(folder)):
        given = {k: v for k, v in vars(options).items() if v != getattr(USUAL, k)}
        name = " ".join([path.name, *(f"{k}={v}" for k, v in given.items())])
        if path.exists():
            try:
                yield name, compile_model(path, options)
            except UserError as error:
                yield name, error
    for seed in range(8):
        yield (
            f"layers {seed}",
            make_plan(
                random_layers(("conv2d", "depthwise", "int4", "add", "concat", "matmul"), 6, seed),
                USUAL,
            ),
        )
        graph, hop = drawn((Temporal, Mixed)[seed % 2], seed)
        yield f"stream {seed}", make_plan(graph, CompileOptions(hop=hop))


def emitted(plan: Plan) -> Iterator[str | bytes]:
    """All that a device may get: tables, headers, containers."""
    for name, text in sorted(emit(plan, "model").all_files.items()):
        yield name
        yield text
    for online in (False, True):
        try:
            yield build(plan, "model", online)
        except UserError as error:
            yield str(error)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, plan in plans(Path(folder)):
            digest = hashlib.sha256()
            parts = [str(plan)] if isinstance(plan, UserError) else emitted(plan)
            for part in parts:
                text = part.encode() if isinstance(part, str) else part
                digest.update(text.replace(folder.encode(), b"") + b"\0")
            size = 0 if isinstance(plan, UserError) else plan.pool_bytes
            print(f"{size:9,} {digest.hexdigest()[:16]} {name}", flush=True)


if __name__ == "__main__":
    main()
