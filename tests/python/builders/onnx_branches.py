# SPDX-License-Identifier: Apache-2.0
"""Quantised .onnx files with If and Loop, most of them known before they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from .onnx_models import OnnxModel, conv

SHAPE = (1, 4, 5, 5)
FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


class Inner(OnnxModel):
    """Builds an inner graph, whose names are those of each other one of its level."""

    def __init__(self, seed: int = 0, level: int = 1):
        super().__init__(seed, opset=17)
        self.level = level

    def constant(self, array) -> str:
        name = f"{super().constant(array)}.{self.level}"
        self.initializers[-1].name = name
        return name

    def node(self, op: str, inputs, domain: str = "", **attributes) -> str:
        name = f"{super().node(op, inputs, domain, **attributes)}.{self.level}"
        self.nodes[-1].output[0], self.nodes[-1].name = name, f"n_{name}"
        return name


def body(m: OnnxModel, results: Sequence[str], inputs: Sequence[str] = ()) -> onnx.GraphProto:
    """The nodes of a builder as a graph of its own: of a Loop if it has inputs, and then the first
    result is its condition."""
    kinds = [(INT64, ()), (BOOL, ()), (FLOAT, SHAPE)]
    given = [
        helper.make_tensor_value_info(name, *kind)
        for name, kind in zip(inputs, kinds[: len(inputs)], strict=True)
    ]
    made = [
        helper.make_tensor_value_info(name, BOOL if inputs and not place else FLOAT, None)
        for place, name in enumerate(results)
    ]
    return helper.make_graph(m.nodes, "body", given, made, m.initializers)


def layer(x: str, seed: int) -> tuple[OnnxModel, str]:
    """A quantised convolution in an inner graph."""
    m = Inner(seed)
    y, out_scale = conv(4, 4, (1, 1))(m, x, 0.05)
    return m, m.qdq(y, m.stated(out_scale))


def branch(x: str, seed: int) -> onnx.GraphProto:
    m, y = layer(x, seed)
    return body(m, [y])


def choice(m: OnnxModel, condition: str, x: str) -> str:
    """An If between two layers of x."""
    graphs = {"then_branch": branch(x, 1), "else_branch": branch(x, 2)}
    return m.node("If", [condition], **graphs)


def constant(value) -> Callable[[OnnxModel, str], str]:
    return lambda m, x: choice(m, m.constant(np.array(value)), x)


def by_node(m: OnnxModel, x: str) -> str:
    value = helper.make_tensor("c", BOOL, [1], [0])
    return choice(m, m.node("Not", [m.node("Constant", [], value=value)]), x)


def by_shape(m: OnnxModel, x: str) -> str:
    """As PyTorch exports squeeze(): by the size of an axis."""
    return choice(m, has_size(m, x, 1, 4), x)


def has_size(m: OnnxModel, x: str, axis: int, size: int) -> str:
    sizes = m.node("Gather", [m.node("Shape", [x]), m.constant(np.int64(axis))])
    return m.node("Equal", [sizes, m.constant(np.int64(size))])


def chained(m: OnnxModel, x: str) -> str:
    """The second condition is the size of the first result, whose rank onnx cannot infer."""
    parts = [Inner(), Inner()]
    ends = [
        parts[0].node("Squeeze", [x, parts[0].constant(np.array([0]))]),
        parts[1].node("Identity", [x]),
    ]
    graphs = [body(part, [end]) for part, end in zip(parts, ends, strict=True)]
    first = m.node("If", [has_size(m, x, 0, 1)], then_branch=graphs[0], else_branch=graphs[1])
    return choice(m, has_size(m, first, 0, 4), m.node("Unsqueeze", [first, m.constant([0])]))


def nested(m: OnnxModel, x: str) -> str:
    """An If in a branch. It reads a tensor of the branch and one of the graph."""
    outer, y = layer(x, 3)
    inner = Inner(level=2)
    total = body(inner, [inner.qdq(inner.node("Add", [y, x]), inner.stated(0.1, 3))])
    other = Inner(level=2)
    other = body(other, [other.node("Identity", [y])])
    last = outer.node("If", [outer.constant(True)], then_branch=total, else_branch=other)
    return m.node(
        "If", [m.constant(True)], then_branch=body(outer, [last]), else_branch=branch(x, 2)
    )


def two(m: OnnxModel, x: str) -> str:
    """One If behind the other, with the same names in both."""
    return choice(m, m.constant(True), choice(m, m.constant(True), x))


def same_names(m: OnnxModel, x: str) -> str:
    """The graph has tensors with the names that the branch's would have."""
    chosen = choice(m, m.constant(True), x)
    for inner in branch(x, 1).node:
        m.nodes.append(helper.make_node("Relu", [x], [f"{chosen}/{inner.output[0]}"]))
    return m.node("Add", [chosen, x])


