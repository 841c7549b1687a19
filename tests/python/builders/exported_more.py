# SPDX-License-Identifier: Apache-2.0
"""Networks as people train them, small: what ends in a score, a distance or a mask, and blocks
that are put together in unusual ways."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .exported import Net
from .exported_networks import Network

MORE: dict[str, Network] = {}


def network(function: Network) -> Network:
    MORE[function.__name__] = function
    return function


@network
def point_net(n: Net) -> onnx.ModelProto:
    """A learned transformation, and the greatest over all points."""
    x = n.input(1, 3, 16)
    y = n.reduce("ReduceMax", n.relu(n.conv(x, 3, 8, (1,))), [2], False)
    turn = n.reshape(n.linear(y, 8, 9), 1, 3, 3)
    y = n.op("MatMul", n.transpose(x, 0, 2, 1), turn)
    y = n.relu(n.conv(n.transpose(y, 0, 2, 1), 3, 8, (1,)))
    y = n.reduce("ReduceMax", y, [2], False)
    return n.model(n.op("LogSoftmax", n.linear(y, 8, 4), axis=-1))


@network
def graph_convolution(n: Net) -> onnx.ModelProto:
    """Neighbours of five joints, a constant matrix on the left."""
    x = n.input(1, 5, 4)
    near = n.weight(np.abs(n.drawn(5, 5)))
    y = n.relu(n.op("MatMul", near, n.tokens(x, 4, 8, False)))
    return n.model(n.linear(n.mean(y, [1], False), 8, 3))


@network
def enhancement_mask(n: Net) -> onnx.ModelProto:
    """A mask times the input."""
    x = n.input(1, 8, 20)
    y = n.relu(n.conv(x, 8, 8, (3,)))
    mask = n.op("Sigmoid", n.conv(n.op("Tanh", n.conv(y, 8, 8, (3,))), 8, 8, (1,)))
    return n.model(n.op("Mul", x, mask))


@network
def cosine_similarity(n: Net) -> onnx.ModelProto:
    """Two embeddings of length one, multiplied and summed."""
    ends, shared = [], [n.linear_weights(8, 12), n.linear_weights(12, 6)]
    for x in (n.input(1, 8), n.input(1, 8)):
        y = n.linear(n.relu(n.linear(x, 8, 12, shared[0])), 12, 6, shared[1])
        ends.append(n.op("Div", y, n.clip_norm(y)))
    return n.model(n.reduce("ReduceSum", n.op("Mul", *ends), [1], False))


@network
def anomaly_score(n: Net) -> onnx.ModelProto:
    """An autoencoder's mean squared error."""
    x = n.input(1, 16)
    y = n.relu(n.linear(n.relu(n.linear(x, 16, 4)), 4, 8))
    off = n.op("Sub", n.linear(y, 8, 16), x)
    return n.model(n.mean(n.op("Mul", off, off), [1], False))


@network
def mobile_one(n: Net) -> onnx.ModelProto:
    """Branches of a layer that were not joined."""
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    for _ in range(2):
        z = n.op("Add", n.conv(y, 8, 8), n.conv(y, 8, 8, (1, 1)))
        y = n.relu(n.op("Add", z, n.norm(y, 8)))
    return n.model(n.linear(n.flatten(n.global_pool(y), 8), 8, 4))


@network
def blaze_face(n: Net) -> onnx.ModelProto:
    """Channels are padded beside a strided block."""
    y = n.relu(n.conv(n.input(1, 3, 16, 16), 3, 8, stride=2))
    z = n.conv(n.conv(y, 8, 8, stride=2, groups=8), 8, 12, (1, 1))
    side = n.op("Pad", n.pool(y), n.ints(0, 0, 0, 0, 0, 4, 0, 0), n.k(0))
    y = n.relu(n.op("Add", z, side))
    score = n.reshape(n.transpose(n.conv(y, 12, 2, (1, 1)), 0, 2, 3, 1), 1, 32, 1)
    box = n.reshape(n.transpose(n.conv(y, 12, 8, (1, 1)), 0, 2, 3, 1), 1, 32, 4)
    return n.model(n.op("Sigmoid", score), box)


