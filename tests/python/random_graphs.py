# SPDX-License-Identifier: Apache-2.0
"""Random layers of every kind, with shapes and parameters that reach the kernels' corners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from random_builder import Builder
from random_operators import OPERATORS
from vmcu_tools.graph import Graph, Node, Op, Tensor, Window
from vmcu_tools.ops import Form, serves
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.log_softmax import LogSoftmaxSquaring
from vmcu_tools.ops.matmul import MatMul
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.pad import Pad
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.ops.reshape import Reshape
from vmcu_tools.ops.softmax import Softmax
from vmcu_tools.plan.plan import SCRATCH_ALIGN, Placement, Plan, Step, pool_scratch
from vmcu_tools.planner.places.overlap import clearance
from vmcu_tools.quant import FixedPoint, FixedSum, FloatScale


def conv2d(b: Builder) -> Tensor:
    groups = b.pick(1, 1, 1, 2, 3)
    h, w, _ = b.shape()
    depth, per_group = b.pick(1, 3, 4, 5, 9), b.pick(1, 2, 3, 5)
    x = b.input((h, w, depth * groups))
    return convolution(b, x, *b.window(x.shape), per_group, groups)


def pointwise(b: Builder) -> Tensor:
    x = b.input(b.shape())
    return convolution(b, x, Window(), *x.shape[:2], b.pick(1, 2, 3, 8, 11))


def column(b: Builder) -> Tensor:
    """A convolution as wide as its input: a dense kernel of several rows, where none is padding or
    scratch shall be saved."""
    x = b.input(b.shape())
    kernel_h, stride_h, dilation_h = b.pick(1, 2, 3), b.pick(1, 2), b.pick(1, 1, 2)
    above, below = (int(b.rng.integers(0, kernel_h)) * b.pick(0, 0, 1) for _ in range(2))
    window = Window(
        (kernel_h, x.shape[1]), (stride_h, b.pick(1, 2)), (dilation_h, 1), (above, 0, below, 0)
    )
    if window.out_size(0, x.shape[0]) < 1:
        window = replace(window, kernel=(1, x.shape[1]), pad=(0, 0, 0, 0))
    return convolution(b, x, window, window.out_size(0, x.shape[0]), 1, b.pick(1, 4, 5, 11))


def convolution(
    b: Builder, x: Tensor, window: Window, out_h: int, out_w: int, per_group: int, groups: int = 1
) -> Tensor:
    depth, cout = x.shape[2] // groups, per_group * groups
    op = Conv2D(
        b.weights(cout, *window.kernel, depth),
        b.bias(cout),
        window,
        b.requant(cout, depth * window.kernel[0] * window.kernel[1]),
        groups,
        b.weight_bits,
        **b.limits(),
    )
    return b.node(op, [x], (out_h, out_w, cout))


def depthwise(b: Builder) -> Tensor:
    x = b.input(b.shape())
    return depthwise_of(b, x, *b.window(x.shape), b.pick(1, 1, 2, 3))


def depthwise_square(b: Builder) -> Tensor:
    """The windows that networks have, each with a kernel of its own."""
    taps, stride = b.pick(3, 5, 7), (b.pick(1, 1, 2, 3), b.pick(1, 2))
    pads = [int(b.rng.integers(0, taps // 2 + 1)) for _ in range(4)]
    shape = b.pick(taps, taps + 1, 13), b.pick(taps, taps + 1, 12, 19), b.pick(1, 2, 3, 4, 5, 9)
    dilation = b.pick(1, 1, 2) if shape[0] > 2 * taps else 1
    window = Window((taps, taps), stride, (dilation, 1), (pads[0], pads[1], pads[2], pads[3]))
    size = window.out_size(0, shape[0]), window.out_size(1, shape[1])
    return depthwise_of(b, b.input(shape), window, *size, b.pick(1, 1, 2, 4))


def depthwise_of(
    b: Builder, x: Tensor, window: Window, out_h: int, out_w: int, multiplier: int
) -> Tensor:
    cout = x.shape[2] * multiplier
    op = DepthwiseConv2D(
        b.weights(*window.kernel, cout),
        b.bias(cout),
        window,
        b.requant(cout, window.kernel[0] * window.kernel[1]),
        multiplier,
        b.weight_bits,
        **b.limits(),
    )
    return b.node(op, [x], (out_h, out_w, cout))


def fully_connected(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 2), b.pick(1, 3, 16, 61)))
    cout = b.pick(1, 3, 10)
    op = FullyConnected(
        b.weights(cout, x.shape[2]),
        b.bias(cout),
        b.requant(cout, x.shape[2]),
        b.weight_bits,
        **b.limits(),
    )
    return b.node(op, [x], (*x.shape[:2], cout))


def per_tensor(b: Builder) -> Tensor:
    """A fully connected layer, or a 1 x 1 convolution, with one factor, of which most have a kernel
    without factors in its stream."""
    b.weight_bits = b.pick(4, 8)
    x = b.input((b.pick(1, 1, 3), 1, b.pick(8, 8, 24, 40, 9)))
    cout, depth = b.pick(128, 128, 128, 132, 129), x.shape[2]
    requant = b.requant(1, depth).pick(np.zeros(cout, np.int64))
    # Channels are joined unless a weight is -128.
    weights = np.maximum(b.weights(cout, depth), -127)
    more = {"weight_bits": b.weight_bits, **(b.limits() if b.rng.random() < 0.2 else {})}
    if b.rng.random() < 0.5:
        op: Op = FullyConnected(weights, b.bias(cout), requant, **more)
    else:
        window = Window()
        op = Conv2D(weights[:, None, None], b.bias(cout), window, requant, **more)
    b.weight_bits = 8
    return b.node(op, [x], (*x.shape[:2], cout))


def int4(b: Builder) -> Tensor:
    """A layer with weights of 4 bits."""
    b.weight_bits = 4
    found = (conv2d, pointwise, column, fully_connected, depthwise)[b.pick(*range(5))](b)
    b.weight_bits = 8
    return found


def add(b: Builder) -> Tensor:
    x = b.input(b.shape())
    y = b.input(x.shape)
    fixed = FixedSum(b.factor(0.1, 1.0), b.factor(0.1, 1.0), b.factor(2.0**-21, 2.0**-17))
    op = Add(fixed if b.rng.random() < 0.5 else b.float_sum(), **b.limits())
    return b.node(op, [x, y], x.shape)


def average_pool(b: Builder) -> Tensor:
    x = b.input(b.shape())
    window, out_h, out_w = b.window(x.shape)
    requant, of_sum = b.factor(1 / 512, 1 / 64) if b.rng.random() < 0.7 else None, False
    if requant is not None and b.rng.random() < 0.6:
        taps = window.kernel[0] * window.kernel[1]
        real = np.array([b.rng.uniform(0.3, 2) / taps], np.float32)
        of_sum, requant = True, FixedPoint.of(real) if b.rng.random() < 0.5 else FloatScale(real)
    padded = bool(b.rng.random() < 0.5)
    op = AveragePool2D(window, requant, padded, of_sum, **b.limits())
    return b.node(op, [x], (out_h, out_w, x.shape[2]))


def max_pool(b: Builder) -> Tensor:
    x = b.input(b.shape())
    window, out_h, out_w = b.window(x.shape)
    return b.node(MaxPool2D(window, **b.limits()), [x], (out_h, out_w, x.shape[2]))


def pad(b: Builder) -> Tensor:
    x = b.input(b.shape())
    amounts = tuple((int(before), int(after)) for before, after in b.rng.integers(0, 4, (3, 2)))
    shape = tuple(size + sum(pair) for size, pair in zip(x.shape, amounts, strict=True))
    return b.node(Pad(amounts, int(b.rng.integers(-128, 128))), [x], shape)


def reshape(b: Builder) -> Tensor:
    shape = b.rng.permutation([b.pick(1, 2, 3), b.pick(2, 4, 6), b.pick(3, 5, 12)])
    x = b.input(tuple(int(v) for v in shape))
    return b.node(Reshape(), [x], tuple(int(v) for v in b.rng.permutation(x.shape)))


def concat(b: Builder) -> Tensor:
    axis = b.pick(0, 1, 2)
    first = b.shape()
    inputs, tables = [], []
    for _ in range(b.pick(2, 3)):
        size = list(first)
        size[axis] = b.pick(1, 2, 5)
        inputs.append(b.input((size[0], size[1], size[2])))
        table = b.rng.integers(-128, 128, 256).astype(np.int8)
        tables.append(table if b.rng.random() < 0.5 else None)
    shape = list(first)
    shape[axis] = sum(tensor.shape[axis] for tensor in inputs)
    return b.node(Concat(axis, tuple(tables)), inputs, (shape[0], shape[1], shape[2]))


def requantize(b: Builder) -> Tensor:
    x = b.input(b.shape())
    requant = b.factor(0.2, 5.0) if b.rng.random() < 0.7 else None
    return b.node(Requantize(requant, **b.limits()), [x], x.shape)


def softmax(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 2), b.pick(1, 2, 10, 70)))
    if b.rng.random() < 0.5:
        return b.node(Softmax(b.exponentials(31), False, **b.limits()), [x], x.shape)
    scale = float(b.rng.uniform(0.003, 0.01))
    return b.node(Softmax(b.exponentials(23), True, scale, **b.limits()), [x], x.shape)


def log_softmax_onnx(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 2), b.pick(1, 2, 10, 70)))
    step, gain = int(b.rng.integers(1, 1 << 18)), int(b.rng.integers(1, 1 << 24))
    return b.node(LogSoftmaxSquaring(b.exponentials(23), step, gain, **b.limits()), [x], x.shape)


def matmul(b: Builder) -> Tensor:
    batch, m, k, n = (b.pick(1, 1, 3), b.pick(1, 2, 5), b.pick(1, 3, 4, 9), b.pick(1, 2, 4, 7))
    transposed = b.rng.random() < 0.5
    inputs = [b.input((batch, m, k)), b.input((batch, n, k) if transposed else (batch, k, n))]
    op = MatMul(b.matrix_product(k), transposed, **b.limits())
    return b.node(op, inputs, (batch, m, n))


LAYERS: dict[str, Callable[[Builder], Tensor]] = {
    "conv2d": conv2d,
    "pointwise": pointwise,
    "column": column,
    "depthwise": depthwise,
    "depthwise_square": depthwise_square,
    "fully_connected": fully_connected,
    "per_tensor": per_tensor,
    "int4": int4,
    "add": add,
    "average_pool": average_pool,
    "max_pool": max_pool,
    "pad": pad,
    "reshape": reshape,
    "concat": concat,
    "requantize": requantize,
    "softmax": softmax,
    "log_softmax_onnx": log_softmax_onnx,
    "matmul": matmul,
    **OPERATORS,
}


def random_layers(kinds: str | Sequence[str], count: int, seed: int) -> Graph:
    """`count` independent layers of each kind in one graph, so that one image runs them all."""
    builder = Builder(np.random.default_rng(seed))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    outputs = [LAYERS[kind](builder).name for kind in kinds for _ in range(count)]
    return builder.graph(outputs)


# Of a layer of each kind in a group: an image has 255 inputs at most.
GROUP_INPUTS = 4


def groups() -> list[tuple[str, ...]]:
    """Kinds of layers that one image takes together."""
    found: list[list[str]] = []
    left = 0
    for kind in LAYERS:
        inputs = -(-len(random_layers(kind, 40, seed=3).inputs) // 40)
        if inputs > left:
            found.append([])
            left = GROUP_INPUTS
        found[-1].append(kind)
        left -= inputs
    return [tuple(kinds) for kinds in found]


def random_inputs(graph: Graph, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [graph.tensors[port.tensor].shape for port in graph.inputs]
    return [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]


def step_of(graph: Graph, node: Node, form: Form) -> Step:
    """A node on its own, in a form if it can."""
    return Step(node, form=form if serves(graph, node, form) else Form.USUAL)


def disjoint(graph: Graph, form: Form = Form.USUAL) -> Plan:
    """Every tensor whole, one after the other; layers in a form where they can."""
    bases, at = {}, 0
    for name, tensor in graph.tensors.items():
        bases[name] = at
        at += tensor.bytes
    return plan_at(graph, bases, at, form=form)


def plan_at(
    graph: Graph, bases: dict[str, int], scratch: int, above: int = 0, form: Form = Form.USUAL
) -> Plan:
    """Every tensor whole, at the given address; scratch from `scratch` on, then `above` bytes."""
    placements = {
        name: Placement(name, bases[name], t.bytes, -1, len(graph.nodes))
        for name, t in graph.tensors.items()
    }
    top = -(-scratch // SCRATCH_ALIGN) * SCRATCH_ALIGN
    steps = [step_of(graph, node, form) for node in graph.nodes]
    sizes = [pool_scratch(step.bind(graph)) for step in steps]
    pairs = zip(steps, sizes, strict=True)
    stages = tuple((replace(s, scratch=top if n else 0, scratch_bytes=n),) for s, n in pairs)
    pool = (top + max(sizes) if any(sizes) else scratch) + above
    return Plan("by hand", graph, stages, placements, pool)


def overlapped(graph: Graph, closer: int = 0, form: Form = Form.USUAL) -> Plan:
    """Every layer's output on top of its first input, as near as the order of access allows and
    `closer` bytes nearer. For independent layers."""
    bases, at = {}, 0
    for node in graph.nodes:
        layer = step_of(graph, node, form).bind(graph)
        for tensor in layer.ins[1:]:
            bases[tensor.name] = at
            at += tensor.bytes
        distance = clearance(layer, 0).below - closer
        first = layer.ins[0]
        bases[layer.out.name] = at + max(-distance, 0)
        bases[first.name] = at + max(distance, 0)
        at = max(bases[layer.out.name] + layer.out.bytes, bases[first.name] + first.bytes)
    return plan_at(graph, bases, at, form=form)


def with_copies(graph: Graph) -> Graph:
    """Every layer reads its first input through a copy, which is no graph input."""
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        source, *others = node.inputs
        copy = replace(tensors[source], name=f"{source}_copy")
        tensors[copy.name] = copy
        nodes.append(Node(f"{node.name}_copy", Requantize(None), (source,), (copy.name,)))
        nodes.append(replace(node, inputs=(copy.name, *others)))
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def wrapped(graph: Graph, seed: int, form: Form = Form.USUAL) -> Plan:
    """Each copy of `with_copies` around the pool's end.

    Copies are never alive together, so they share the bytes at both ends of the pool.
    """
    rng = np.random.default_rng(seed)
    copies = {name: t for name, t in graph.tensors.items() if name.endswith("_copy")}
    margin = max(t.bytes for t in copies.values())
    rest = [t for name, t in graph.tensors.items() if name not in copies]
    bases, at = {}, margin
    for tensor in rest:
        bases[tensor.name] = at
        at += tensor.bytes
    plan = plan_at(graph, {**bases, **dict.fromkeys(copies, 0)}, at, margin, form)
    pool_bytes = plan.pool_bytes
    for name, tensor in copies.items():
        rows_before_end = int(rng.integers(1, tensor.shape[0] + 1))
        base = pool_bytes - rows_before_end * tensor.row_bytes
        plan.placements[name] = replace(plan.placements[name], base=base)
    return plan
