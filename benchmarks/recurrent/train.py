# SPDX-License-Identifier: Apache-2.0
"""Trains recurrent classifiers with numpy and compares them in float and in int8.

    python benchmarks/recurrent/train.py [GRU|LSTM|RNN...]

Each reads a digit of scikit-learn's set, 8 x 8 pixels, row by row, and classifies it by its last
state. `vmcu quantize` makes the int8 file; ONNX Runtime runs both on 597 images that neither
training nor calibration have seen.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from vmcu_bench.oracle import exact_ort
from vmcu_tools.quantize.calibration import quantize

SIZE, CLASSES, TRAINED, EPOCHS, BATCH = 24, 10, 1200, 40, 50
Arrays = dict[str, np.ndarray]
# States behind each step, and what the way back needs of it.
Forward = Callable[[Arrays, np.ndarray, list[np.ndarray]], tuple[list[np.ndarray], tuple]]
Backward = Callable[[Arrays, tuple, list[np.ndarray]], tuple[Arrays, list[np.ndarray]]]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _gru(p: Arrays, x: np.ndarray, states: list[np.ndarray]) -> tuple[list[np.ndarray], tuple]:
    (h,) = states
    xz, xr, xn = np.split(x @ p["W"].T + p["b"], 3, axis=1)
    hz, hr, hn = np.split(h @ p["R"].T + p["rb"], 3, axis=1)
    z, r = _sigmoid(xz + hz), _sigmoid(xr + hr)
    n = np.tanh(xn + r * hn)
    return [z * h + (1 - z) * n], (x, h, z, r, n, hn)


def _gru_back(p: Arrays, kept: tuple, grads: list[np.ndarray]) -> tuple[Arrays, list[np.ndarray]]:
    x, h, z, r, n, hn = kept
    (g,) = grads
    dn = g * (1 - z) * (1 - n * n)
    dz = g * (h - n) * z * (1 - z)
    dr = dn * hn * r * (1 - r)
    given, seen = np.hstack([dz, dr, dn]), np.hstack([dz, dr, dn * r])
    found = {"W": given.T @ x, "R": seen.T @ h, "b": given.sum(0), "rb": seen.sum(0)}
    return found, [g * z + seen @ p["R"]]


def _lstm(p: Arrays, x: np.ndarray, states: list[np.ndarray]) -> tuple[list[np.ndarray], tuple]:
    h, c = states
    parts = np.split(x @ p["W"].T + p["b"] + h @ p["R"].T + p["rb"], 4, axis=1)
    i, o, f = (_sigmoid(part) for part in parts[:3])
    n = np.tanh(parts[3])
    cell = f * c + i * n
    return [o * np.tanh(cell), cell], (x, h, c, i, o, f, n, cell)


def _lstm_back(p: Arrays, kept: tuple, grads: list[np.ndarray]) -> tuple[Arrays, list[np.ndarray]]:
    x, h, c, i, o, f, n, cell = kept
    seen = np.tanh(cell)
    g = grads[1] + grads[0] * o * (1 - seen * seen)
    do = grads[0] * seen * o * (1 - o)
    di, df, dn = g * n * i * (1 - i), g * c * f * (1 - f), g * i * (1 - n * n)
    gates = np.hstack([di, do, df, dn])
    found = {"W": gates.T @ x, "R": gates.T @ h, "b": gates.sum(0), "rb": gates.sum(0)}
    return found, [gates @ p["R"], g * f]


def _rnn(p: Arrays, x: np.ndarray, states: list[np.ndarray]) -> tuple[list[np.ndarray], tuple]:
    made = np.tanh(x @ p["W"].T + p["b"] + states[0] @ p["R"].T + p["rb"])
    return [made], (x, states[0], made)


def _rnn_back(p: Arrays, kept: tuple, grads: list[np.ndarray]) -> tuple[Arrays, list[np.ndarray]]:
    x, h, made = kept
    g = grads[0] * (1 - made * made)
    found = {"W": g.T @ x, "R": g.T @ h, "b": g.sum(0), "rb": g.sum(0)}
    return found, [g @ p["R"]]


# Gates, states, a step and its way back.
CELLS: dict[str, tuple[int, int, Forward, Backward]] = {
    "GRU": (3, 1, _gru, _gru_back),
    "LSTM": (4, 2, _lstm, _lstm_back),
    "RNN": (1, 1, _rnn, _rnn_back),
}


@dataclass(frozen=True)
class Data:
    """Images (N, 8, 8) from 0 to 1, rows in the order of time, and their classes."""

    x: np.ndarray
    y: np.ndarray
    unseen_x: np.ndarray
    unseen_y: np.ndarray


def digits() -> Data:
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x, y = (found.images[order] / 16).astype(np.float32), found.target[order]
    return Data(x[:TRAINED], y[:TRAINED], x[TRAINED:], y[TRAINED:])


def trained(op: str, data: Data, epochs: int = EPOCHS) -> Arrays:
    """Weights of a cell and of the layer behind it, by Adam."""
    gates, states, forward, backward = CELLS[op]
    rng = np.random.default_rng(1)
    rows, depth = gates * SIZE, data.x.shape[2]
    p = {
        "W": rng.normal(size=(rows, depth)) / depth**0.5,
        "R": rng.normal(size=(rows, SIZE)) / SIZE**0.5,
        "b": np.zeros(rows),
        "rb": np.zeros(rows),
        "D": rng.normal(size=(SIZE, CLASSES)) / SIZE**0.5,
        "db": np.zeros(CLASSES),
    }
    first, second = ({name: np.zeros_like(a) for name, a in p.items()} for _ in range(2))
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(data.y))
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            step += 1
            grads = _gradients(p, data.x[picked], data.y[picked], states, forward, backward)
            for name, g in grads.items():
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.99 * second[name] + 0.01 * g * g
                rate = 0.005 * (1 - 0.99**step) ** 0.5 / (1 - 0.9**step)
                p[name] -= rate * first[name] / (np.sqrt(second[name]) + 1e-8)
    return {name: array.astype(np.float32) for name, array in p.items()}


def _gradients(
    p: Arrays, x: np.ndarray, y: np.ndarray, states: int, forward: Forward, backward: Backward
) -> Arrays:
    now, kept = [np.zeros((len(x), SIZE)) for _ in range(states)], []
    for t in range(x.shape[1]):
        now, one = forward(p, x[:, t], now)
        kept.append(one)
    logits = now[0] @ p["D"] + p["db"]
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(y)), y] -= 1
    shares /= len(y)
    found = {name: np.zeros_like(array) for name, array in p.items()}
    found["D"], found["db"] = now[0].T @ shares, shares.sum(0)
    back = [shares @ p["D"].T, *(np.zeros_like(now[0]) for _ in range(states - 1))]
    for one in reversed(kept):
        parts, back = backward(p, one, back)
        for name, g in parts.items():
            found[name] += g
    return found


def model(op: str, p: Arrays, steps: int = 8) -> onnx.ModelProto:
    """The float file: x (steps, 1, 8) to logits (1, 10)."""
    given = {"linear_before_reset": 1} if op == "GRU" else {}
    arrays = {
        "W": p["W"][None],
        "R": p["R"][None],
        "B": np.concatenate([p["b"], p["rb"]])[None],
        "D": p["D"],
        "db": p["db"],
        "shape": np.array([1, SIZE]),
    }
    ends = ["", "last"]
    nodes = [
        helper.make_node(op, ["x", "W", "R", "B"], ends, "cell", hidden_size=SIZE, **given),
        helper.make_node("Reshape", ["last", "shape"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "D", "db"], ["logits"], "logits"),
    ]
    shapes = {"x": (steps, 1, p["W"].shape[1]), "logits": (1, CLASSES)}
    x, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, op.lower(), [x], [logits], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def accuracy(path: Path, x: np.ndarray, y: np.ndarray) -> float:
    session = exact_ort.session(ort, onnx.load(path), "ORT_ENABLE_EXTENDED")
    found = [session.run(None, {"x": image[:, None]})[0].argmax() for image in x]
    return float((np.array(found) == y).mean())


def compared(op: str, folder: Path, epochs: int = EPOCHS) -> tuple[float, float]:
    """The share of unseen images that float and int8 classify right; both files in a folder."""
    data = digits()
    whole, int8 = folder / f"{op.lower()}.onnx", folder / f"{op.lower()}-int8.onnx"
    onnx.save(model(op, trained(op, data, epochs)), whole)
    quantize(whole, int8, [{"x": image[:, None]} for image in data.x[:200]])
    one, other = (accuracy(path, data.unseen_x, data.unseen_y) for path in (whole, int8))
    return one, other


def main(ops: Sequence[str]) -> None:
    for op in ops or CELLS:
        with tempfile.TemporaryDirectory() as folder:
            one, other = compared(op, Path(folder))
        print(f"{op}: {100 * one:.1f} % in float, {100 * other:.1f} % in int8")


if __name__ == "__main__":
    main(sys.argv[1:])