@network
def mobile_vit(n: Net) -> onnx.ModelProto:
    """Patches become tokens and come back."""
    y = n.silu(n.conv(n.input(1, 3, 8, 8), 3, 8, stride=2))
    z = n.reshape(y, 8, 2, 2, 2, 2)
    z = n.reshape(n.transpose(z, 2, 4, 1, 3, 0), 4, 4, 8)
    z = n.layer_norm(n.reshape(z, 1, 16, 8), 8)
    z = n.op("Add", z, n.tokens(n.silu(n.tokens(z, 8, 16)), 16, 8))
    z = n.reshape(z, 2, 2, 2, 2, 8)
    z = n.reshape(n.transpose(z, 4, 2, 0, 3, 1), 1, 8, 4, 4)
    y = n.silu(n.conv(n.cat(y, n.conv(z, 8, 8, (1, 1))), 16, 8))
    return n.model(n.linear(n.mean(y, [-1, -2], False), 8, 4))


@network
def nbeats(n: Net) -> onnx.ModelProto:
    """Blocks that subtract what they explain."""
    x, total = n.input(1, 12), ""
    for _ in range(2):
        y = n.relu(n.linear(n.relu(n.linear(x, 12, 16)), 16, 16))
        back, ahead = n.linear(y, 16, 12), n.linear(y, 16, 4)
        x = n.op("Sub", x, back)
        total = n.op("Add", total, ahead) if total else ahead
    return n.model(total)


@network
def highway(n: Net) -> onnx.ModelProto:
    """Gates: g * h + (1 - g) * x."""
    x = n.input(1, 8)
    for _ in range(2):
        gate, h = n.op("Sigmoid", n.linear(x, 8, 8)), n.relu(n.linear(x, 8, 8))
        rest = n.op("Mul", n.op("Sub", n.k(1), gate), x)
        x = n.op("Add", n.op("Mul", gate, h), rest)
    return n.model(n.linear(x, 8, 3))


@network
def snake_vocoder(n: Net) -> onnx.ModelProto:
    """x + sin(x)^2, upsampled."""
    y = n.conv(n.input(1, 4, 8), 4, 8, (3,))
    y = n.op("Add", y, n.op("Pow", n.op("Sin", y), n.k(2)))
    y = n.transposed_conv(y, 8, 4, (4,), 2, 1)
    y = n.op("LeakyRelu", y, alpha=0.2)
    return n.model(n.op("Tanh", n.conv(y, 4, 1, (3,))))


@network
def pose_soft_argmax(n: Net) -> onnx.ModelProto:
    """The mean place of heat: softmax over an image, times places, summed."""
    y = n.relu(n.conv(n.input(1, 3, 8, 8), 3, 8))
    heat = n.op("Softmax", n.reshape(n.conv(y, 8, 4, (1, 1)), 1, 4, 64), axis=-1)
    places = np.stack(np.meshgrid(np.linspace(-1, 1, 8), np.linspace(-1, 1, 8)), -1)
    return n.model(n.op("MatMul", heat, n.weight(places.reshape(64, 2))))


@network
def swin_window(n: Net) -> onnx.ModelProto:
    """Windows of an image, shifted by a roll."""
    y = n.conv(n.input(1, 3, 8, 8), 3, 8, (2, 2), stride=2, pad=[0, 0])
    y = n.transpose(y, 0, 2, 3, 1)
    y = n.cat(n.cut(y, 1, 1, 2**63 - 1), n.cut(y, 1, 0, 1), axis=1)
    z = n.reshape(y, 1, 2, 2, 2, 2, 8)
    z = n.reshape(n.transpose(z, 0, 1, 3, 2, 4, 5), 4, 4, 8)
    q, k, v = (n.tokens(z, 8, 8) for _ in range(3))
    score = n.op("Mul", n.op("MatMul", q, n.transpose(k, 0, 2, 1)), n.k(1 / math.sqrt(8)))
    score = n.op("Add", score, n.weight(n.rng.normal(size=(1, 4, 4)) / 4))
    z = n.op("MatMul", n.op("Softmax", score, axis=-1), v)
    z = n.transpose(n.reshape(z, 1, 2, 2, 2, 2, 8), 0, 1, 3, 2, 4, 5)
    y = n.op("Add", y, n.reshape(z, 1, 4, 4, 8))
    return n.model(n.linear(n.mean(n.layer_norm(y, 8), [1, 2], False), 8, 3))
