# SPDX-License-Identifier: Apache-2.0
"""Trains a small network in numpy alone, and writes what doc/tutorial.md goes on with: net.onnx, in
float; calibration.npz, pictures to quantise on; picture.npy, one that it has not seen.

python examples/tutorial/train.py

train_torch.py does the same in PyTorch.
"""

from __future__ import annotations

import itertools

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from shapes import NAMES, SIZE, pictures

TRAINED, HELD_OUT, CALIBRATED = 2000, 500, 100
EPOCHS, BATCH, RATE, MOMENTUM = 12, 50, 0.05, 0.9
CHANNELS = (1, 8, 16)

Weights = dict[str, np.ndarray]


def windows(x: np.ndarray) -> np.ndarray:
    """What 3 x 3 windows see that move by two pixels, (N, H, W, C * 9)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    return seen.transpose(0, 2, 3, 1, 4, 5).reshape(len(x), *seen.shape[2:4], -1)


def unwound(seen: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Adds up what windows say of their pixels: windows() backwards."""
    x = np.zeros((*shape[:2], shape[2] + 2, shape[3] + 2))
    parts = seen.reshape(*seen.shape[:3], shape[1], 3, 3).transpose(0, 3, 1, 2, 4, 5)
    for dy in range(3):
        for dx in range(3):
            x[:, :, dy : dy + shape[2] : 2, dx : dx + shape[3] : 2] += parts[..., dy, dx]
    return x[:, :, 1:-1, 1:-1]


def begun(rng: np.random.Generator) -> Weights:
    """Random weights to begin with."""
    weights: Weights = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(CHANNELS)):
        spread = (2 / (9 * inputs)) ** 0.5
        weights[f"w{layer}"] = rng.normal(0, spread, (outputs, inputs * 9))
        weights[f"b{layer}"] = np.zeros(outputs)
    weights["w"] = rng.normal(0, 0.3, (len(NAMES), CHANNELS[-1]))
    weights["b"] = np.zeros(len(NAMES))
    return weights


def scores(weights: Weights, x: np.ndarray, kept: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    """Of each shape. kept: gets what gradients() needs of each layer."""
    for layer in range(len(CHANNELS) - 1):
        seen = windows(x)
        y = np.maximum(seen @ weights[f"w{layer}"].T + weights[f"b{layer}"], 0)
        kept.append((seen, y, np.array(x.shape)))
        x = y.transpose(0, 3, 1, 2)
    mean = x.mean(axis=(2, 3))
    kept.append((mean,))
    return mean @ weights["w"].T + weights["b"]


def gradients(weights: Weights, x: np.ndarray, labels: np.ndarray) -> Weights:
    """Of the mean cross entropy."""
    kept: list[tuple[np.ndarray, ...]] = []
    found = scores(weights, x, kept)
    chances = np.exp(found - found.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(x)), labels] -= 1
    wrong = chances / len(x)
    slopes = {"w": wrong.T @ kept[-1][0], "b": wrong.sum(axis=0)}
    pixels = kept[-2][1].shape[1] * kept[-2][1].shape[2]
    back = np.broadcast_to((wrong @ weights["w"])[:, None, None] / pixels, kept[-2][1].shape)
    for layer in reversed(range(len(CHANNELS) - 1)):
        seen, y, shape = kept[layer]
        back = back * (y > 0)
        slopes[f"w{layer}"] = np.einsum("nhwo,nhwi->oi", back, seen)
        slopes[f"b{layer}"] = back.sum(axis=(0, 1, 2))
        back = unwound(back @ weights[f"w{layer}"], tuple(shape)).transpose(0, 2, 3, 1)
    return slopes


def trained(images: np.ndarray, labels: np.ndarray) -> Weights:
    """Stochastic gradient descent with momentum."""
    rng = np.random.default_rng(1)
    weights = begun(rng)
    moving = {name: np.zeros_like(value) for name, value in weights.items()}
    for _ in range(EPOCHS):
        for pick in np.split(rng.permutation(len(images)), len(images) // BATCH):
            for name, slope in gradients(weights, images[pick], labels[pick]).items():
                moving[name] = MOMENTUM * moving[name] - RATE * slope
                weights[name] += moving[name]
    return weights


def exported(weights: Weights) -> onnx.ModelProto:
    """The network as .onnx."""
    nodes, constants, x = [], [], "image"

    def constant(name: str, array: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    for layer, inputs in enumerate(CHANNELS[:-1]):
        shape = (-1, inputs, 3, 3)
        names = [x, constant(f"w{layer}", weights[f"w{layer}"].reshape(shape))]
        names.append(constant(f"b{layer}", weights[f"b{layer}"]))
        window = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
        nodes.append(helper.make_node("Conv", names, [f"conv{layer}"], f"conv{layer}", **window))
        x = f"relu{layer}"
        nodes.append(helper.make_node("Relu", [f"conv{layer}"], [x], x))
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flat"))
    dense = ["flat", constant("w", weights["w"]), constant("b", weights["b"])]
    nodes.append(helper.make_node("Gemm", dense, ["scores"], "dense", transB=1))
    ends = [("image", [1, 1, SIZE, SIZE]), ("scores", [1, len(NAMES)])]
    x_info, y_info = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends
    )
    graph = helper.make_graph(nodes, "shapes", [x_info], [y_info], constants)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def main() -> None:
    images, labels = pictures(TRAINED, 1)
    weights = trained(images, labels)
    unseen, wanted = pictures(HELD_OUT, 2)
    right = (scores(weights, unseen, []).argmax(axis=1) == wanted).mean()
    print(f"{right:.1%} of {HELD_OUT} pictures that it has not seen are right")
    onnx.save(exported(weights), "net.onnx")
    np.savez("calibration.npz", image=images[:CALIBRATED])
    np.save("picture.npy", unseen[:1])
    print(f"wrote net.onnx, calibration.npz and picture.npy, a {NAMES[wanted[0]]}")


if __name__ == "__main__":
    main()
