# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: reading a file that somebody else made, up to the optimised graph."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python")]

from vmcu_tools import frontends, passes  # noqa: E402
from vmcu_tools.errors import UserError  # noqa: E402
from vmcu_tools.report import inspection  # noqa: E402

KINDS = ("onnx", "tflite")


# Whole networks among the seeds.
NETWORKS = 40


def seeds(kind: str) -> list[bytes]:
    """A file for each operator, and networks of several."""
    return (_tflite_seeds() if kind == "tflite" else _onnx_seeds()) + _networks(kind)


def _networks(kind: str) -> list[bytes]:
    import numpy as np
    from onnx_networks import OnnxNetwork
    from tflite_networks import TfliteNetwork

    drawn = TfliteNetwork if kind == "tflite" else OnnxNetwork
    return [drawn(np.random.default_rng(number), 6).file() for number in range(NETWORKS)]


def _onnx_seeds() -> list[bytes]:
    from builders import onnx_models, onnx_ops

    files = []
    for opset, cases in ((13, onnx_models.CASES), (17, onnx_ops.CASES)):
        for case in cases.values():
            model = onnx_models.single(onnx_models.OnnxModel(0, opset=opset), *case)
            files.append(model.SerializeToString())
    return files


def _tflite_seeds() -> list[bytes]:
    from builders import tflite_models, tflite_ops, tflite_tables

    files = []
    cases = tflite_models.CASES | tflite_ops.CASES | tflite_tables.CASES
    for case in cases.values():
        model = tflite_models.TfliteModel(1)
        files.append(model.to_bytes(*case(model)))
    return files


def read(data: bytes, kind: str) -> bool:
    """Whether the file is accepted. Anything but UserError goes through to the caller."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m.{kind}"
        path.write_bytes(data)
        try:
            graph = passes.optimize(frontends.load(path))
        except UserError as error:
            assert str(error).strip()
            return False
        for index in range(len(graph.nodes)):
            inspection.row(graph, index)
        return True
