# SPDX-License-Identifier: Apache-2.0
"""The C side of every op: which kernel runs it and what its parameter struct holds.

lib/vmcu/include/vmcu/kernels.h declares both. A function here turns one node into a `Kernel`;
`initialisers.py` turns that into text. operators.py has those of vmcu/operators.h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graph import (
    Attention,
    AveragePool2D,
    Binary,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Graph,
    MatMul,
    MatMulChain,
    Node,
    Op,
    Pad,
    Requantize,
    Reshape,
    Softmax,
    TransposeConv2D,
)
from ..ops import Layer, ProgramLayer
from ..quant import FixedPoint, FloatProduct, FloatScale, FloatSum
from .operators import OPERATOR_BYTES, OPERATORS
from .values import (
    Array,
    Kernel,
    Struct,
    StructArray,
    Value,
    activation,
    factor,
    refuse_activation,
    zeros,
)

# By which struct vmcu_model is larger in a build for pools that rotate.
ROTATION_BYTES = 8
# sizeof of every struct that tables are made of, on a 32-bit core.
STRUCT_BYTES = {
    "vmcu_model": 40,
    "vmcu_tensor": 20,
    "vmcu_layer": 28,
    "vmcu_stage": 20,
    "vmcu_part": 8,
    "vmcu_io": 12,
    "vmcu_mac_params": 36,
    "vmcu_add_params": 44,
    "vmcu_add_exact_params": 32,
    "vmcu_add_float_params": 56,
    "vmcu_float_sum": 48,
    "vmcu_average_pool_params": 32,
    "vmcu_max_pool_params": 18,
    "vmcu_pad_params": 8,
    "vmcu_concat_params": 8,
    "vmcu_concat_input": 4,
    "vmcu_requantize_params": 16,
    "vmcu_softmax_params": 12,
    "vmcu_matmul_params": 16,
    "vmcu_matmul_chain_params": 32,
    "vmcu_attention_params": 36,
    **OPERATOR_BYTES,
}


def generated(layer: ProgramLayer) -> Kernel:
    """A generated kernel: its program says which struct, its binding what is in it."""
    binding = layer.binding
    fields: dict[str, Value] = {}
    if binding.stream:
        fields["stream"] = Array("stream", np.frombuffer(binding.stream, np.uint32), binding.lines)
    for path, value in binding.fields.items():
        outer, _, inner = path.rpartition(".")
        if outer:
            struct = fields.setdefault(outer, Struct("", {}))
            assert isinstance(struct, Struct)
            struct.fields[inner] = value
        else:
            fields[path] = value
    return Kernel(layer.symbol, Struct(binding.program.params, fields))


def pad(graph: Graph, node: Node, op: Pad) -> Kernel:
    refuse_activation(graph, node)
    (top, _), (left, _), (before, _) = op.amounts
    fields = {"top": top, "left": left, "before": before, "value": op.value}
    return Kernel("vmcu_pad", Struct("vmcu_pad_params", fields))


def reshape(graph: Graph, node: Node, op: Reshape) -> Kernel:
    refuse_activation(graph, node)
    return Kernel("vmcu_reshape", None)


AXES = ("VMCU_AXIS_HEIGHT", "VMCU_AXIS_WIDTH", "VMCU_AXIS_CHANNELS")


def concat(graph: Graph, node: Node, op: Concat) -> Kernel:
    refuse_activation(graph, node)
    inputs = []
    for number, table in enumerate(op.tables):
        fields: dict[str, Value] = {"table": "NULL"}
        if table is not None:
            fields["table"] = Array(f"table{number}", table.astype(np.int8))
        inputs.append(Struct("vmcu_concat_input", fields))
    params = {"inputs": StructArray("parts", tuple(inputs)), "axis": AXES[op.axis]}
    return Kernel("vmcu_concat", Struct("vmcu_concat_params", params))


def requantize(graph: Graph, node: Node, op: Requantize) -> Kernel:
    fields: dict[str, Value] = {} if op.requant is None else {"factor": factor(op.requant)}
    fields |= {"rescale": op.requant is not None, **zeros(graph, node), **activation(op)}
    return Kernel("vmcu_requantize", Struct("vmcu_requantize_params", fields))


def softmax(graph: Graph, node: Node, op: Softmax) -> Kernel:
    fields: dict[str, Value] = {"exp": Array("exp", op.exp.astype(np.uint32))}
    zero = -128
    if op.style == "onnx":
        fields["gain"] = op.gain
        zero = graph.tensors[node.outputs[0]].zero_point
    fields |= {"output_zero": zero, **activation(op)}
    return Kernel(f"vmcu_softmax_{op.style}", Struct("vmcu_softmax_params", fields))


PARAMS: dict[type[Op], Callable[[Graph, Node, Op], Kernel]] = {
    Pad: pad,
    Reshape: reshape,
    Concat: concat,
    Requantize: requantize,
    Softmax: softmax,
    **OPERATORS,
}

# Their kernels have both requantisers; those of other ops have what they need.
EITHER = (
    *(Conv2D, DepthwiseConv2D, FullyConnected, TransposeConv2D, AveragePool2D),
    *(MatMul, MatMulChain, Attention),
)
REQUANTISERS = {FixedPoint: "FIXED", FloatScale: "FLOAT", FloatSum: "FLOAT", FloatProduct: "FLOAT"}


def requantisers(op: Op) -> set[str]:
    """Which requantisers a build with this op must not leave out, by the names of Kconfig."""
    kinds = map(type, vars(op).values())
    found = {REQUANTISERS[kind] for kind in kinds if kind in REQUANTISERS}
    # What vmcu_binary() does in fixed point no build leaves out.
    if isinstance(op, Binary):
        found &= {"FLOAT"}
    return found if isinstance(op, (*EITHER, Binary)) else set()


def kernel_of(graph: Graph, layer: Layer) -> Kernel:
    """The kernel that runs a layer, with its parameters."""
    node = layer.node
    if isinstance(layer, ProgramLayer):
        return generated(layer)
    return PARAMS[type(node.op)](graph, node, node.op)
