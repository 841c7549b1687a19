# SPDX-License-Identifier: Apache-2.0
"""`vmcu verify` of models that keep rows or states: a wrong network fails, the right one passes.

The other tests of streams trust this exit code. A network is made wrong as an importer would: what
compiles the file and what judges it read the same other operator or constant, and only ONNX Runtime
reads the file as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_caches import Step
from builders.onnx_models import OnnxModel, conv, dense
from builders.onnx_states import Recurrent, listening
from drawn import case
from onnx import TensorProto
from vmcu_tools.cli import main
from vmcu_tools.frontends.onnx import importer
from vmcu_tools.frontends.onnx.file import FileModel, FileNode


def windowed(path: Path) -> Path:
    """A convolution, Tanh, and a layer over the window of 8 rows."""
    m = OnnxModel(3)
    x = m.qdq("x", m.stated(0.05))
    y, scale = conv(3, 6, (3, 1))(m, x, 0.05)
    y = m.qdq(m.node("Tanh", [m.qdq(y, m.stated(scale))]), m.stated(1 / 128, 0))
    y, scale = dense("Gemm", 36, 5, flatten=True)(m, y, 1 / 128)
    out = m.qdq(y, m.stated(scale))
    ends = {"x": (TensorProto.FLOAT, (1, 3, 8, 1))}, {out: (TensorProto.FLOAT, (1, 5))}
    onnx.save(m.proto(*ends), path)
    return path


def recurrent(path: Path, **how: bool) -> tuple[Path, list[str]]:
    model = Recurrent(4, 2, **how)
    path = model.save(path)
    return path, [word for pair in model.states for word in ("--state", ":".join(pair))]


CASES: dict[str, Callable[[Path], tuple[Path, list[str]]]] = {
    "recurrent": recurrent,
    "gated": lambda path: recurrent(path, gated=True, other=True),
    "window": lambda path: (windowed(path), ["--hop", "1"]),
    "rings": lambda path: (listening(path, (3, 5), [("h0", "hn"), ("a", "a_out")]), []),
    "cache": lambda path: (Step().save(path), []),
}


def verified(folder: Path, name: str) -> int:
    path, options = CASES[name](folder / "model.onnx")
    return main(["verify", str(path), *options, "-n", "60"])


@pytest.mark.parametrize("name", CASES)
def test_the_right_network_passes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verified(tmp_path, name) == 0
    assert capsys.readouterr().out.rstrip().endswith("PASSED")


def changed(op: str, other: Callable[[FileNode], FileNode]) -> Callable[[FileModel], FileModel]:
    """Another node for each one of an operator."""

    def change(model: FileModel) -> FileModel:
        assert any(node.op == op for node in model.nodes)
        return replace(model, nodes=tuple(other(n) if n.op == op else n for n in model.nodes))

    return change


def to(op: str) -> Callable[[FileNode], FileNode]:
    return lambda node: replace(node, op=op)


def reversed_inputs(node: FileNode) -> FileNode:
    return replace(node, inputs=node.inputs[::-1])


def constants(
    kind: type, other: Callable[[np.ndarray], np.ndarray]
) -> Callable[[FileModel], FileModel]:
    """Other constants for those of a type that have several elements."""

    def change(model: FileModel) -> FileModel:
        picked = {n for n, a in model.constants.items() if a.dtype == kind and a.size > 1}
        assert picked
        new = {n: other(a) if n in picked else a for n, a in model.constants.items()}
        return replace(model, constants=new)

    return change


def one_weight(weights: np.ndarray) -> np.ndarray:
    found = weights.copy()
    found.flat[0] = -90 if found.flat[0] > 0 else 90
    return found


WRONG = {
    "sigmoid": changed("Tanh", to("Sigmoid")),
    "atan": changed("Tanh", to("Atan")),
    "softsign": changed("Tanh", to("Softsign")),
    "sub": changed("Add", to("Sub")),
    "max": changed("Add", to("Max")),
    "order": changed("Concat", reversed_inputs),
    "softmax": changed("Softmax", to("Hardmax")),
    "sign": constants(np.int8, lambda weights: -weights),
    "one": constants(np.int8, one_weight),
    "biases": constants(np.int32, lambda biases: np.where(biases, biases + 400, 0)),
}


def by_turns(names: Sequence[str], faults: Sequence[str]) -> Iterator[object]:
    """Each fault in some of the networks; in the others it is slow."""
    for place, name in enumerate(names):
        for turn, fault in enumerate(faults):
            yield case(name, fault, slow=(place + turn) % 2 == 1)


MADE_WRONG = [
    *by_turns(("recurrent", "gated"), ("sub", "max")),
    *by_turns(
        ("recurrent", "gated", "window"),
        ("sigmoid", "atan", "softsign", "sign", "one", "biases"),
    ),
    *(("rings", wrong) for wrong in ("order", "sign", "one")),
    *(("cache", wrong) for wrong in ("order", "softmax")),
]


@pytest.mark.parametrize(("name", "wrong"), MADE_WRONG)
def test_a_wrong_network_fails(
    name: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    read = importer.read_opened
    monkeypatch.setattr(importer, "read_opened", lambda *args: WRONG[wrong](read(*args)))
    assert verified(tmp_path, name) == 1
    # An exit code of 1 may also be a refusal.
    assert capsys.readouterr().out.rstrip().endswith("FAILED")
