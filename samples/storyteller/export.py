# SPDX-License-Identifier: Apache-2.0
"""Writes one step of the network as a float ONNX file: a token and the caches of earlier tokens
become the logits of the next token and the caches for the next step. Learned positions also read
the token's position."""

from __future__ import annotations

import numpy as np
import onnx
from network import EPSILON, Shape, Weights, bias
from onnx import TensorProto, helper, numpy_helper

# What a mask adds to scores that do not count.
HIDDEN = -1e4


class _Writer:
    """Nodes and constants of a graph. Methods return the name of the tensor that they make."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def node(self, op: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants[name] = array
        return name

    def ints(self, *values: int) -> str:
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(f"number_{value:.8g}", np.array(value, np.float32))

    def dense(self, x: str, name: str, weights: np.ndarray) -> str:
        return self.node("MatMul", [x, self.constant(f"{name}.weight", weights)], name)

    def rms_norm(self, x: str, name: str, gain: np.ndarray) -> str:
        """x / sqrt(mean(x ** 2) + epsilon) * gain, as PyTorch exports it."""
        square = self.node("Pow", [x, self.number(2)], f"{name}/square")
        mean = self.node("ReduceMean", [square], f"{name}/mean", axes=[-1], keepdims=1)
        total = self.node("Add", [mean, self.number(EPSILON)], f"{name}/total")
        root = self.node("Sqrt", [total], f"{name}/root")
        ratio = self.node("Div", [x, root], f"{name}/ratio")
        return self.node("Mul", [ratio, self.constant(f"{name}.gain", gain)], name)


def _cached(writer: _Writer, shape: Shape, layer: int, what: str, new: str) -> str:
    """The keys or values of the last `shape.tokens` tokens, (1, key heads, tokens, depth). Without
    the oldest token, they become the cache of the next step."""
    name = f"{layer}.{what}"
    new = writer.node(
        "Reshape", [new, writer.ints(1, shape.key_heads, 1, shape.depth)], f"{name}/new"
    )
    every = writer.node("Concat", [f"past_key_values.{name}", new], f"{name}/all", axis=2)
    bounds = [writer.ints(1), writer.ints(shape.tokens), writer.ints(2)]
    writer.node("Slice", [every, *bounds], f"present.{name}")
    return every


def _distance(writer: _Writer, shape: Shape) -> str:
    """The addend of scores: slot j of a cache is always tokens - 1 - j tokens back."""
    sharing = shape.heads // shape.key_heads
    fixed = bias(shape)[:, ::-1].reshape(1, shape.key_heads, sharing, shape.tokens)
    return writer.constant("distance", fixed)


def _mask(writer: _Writer, shape: Shape) -> str:
    """The addend of scores that hides slots in front of a story, computed from the position."""
    last = writer.constant("last", np.array(shape.tokens - 1))
    first = writer.node("Sub", [last, "position_ids"], "mask/first")
    slots = writer.constant("slots", np.arange(shape.tokens).reshape(1, 1, 1, -1))
    seen = writer.node("GreaterOrEqual", [slots, first], "mask/seen")
    return writer.node("Where", [seen, writer.number(0), writer.number(HIDDEN)], "mask")


def _attention(
    writer: _Writer, shape: Shape, weights: Weights, layer: int, x: str, addend: str
) -> str:
    """Each key head serves shape.heads / shape.key_heads query heads, so that no key is copied."""
    name, depth, count = f"{layer}", shape.depth, shape.key_heads
    query, key, value = (
        writer.dense(x, f"{name}.{part}", weights[f"{layer}.{part}"])
        for part in ("query", "key", "value")
    )
    split = writer.ints(1, count, shape.heads // count, depth)
    query = writer.node("Reshape", [query, split], f"{name}.query/heads")
    keys = _cached(writer, shape, layer, "key", key)
    values = _cached(writer, shape, layer, "value", value)
    turned = writer.node("Transpose", [keys], f"{name}/turned", perm=[0, 1, 3, 2])
    scores = writer.node("MatMul", [query, turned], f"{name}/scores")
    scaled = writer.node("Mul", [scores, writer.number(depth**-0.5)], f"{name}/scaled")
    placed = writer.node("Add", [scaled, addend], f"{name}/placed")
    shares = writer.node("Softmax", [placed], f"{name}/shares", axis=-1)
    seen = writer.node("MatMul", [shares, values], f"{name}/seen")
    joined = writer.node(
        "Reshape", [seen, writer.ints(1, 1, shape.heads * depth)], f"{name}/joined"
    )
    return writer.dense(joined, f"{name}.output", weights[f"{layer}.output"])


def _feed_forward(writer: _Writer, weights: Weights, layer: int, x: str) -> str:
    """SwiGLU: down(silu(gate(x)) * up(x))."""
    name = f"{layer}"
    gate = writer.dense(x, f"{name}.gate", weights[f"{layer}.gate"])
    up = writer.dense(x, f"{name}.up", weights[f"{layer}.up"])
    sigmoid = writer.node("Sigmoid", [gate], f"{name}/sigmoid")
    silu = writer.node("Mul", [gate, sigmoid], f"{name}/silu")
    product = writer.node("Mul", [silu, up], f"{name}/product")
    return writer.dense(product, f"{name}.down", weights[f"{layer}.down"])


def step_model(shape: Shape, weights: Weights) -> onnx.ModelProto:
    """The float model of one step; opset 17."""
    writer = _Writer()
    table = writer.constant("embedding.weight", weights["embedding"])
    x = writer.node("Gather", [table, "input_ids"], "embedding", axis=0)
    if shape.position:
        places = writer.constant("position.weight", weights["position"])
        place = writer.node("Gather", [places, "position_ids"], "position", axis=0)
        x = writer.node("Add", [x, place], "placed")
    addend = _mask(writer, shape) if shape.position else _distance(writer, shape)
    for layer in range(shape.layers):
        at = f"{layer}"
        normal = writer.rms_norm(x, f"{at}.attention_norm", weights[f"{layer}.attention_norm"])
        seen = _attention(writer, shape, weights, layer, normal, addend)
        x = writer.node("Add", [x, seen], f"{at}.attended")
        normal = writer.rms_norm(x, f"{at}.feed_norm", weights[f"{layer}.feed_norm"])
        x = writer.node("Add", [x, _feed_forward(writer, weights, layer, normal)], f"{at}.out")
    normal = writer.rms_norm(x, "norm", weights["norm"])
    writer.dense(normal, "logits", weights["logits"])
    return _model(shape, writer)


def _model(shape: Shape, writer: _Writer) -> onnx.ModelProto:
    def tensor(
        name: str, sizes: tuple[int, ...], kind: int = TensorProto.FLOAT
    ) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, sizes)

    caches = [f"{layer}.{what}" for layer in range(shape.layers) for what in ("key", "value")]
    sizes = (1, shape.key_heads, shape.tokens - 1, shape.depth)
    numbers = ["input_ids", "position_ids"] if shape.position else ["input_ids"]
    graph = helper.make_graph(
        writer.nodes,
        "storyteller",
        [
            *(tensor(name, (1, 1), TensorProto.INT64) for name in numbers),
            *(tensor(f"past_key_values.{name}", sizes) for name in caches),
        ],
        [
            tensor("logits", (1, 1, shape.words)),
            *(tensor(f"present.{name}", sizes) for name in caches),
        ],
        [numpy_helper.from_array(array, name) for name, array in writer.constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
