# SPDX-License-Identifier: Apache-2.0
"""Networks as people train them, small: signals, tokens and vectors."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .exported import Net
from .exported_networks import Network

SEQUENCES: dict[str, Network] = {}


def sequence(function: Network) -> Network:
    SEQUENCES[function.__name__] = function
    return function


@sequence
def tcn(n: Net) -> onnx.ModelProto:
    """Causal: padded on both sides, then cut."""
    y, depth = n.input(1, 4, 32), 4
    for dilation in (1, 2):
        pad, z = 2 * dilation, y
        for inner in (depth, 8):
            z = n.conv(z, inner, 8, (3,), pad=[pad], dilation=dilation)
            z = n.relu(n.cut(z, 2, 0, -pad))
        skip = y if depth == 8 else n.conv(y, depth, 8, (1,))
        y, depth = n.relu(n.op("Add", z, skip)), 8
    y = n.op("Gather", y, n.k(-1, np.int64), axis=2)
    return n.model(n.linear(y, 8, 3))


@sequence
def autoencoder_1d(n: Net) -> onnx.ModelProto:
    y = n.op("Tanh", n.conv(n.input(1, 2, 32), 2, 4, (5,), stride=2))
    y = n.op("Tanh", n.conv(y, 4, 8, (5,), stride=2))
    y = n.op("Tanh", n.transposed_conv(y, 8, 4, (4,), 2, 1))
    return n.model(n.transposed_conv(y, 4, 2, (4,), 2, 1))


@sequence
def m5(n: Net) -> onnx.ModelProto:
    y = n.relu(n.conv(n.input(1, 1, 256), 1, 8, (16,), stride=4, pad=[0]))
    y = n.pool(y, 4, axes=1)
    y = n.pool(n.relu(n.norm(n.conv(y, 8, 8, (3,)), 8)), 2, axes=1)
    y = n.pool(y, 7, axes=1, kind="AveragePool")
    y = n.tokens(n.transpose(y, 0, 2, 1), 8, 4)
    return n.model(n.op("LogSoftmax", y, axis=2))


@sequence
def keyword_ds_cnn(n: Net) -> onnx.ModelProto:
    y = n.relu(n.conv(n.input(1, 1, 20, 10), 1, 8, (5, 3), stride=2))
    for _ in range(2):
        y = n.relu(n.conv(n.relu(n.conv(y, 8, 8, groups=8)), 8, 8, (1, 1)))
    y = n.op("AveragePool", y, kernel_shape=[10, 5], strides=[10, 5])
    y = n.op("Squeeze", n.op("Squeeze", y, n.ints(3)), n.ints(2))
    return n.model(n.op("Softmax", n.linear(y, 8, 4), axis=1))


def _attention(n: Net, x: str, tokens: int, width: int, heads: int) -> str:
    each = width // heads
    parts = []
    for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        y = n.reshape(n.tokens(x, width, width), 1, tokens, heads, each)
        parts.append(n.transpose(y, *perm))
    query, key, value = parts
    score = n.op("MatMul", query, key)
    score = n.op("Div", score, n.k(math.sqrt(each)))
    y = n.op("MatMul", n.op("Softmax", score, axis=-1), value)
    y = n.reshape(n.transpose(y, 0, 2, 1, 3), 1, tokens, width)
    return n.tokens(y, width, width)


def _encoder(n: Net, x: str, tokens: int, width: int, decomposed: bool = False) -> str:
    x = n.layer_norm(n.op("Add", x, _attention(n, x, tokens, width, 2)), width, decomposed)
    y = n.tokens(n.gelu(n.tokens(x, width, 16)), 16, width)
    return n.layer_norm(n.op("Add", x, y), width, decomposed)


@sequence
def transformer(n: Net) -> onnx.ModelProto:
    y = n.op("Add", n.tokens(n.input(1, 6, 4), 4, 8), n.weight(n.rng.normal(size=(1, 6, 8)) / 4))
    y = _encoder(n, y, 6, 8)
    return n.model(n.linear(n.mean(y, [1], False), 8, 3))


@sequence
def transformer_decomposed(n: Net) -> onnx.ModelProto:
    y = _encoder(n, n.tokens(n.input(1, 6, 4), 4, 8), 6, 8, True)
    return n.model(n.linear(n.op("Gather", y, n.k(0, np.int64), axis=1), 8, 3))


@sequence
def transformer_packed(n: Net) -> onnx.ModelProto:
    """F.scaled_dot_product_attention: one projection, and factors on both sides."""
    x = n.input(1, 6, 8)
    packed = n.reshape(n.tokens(x, 8, 24), 1, 6, 3, 2, 4)
    packed = n.transpose(packed, 2, 0, 3, 1, 4)
    query, key, value = (n.op("Gather", packed, n.k(i, np.int64), axis=0) for i in range(3))
    scale = n.k(math.sqrt(1 / math.sqrt(4)))
    key = n.op("Mul", n.transpose(key, 0, 1, 3, 2), scale)
    score = n.op("Softmax", n.op("MatMul", n.op("Mul", query, scale), key), axis=-1)
    y = n.reshape(n.transpose(n.op("MatMul", score, value), 0, 2, 1, 3), 1, 6, 8)
    return n.model(n.op("Add", x, n.tokens(y, 8, 8)))


@sequence
def vit(n: Net) -> onnx.ModelProto:
    y = n.conv(n.input(1, 3, 8, 8), 3, 8, (4, 4), stride=4, pad=[0, 0])
    y = n.transpose(n.reshape(y, 1, 8, 4), 0, 2, 1)
    token = n.op("Expand", n.weight(n.rng.normal(size=(1, 1, 8)) / 4), n.ints(1, 1, 8))
    y = n.op("Add", n.cat(token, y), n.weight(n.rng.normal(size=(1, 5, 8)) / 4))
    z = n.op("Add", y, _attention(n, n.layer_norm(y, 8), 5, 8, 2))
    y = n.op("Add", z, n.tokens(n.gelu(n.tokens(n.layer_norm(z, 8), 8, 16)), 16, 8))
    y = n.op("Gather", n.layer_norm(y, 8), n.k(0, np.int64), axis=1)
    return n.model(n.linear(y, 8, 3))


@sequence
def mixer(n: Net) -> onnx.ModelProto:
    y = n.tokens(n.input(1, 6, 4), 4, 8)
    z = n.transpose(n.layer_norm(y, 8), 0, 2, 1)
    z = n.tokens(n.gelu(n.tokens(z, 6, 12)), 12, 6)
    y = n.op("Add", y, n.transpose(z, 0, 2, 1))
    y = n.op("Add", y, n.tokens(n.gelu(n.tokens(n.layer_norm(y, 8), 8, 16)), 16, 8))
    return n.model(n.linear(n.mean(n.layer_norm(y, 8), [1], False), 8, 3))


@sequence
def conformer_glu(n: Net) -> onnx.ModelProto:
    y = n.transpose(n.input(1, 12, 8), 0, 2, 1)
    a, b = n.split(n.conv(y, 8, 16, (1,)), 8, 8)
    z = n.conv(n.op("Mul", a, n.op("Sigmoid", b)), 8, 8, (5,), groups=8)
    z = n.conv(n.silu(n.norm(z, 8)), 8, 8, (1,))
    return n.model(n.transpose(n.op("Add", y, z), 0, 2, 1))


@sequence
def wavenet(n: Net) -> onnx.ModelProto:
    y, total = n.conv(n.input(1, 1, 32), 1, 8, (1,)), ""
    for dilation in (1, 2, 4):
        gate = [n.conv(y, 8, 8, (3,), dilation=dilation) for _ in range(2)]
        z = n.op("Mul", n.op("Tanh", gate[0]), n.op("Sigmoid", gate[1]))
        skip = n.conv(z, 8, 8, (1,))
        total = n.op("Add", total, skip) if total else skip
        y = n.op("Add", y, n.conv(z, 8, 8, (1,)))
    return n.model(n.conv(n.relu(total), 8, 2, (1,)))


@sequence
def mlp(n: Net) -> onnx.ModelProto:
    y = n.norm(n.input(1, 8), 8)
    y = n.op("Tanh", n.norm(n.linear(y, 8, 16), 16))
    return n.model(n.linear(n.op("Selu", n.linear(y, 16, 8)), 8, 1))


@sequence
def variational(n: Net) -> onnx.ModelProto:
    """A mean, and the exponential of a logarithm."""
    y = n.op("Elu", n.linear(n.input(1, 8), 8, 16), alpha=1.0)
    spread = n.op("Exp", n.op("Mul", n.linear(y, 16, 4), n.k(0.5)))
    return n.model(n.linear(y, 16, 4), spread)


@sequence
def kan(n: Net) -> onnx.ModelProto:
    """FastKAN: radial functions on a grid, and SiLU beside them."""
    x = n.input(1, 4)
    y = n.op("Sub", n.op("Unsqueeze", x, n.ints(-1)), n.weight(np.linspace(-2, 2, 5)))
    y = n.op("Pow", n.op("Div", y, n.k(1.0)), n.k(2))
    y = n.flatten(n.op("Exp", n.op("Neg", y)), 20)
    y = n.op("MatMul", y, n.weight(n.drawn(3, 20).T))
    return n.model(n.op("Add", y, n.linear(n.silu(x), 4, 3)))


@sequence
def kan_polynomial(n: Net) -> onnx.ModelProto:
    """Chebyshev polynomials one after the other, of one tanh."""
    t = n.op("Tanh", n.input(1, 4))
    second = n.op("Sub", n.op("Mul", n.op("Mul", t, t), n.k(2)), n.k(1))
    third = n.op("Sub", n.op("Mul", n.op("Mul", t, second), n.k(2)), t)
    return n.model(n.linear(n.cat(t, second, third), 12, 3))


@sequence
def panns(n: Net) -> onnx.ModelProto:
    """The mean over frequencies; the greatest and the mean over time."""
    y = n.pool(n.relu(n.conv(n.input(1, 1, 16, 8), 1, 8)), kind="AveragePool")
    y = n.mean(n.relu(n.conv(y, 8, 8)), [3], False)
    y = n.op("Add", n.reduce("ReduceMax", y, [2], False), n.mean(y, [2], False))
    y = n.relu(n.linear(y, 8, 8))
    return n.model(n.op("Sigmoid", n.linear(y, 8, 4)))


@sequence
def attention_pool(n: Net) -> onnx.ModelProto:
    """A weighted mean over time: softmax times the values, summed."""
    y = n.relu(n.conv(n.input(1, 4, 16), 4, 8, (3,)))
    weights = n.op("Softmax", n.conv(y, 8, 1, (1,)), axis=2)
    y = n.reduce("ReduceSum", n.op("Mul", y, weights), [2], False)
    return n.model(n.linear(y, 8, 3))


@sequence
def two_heads_shared(n: Net) -> onnx.ModelProto:
    """One linear layer on two values of one network."""
    y = n.relu(n.linear(n.input(1, 8), 8, 8))
    shared = n.linear_weights(8, 8)
    z = n.relu(n.linear(y, 8, 8, shared))
    return n.model(n.linear(n.relu(n.linear(z, 8, 8, shared)), 8, 3))


@sequence
def mish_net(n: Net) -> onnx.ModelProto:
    """Mish written out."""
    y = n.conv(n.input(1, 3, 16), 3, 8, (3,))
    y = n.op("Mul", y, n.op("Tanh", n.op("Softplus", y)))
    y = n.pool(n.conv(y, 8, 8, (3,)), 2, axes=1)
    return n.model(n.linear(n.flatten(y, 64), 64, 3))
