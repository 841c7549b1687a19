# SPDX-License-Identifier: Apache-2.0
"""The C side of every op: which kernel runs it and what its parameter struct holds.

lib/vmcu/include/vmcu/kernels.h declares both. A function here turns one node into a `Kernel`;
`initialisers.py` turns that into text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import Problem, UserError
from ..graph import (
    Add,
    AveragePool2D,
    Concat,
    DepthwiseConv2D,
    Graph,
    MaxPool2D,
    Node,
    Op,
    Pad,
    Requantize,
    Reshape,
    Softmax,
    Window,
)
from ..kernels import ProgramLayer, bind
from ..quant import INT8_MAX, INT8_MIN, FixedPoint, Requant


@dataclass(frozen=True, eq=False)
class Array:
    """Constants that C refers to by name; `role` becomes part of that name."""

    role: str
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class Struct:
    """An initialiser. `type` may be empty for a member whose type the outer struct fixes."""

    type: str
    fields: dict[str, Value]


@dataclass(frozen=True, eq=False)
class StructArray:
    """An array of structs that C refers to by name."""

    role: str
    items: tuple[Struct, ...]


Value = int | bool | str | Array | Struct | StructArray


@dataclass(frozen=True, eq=False)
class Kernel:
    """The entry point of a layer, and its parameters if it takes any."""

    symbol: str
    params: Struct | None


# sizeof of every struct that tables are made of, on a 32-bit core.
STRUCT_BYTES = {
    "vmcu_model": 36,
    "vmcu_tensor": 16,
    "vmcu_layer": 20,
    "vmcu_stage": 4,
    "vmcu_io": 12,
    "vmcu_mac_params": 32,
    "vmcu_depthwise_params": 40,
    "vmcu_add_params": 32,
    "vmcu_average_pool_params": 32,
    "vmcu_max_pool_params": 18,
    "vmcu_pad_params": 8,
    "vmcu_concat_params": 8,
    "vmcu_concat_input": 12,
    "vmcu_requantize_params": 16,
    "vmcu_softmax_params": 12,
}


def window(w: Window) -> Struct:
    return Struct(
        "",
        {
            "kernel_h": w.kernel[0],
            "kernel_w": w.kernel[1],
            "stride_h": w.stride[0],
            "stride_w": w.stride[1],
            "dilation_h": w.dilation[0],
            "dilation_w": w.dilation[1],
            "pad_top": w.pad[0],
            "pad_left": w.pad[1],
        },
    )


def factor(requant: FixedPoint) -> Struct:
    """One factor for a whole tensor."""
    return Struct(
        "",
        {
            "multiplier": int(np.ravel(requant.multiplier)[0]),
            "shift": int(np.ravel(requant.shift)[0]),
        },
    )


def factors(requant: Requant, channels: int) -> tuple[str, Struct]:
    """The suffix of the entry point, and one factor per output channel."""
    if isinstance(requant, FixedPoint):
        multiplier = np.broadcast_to(requant.multiplier, channels).astype(np.int32)
        shift = np.broadcast_to(requant.shift, channels).astype(np.int8)
        members = {"multiplier": Array("multiplier", multiplier), "shift": Array("shift", shift)}
        return "fixed", Struct("", {"fixed": Struct("", members)})
    scale = np.broadcast_to(requant.scale, channels).astype(np.float32)
    return "float", Struct("", {"scale": Array("scale", scale)})


def activation(op: Op) -> dict[str, Value]:
    return {"act_min": op.act_min, "act_max": op.act_max}


def zeros(graph: Graph, node: Node) -> dict[str, Value]:
    return {
        "input_zero": graph.tensors[node.inputs[0]].zero_point,
        "output_zero": graph.tensors[node.outputs[0]].zero_point,
    }


def refuse_activation(graph: Graph, node: Node) -> None:
    """For kernels that only move bytes."""
    if (node.op.act_min, node.op.act_max) != (INT8_MIN, INT8_MAX):
        raise UserError(
            Problem(
                "a fused activation is not supported here",
                "make the activation a layer of its own",
                graph.origin,
                node.name,
                node.kind,
            )
        )


def linear(graph: Graph, node: Node) -> tuple[str, Struct]:
    """The suffix of the entry point, and what layers with weights have in common."""
    op = node.op
    assert isinstance(op, DepthwiseConv2D)
    suffix, scale = factors(op.requant, op.bias.size)
    return suffix, Struct(
        "",
        {
            "weights": Array("weights", op.weights.astype(np.int8)),
            "bias": Array("bias", op.bias.astype(np.int32)),
            "factors": scale,
            **zeros(graph, node),
            **activation(op),
        },
    )


def generated(layer: ProgramLayer) -> Kernel:
    """A generated kernel: its program says which struct, its binding what is in it."""
    binding = layer.binding
    fields: dict[str, Value] = {}
    if binding.stream:
        fields["stream"] = Array("stream", np.frombuffer(binding.stream, np.uint32))
    for path, value in binding.fields.items():
        outer, _, inner = path.rpartition(".")
        if outer:
            struct = fields.setdefault(outer, Struct("", {}))
            assert isinstance(struct, Struct)
            struct.fields[inner] = value
        else:
            fields[path] = value
    return Kernel(binding.program.symbol, Struct(binding.program.params, fields))


def depthwise(graph: Graph, node: Node, op: DepthwiseConv2D) -> Kernel:
    suffix, common = linear(graph, node)
    fields = {"linear": common, "window": window(op.window), "multiplier": op.multiplier}
    return Kernel(f"vmcu_depthwise_{suffix}", Struct("vmcu_depthwise_params", fields))


def add(graph: Graph, node: Node, op: Add) -> Kernel:
    fields = {
        "a": factor(op.a),
        "b": factor(op.b),
        "output": factor(op.out),
        "left_shift": op.left_shift,
        "a_zero": graph.tensors[node.inputs[0]].zero_point,
        "b_zero": graph.tensors[node.inputs[1]].zero_point,
        "output_zero": graph.tensors[node.outputs[0]].zero_point,
        **activation(op),
    }
    return Kernel("vmcu_add", Struct("vmcu_add_params", fields))


def average_pool(graph: Graph, node: Node, op: AveragePool2D) -> Kernel:
    fields: dict[str, Value] = {"window": window(op.window)}
    if op.requant is not None:
        fields["factor"] = factor(op.requant)
    fields |= {
        "rescale": op.requant is not None,
        "count_padding": op.count_padding,
        **zeros(graph, node),
        **activation(op),
    }
    return Kernel("vmcu_average_pool", Struct("vmcu_average_pool_params", fields))


def max_pool(graph: Graph, node: Node, op: MaxPool2D) -> Kernel:
    fields = {"window": window(op.window), **activation(op)}
    return Kernel("vmcu_max_pool", Struct("vmcu_max_pool_params", fields))


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
    for name, requant in zip(node.inputs, op.requants, strict=True):
        fields: dict[str, Value] = {} if requant is None else {"factor": factor(requant)}
        fields |= {"rescale": requant is not None, "zero": graph.tensors[name].zero_point}
        inputs.append(Struct("vmcu_concat_input", fields))
    params = {
        "inputs": StructArray("parts", tuple(inputs)),
        "axis": AXES[op.axis],
        "output_zero": graph.tensors[node.outputs[0]].zero_point,
    }
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
    DepthwiseConv2D: depthwise,
    Add: add,
    AveragePool2D: average_pool,
    MaxPool2D: max_pool,
    Pad: pad,
    Reshape: reshape,
    Concat: concat,
    Requantize: requantize,
    Softmax: softmax,
}


def kernel_of(graph: Graph, node: Node) -> Kernel:
    """The kernel that runs a node, with its parameters."""
    layer = bind(graph, node)
    if isinstance(layer, ProgramLayer):
        return generated(layer)
    return PARAMS[type(node.op)](graph, node, node.op)
