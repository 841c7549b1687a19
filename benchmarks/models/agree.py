# SPDX-License-Identifier: Apache-2.0
"""Counts on how many inputs a model's largest output is ONNX Runtime's too.

python benchmarks/models/agree.py MODEL.onnx... [--on host] [-n 200]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
from vmcu_bench import runners
from vmcu_bench.oracle.ort import session_of
from vmcu_bench.runners.borders import to_file
from vmcu_tools.compiler import compile_model
from vmcu_tools.graph import Graph

from build import samples

SEED = 2


def quantised(graph: Graph, real: np.ndarray) -> np.ndarray:
    """A float input in the file's layout as int8 (H, W, C)."""
    port = graph.inputs[0]
    tensor = graph.tensors[port.tensor]
    data = np.moveaxis(real[0], 0, -1) if port.layout == "nchw" else real
    q = np.rint(data.reshape(tensor.shape) / np.float32(tensor.scale)) + tensor.zero_point
    return np.clip(q, -128, 127).astype(np.int8)


def largest(values: np.ndarray) -> np.ndarray:
    """Places of the largest values: several where they are equal."""
    return np.flatnonzero(values.ravel() == values.max())


def agreement(path: Path, target: str, count: int) -> tuple[int, int]:
    """Inputs that agree, and inputs."""
    given = samples(onnx.load(path), count, SEED)
    plan = compile_model(path)
    graph = plan.graph
    inputs = [[quantised(graph, sample["input"])] for sample in given]
    session = session_of(path, "ORT_ENABLE_EXTENDED")
    agreed = 0
    for sample, outputs in zip(given, runners.get(target).run(plan, inputs), strict=True):
        ours = to_file(np.asarray(outputs[0]), graph, graph.outputs[0])
        theirs = session.run(None, sample)[0]
        agreed += bool(set(largest(ours)) & set(largest(theirs)))
    return agreed, count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--on", default="host", help="as vmcu verify has it (default host)")
    parser.add_argument("-n", "--samples", type=int, default=200)
    args = parser.parse_args()
    for path in args.models:
        agreed, count = agreement(path, args.on, args.samples)
        print(f"{path.stem} on {args.on}: {agreed} of {count} inputs agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