def several(m: OnnxModel, x: str) -> str:
    """Three results: a layer, a tensor of the graph, and a constant."""
    inner, y = layer(x, 4)
    same = inner.node("Identity", [x])
    graph = body(inner, [y, same, inner.constant(np.full((1, 4, 1, 1), 0.25, np.float32))])
    m.node("If", [m.constant(False)], then_branch=graph, else_branch=graph)
    m.nodes[-1].output[:] = ["first", "second", "third"]
    total = m.qdq(m.node("Add", ["first", "second"]), m.stated(0.13, 1))
    return m.node("Add", [total, "third"])


def loop(limit, condition) -> Callable[[OnnxModel, str], str]:
    """A Loop of one layer; limit and condition: None without one."""

    def build(m: OnnxModel, x: str) -> str:
        inner, y = layer("state", 5)
        step = inner.node("Cast", ["step"], to=FLOAT)
        y = inner.qdq(inner.node("Add", [y, step]), inner.stated(0.1, 2))
        goes_on = inner.node("Identity", ["goes_on"])
        graph = body(inner, [goes_on, y], ["step", "goes_on", "state"])
        given = [
            "" if limit is None else m.constant(np.int64(limit)),
            "" if condition is None else m.constant(np.array(condition)),
        ]
        return m.node("Loop", [*given, x], body=graph)

    return build


CASES: dict[str, Callable[[OnnxModel, str], str]] = {
    "then": constant(True),
    "else": constant([False]),
    "by node": by_node,
    "by shape": by_shape,
    "chained": chained,
    "nested": nested,
    "two": two,
    "same names": same_names,
    "several": several,
    "loop once": loop(1, True),
    "loop once, no condition": loop(1, None),
    "loop never": loop(0, None),
    "loop never, endless": loop(None, False),
}


def of_input(m: OnnxModel, x: str) -> str:
    """The condition is a value of the input."""
    first = m.node("ReduceMax", [x], keepdims=0)
    return choice(m, m.node("Greater", [first, m.constant(np.float32(0))]), x)


def endless(m: OnnxModel, x: str) -> str:
    """A Loop without a limit, in a file with an unnamed constant."""
    m.node("TopK", [m.constant(np.zeros(1, np.float32)), m.constant(np.array([1]))])
    m.nodes[-1].output.insert(0, "")
    return loop(None, True)(m, x)


def scanning(m: OnnxModel, x: str) -> str:
    """A Loop of one step that also stacks a value of each step."""
    y = loop(1, True)(m, x)
    graph = m.nodes[-1].attribute[0].g
    graph.output.append(graph.output[1])
    m.nodes[-1].output.append("stacked")
    return y


REFUSED: dict[str, Callable[[OnnxModel, str], str]] = {
    "of input": of_input,
    "loop twice": loop(2, True),
    "loop, endless": endless,
    "loop, scanning": scanning,
}


def model(case: Callable[[OnnxModel, str], str], batch: int | str = 1) -> onnx.ModelProto:
    """A file from input x to the case's result, both quantised."""
    m = OnnxModel(0, opset=17)
    y = m.qdq(case(m, m.qdq("x", m.stated(0.05, 0))), m.stated(0.2, 5))
    shape = (batch, *SHAPE[1:])
    return m.proto({"x": (FLOAT, shape)}, {y: (FLOAT, None)})


def float_model() -> onnx.ModelProto:
    """In float, from x to y: a product by weights of the chosen branch."""
    rng = np.random.default_rng(0)
    graphs = {}
    for name in ("then_branch", "else_branch"):
        inner = Inner()
        weights = inner.constant(rng.normal(size=(5, 6)).astype(np.float32))
        graphs[name] = body(inner, [inner.node("Relu", [inner.node("MatMul", ["x", weights])])])
    m = OnnxModel(0, opset=17)
    y = m.node("If", [has_size(m, "x", 1, 4)], **graphs)
    return m.proto({"x": (FLOAT, ("N", *SHAPE[1:]))}, {y: (FLOAT, ("N", 4, 5, 6))})
