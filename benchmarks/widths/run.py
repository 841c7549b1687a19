# SPDX-License-Identifier: Apache-2.0
"""Prints what int4 weights save and cost for two networks of samples.

python benchmarks/widths/run.py [--write FILE]

The float networks have the weights of the samples' int8 files. Images are scikit-learn's digits:
200 for calibration, and those that the samples did not train with for the accuracy.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks" / "paper"))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from manifests import Behind, hashes  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from pages import Table, options, show  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.emit import emit  # noqa: E402
from vmcu_tools.frontends.onnx.attributes import attributes_of  # noqa: E402
from vmcu_tools.quantize.calibration import quantize_and_judge  # noqa: E402
from vmcu_tools.quantize.judge import accuracy  # noqa: E402
from vmcu_tools.quantize.widths import Int4  # noqa: E402
from vmcu_tools.report.runs import FLASH  # noqa: E402

NAME = "widths"
# As samples/digits/train.py and samples/learn/train.py divide the images.
TEST_IMAGES, SEED = 360, 2024
CALIBRATION = 200
# By network, its classes and the limit of flash.
NETWORKS = {"digits": (10, 9_000), "learn": (9, 14_000)}
COLUMNS = ("network, weights", "flash, bytes", "layers with int4 weights")
COLUMNS += ("output, dB", "accuracy")


@dataclass(frozen=True)
class Images:
    """Samples by input, for calibration and for the accuracy, and labels of these."""

    known: list[dict[str, np.ndarray]]
    held_out: list[dict[str, np.ndarray]]
    labels: np.ndarray


def images(name: str, classes: int) -> Images:
    """Those of the first classes. name: of the network's input."""
    digits = load_digits()
    every = (digits.images / 16.0).astype(np.float32)[:, None, None]
    split = {"test_size": TEST_IMAGES, "random_state": SEED, "stratify": digits.target}
    known, held_out, _, labels = train_test_split(every, digits.target, **split)
    held_out, labels = held_out[labels < classes], labels[labels < classes]
    known_samples = [{name: one} for one in known[:CALIBRATION]]
    return Images(known_samples, [{name: one} for one in held_out], labels)


def in_float(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network of a file whose constants and activations are quantised: constants become float,
    QuantizeLinear becomes the Clip that it stands for if its zero point is its least value."""
    graph = model.graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    same: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
        source, *stated = node.input
        if node.op_type == "DequantizeLinear" and source in arrays:
            arrays[node.output[0]] = real_values(node, arrays)
        elif node.op_type == "QuantizeLinear" and is_least(arrays[stated[1]]):
            ends = {f"{source}/{end}": arrays[stated[0]] * end for end in (0, 255)}
            arrays |= {name: np.float32(value) for name, value in ends.items()}
            nodes.append(onnx.helper.make_node("Clip", [source, *ends], [node.output[0]]))
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            same[node.output[0]] = source
        else:
            nodes.append(node)
    # Outputs keep their names.
    names = {same[value.name]: value.name for value in graph.output if value.name in same}
    for node in nodes:
        node.output[:] = [names.get(name, name) for name in node.output]
    read = {name for node in nodes for name in node.input}
    constants = [numpy_helper.from_array(arrays[name], name) for name in arrays if name in read]
    made = onnx.helper.make_graph(nodes, graph.name, graph.input, graph.output, constants)
    return onnx.helper.make_model(made, opset_imports=model.opset_import[:1], ir_version=8)


def is_least(zero_point: np.ndarray) -> bool:
    """Whether no value below zero can be told."""
    return bool(zero_point == np.iinfo(zero_point.dtype).min)


def real_values(node: onnx.NodeProto, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """What a DequantizeLinear makes of constants, float32."""
    ints, scale, zero = (arrays[name] for name in node.input)
    axis = attributes_of(node).get("axis", 1) if scale.size > 1 else 0
    spread = [-1 if place == axis else 1 for place in range(ints.ndim)]
    steps = ints.astype(np.float32) - zero.astype(np.float32).reshape(spread)
    return (steps * scale.reshape(spread)).astype(np.float32)


def rows(name: str) -> list[tuple[str, ...]]:
    """The lines of a network."""
    classes, limit = NETWORKS[name]
    model = in_float(onnx.load(ROOT / "samples" / name / f"{name}.onnx"))
    shown = images(model.graph.input[0].name, classes)
    variants = {
        "int8": Int4(flash=1 << 30),
        "int4": Int4(),
        "int4:32": Int4(32),
        f"--flash {limit}": Int4(flash=limit),
    }
    found = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / f"{name}.onnx"
        onnx.save(model, source)
        for title, asked in variants.items():
            widths = quantize_and_judge(source, target, shown.known, int4=asked).widths
            assert widths is not None
            changed = sum(layer.bits == 4 for layer in widths.layers)
            right = accuracy(onnx.load(target), shown.held_out, shown.labels)
            layers = f"{changed} of {len(widths.layers)}"
            flash = emit(compile_model(target), "model").flash_bytes
            cells = f"{flash:,}", layers, f"{widths.snr:.1f}", f"{right:.1%}"
            found.append((f"{name}, {title}", *cells))
    return found


def table() -> Table:
    lines = tuple(line for name in NETWORKS for line in rows(name))
    files = hashes(ROOT / "samples" / name / f"{name}.onnx" for name in NETWORKS)
    behind = Behind(files, kinds={COLUMNS[1]: FLASH})
    return Table("Widths of weights", COLUMNS, lines, behind=behind)


def command(_: str) -> str:
    return "python benchmarks/widths/run.py"


if __name__ == "__main__":
    parser = options(__doc__ or "", [NAME])
    show(parser, parser.parse_args(), {NAME: table}, command)
