# SPDX-License-Identifier: Apache-2.0
"""The C side of the operators of lib/vmcu/include/vmcu/operators.h, see params.py."""

from __future__ import annotations

import numpy as np

from ..graph import (
    ArgMax,
    Binary,
    Graph,
    L2Norm,
    LayerNorm,
    LogSoftmaxOnnx,
    LogSoftmaxTflite,
    Lookup,
    Move,
    Node,
    Resize,
    TransposeConv2D,
)
from ..kernels.integer_scale import integer_product
from ..ops import bind
from ..quant import FloatScale
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


def lookup(graph: Graph, node: Node, op: Lookup) -> Kernel:
    refuse_activation(graph, node)
    fields: dict[str, Value] = {"table": Array("table", op.table.astype(np.int8))}
    return Kernel("vmcu_lookup", Struct("vmcu_lookup_params", fields))


def binary(graph: Graph, node: Node, op: Binary) -> Kernel:
    output_zero = graph.tensors[node.outputs[0]].zero_point
    fields: dict[str, Value] = {
        name: factor(requant)
        for name, requant in (("a", op.a), ("b", op.b), ("output", op.out))
        if requant is not None
    }
    if op.sum is not None:
        fields["sum"] = StructArray("sum", (Struct("vmcu_float_sum", dict(op.sum.fixed())),))
    if op.product is not None:
        multiplier, word = integer_product(op.product, output_zero)
        fields["output"] = Struct("", {"multiplier": multiplier, "shift": word})
        fields["offset"] = op.product.offset
    if op.constant is None:
        b_zero = graph.tensors[node.inputs[1]].zero_point
    else:
        b_zero = op.constant_zero
        fields["constant"] = Array("constant", op.constant.astype(np.int8))
        height, width, channels = op.constant.shape
        fields |= {"constant_height": height, "constant_width": width}
        fields["constant_channels"] = channels
    a_zero = graph.tensors[node.inputs[0]].zero_point
    rescale = op.a is not None and op.b is not None
    if op.kind in ("minimum", "maximum") and not rescale:
        a_zero = b_zero = output_zero
    fields |= {
        "kind": f"VMCU_BINARY_{op.kind.upper()}",
        "left_shift": op.left_shift,
        "rescale": rescale,
        "a_zero": a_zero,
        "b_zero": b_zero,
        "output_zero": output_zero,
        **activation(op),
    }
    return Kernel("vmcu_binary", Struct("vmcu_binary_params", fields))


def move(graph: Graph, node: Node, op: Move) -> Kernel:
    refuse_activation(graph, node)
    run = bind(graph, node).run
    fields: dict[str, Value] = {
        "rows": Array("rows", op.rows.astype(np.int32)),
        "columns": Array("columns", op.columns.astype(np.int32)),
        "channels": Array("channels", op.channels[::run].astype(np.int32)),
        "run": run,
    }
    return Kernel("vmcu_move", Struct("vmcu_move_params", fields))


def resize(graph: Graph, node: Node, op: Resize) -> Kernel:
    fields: dict[str, Value] = {
        "rows": Array("rows", op.rows.astype(np.int16)),
        "columns": Array("columns", op.columns.astype(np.int16)),
        "rescale": op.requant is not None,
        **zeros(graph, node),
        **activation(op),
    }
    if op.requant is not None:
        fields["factor"] = factor(op.requant)
    return Kernel("vmcu_resize", Struct("vmcu_resize_params", fields))


def transpose_conv(graph: Graph, node: Node, op: TransposeConv2D) -> Kernel:
    fields: dict[str, Value] = {
        "weights": Array("weights", op.weights),
        "bias": Array("bias", op.bias.astype(np.int32)),
    }
    if isinstance(op.requant, FloatScale):
        fields["scale"] = Array("scale", op.requant.scale.astype(np.float32))
    else:
        fields["multiplier"] = Array("multiplier", op.requant.multiplier.astype(np.int32))
        fields["shift"] = Array("shift", op.requant.shift.astype(np.int32))
    pairs = (
        ("kernel", op.weights.shape[1:3]),
        ("stride", op.stride),
        ("dilation", op.dilation),
    )
    window: dict[str, Value] = {
        f"{name}_{axis}": int(size)
        for name, sizes in pairs
        for axis, size in zip("hw", sizes, strict=True)
    }
    window |= {"pad_top": op.pad[0], "pad_left": op.pad[1]}
    fields |= {"window": Struct("", window), "groups": op.groups, "depth": op.weights.shape[3]}
    fields |= {**zeros(graph, node), **activation(op)}
    return Kernel("vmcu_transpose_conv", Struct("vmcu_transpose_conv_params", fields))


def layer_norm(graph: Graph, node: Node, op: LayerNorm) -> Kernel:
    fields: dict[str, Value] = {
        "gain": Array("gain", op.gain.astype(np.int32)),
        "offset": Array("offset", op.offset.astype(np.int32)),
        "epsilon": f"INT64_C({op.epsilon})",
        "factors": op.gain.size,
        "run": op.run,
        "bits": op.bits,
        "centred": op.centred,
        **zeros(graph, node),
        **activation(op),
    }
    return Kernel("vmcu_layer_norm", Struct("vmcu_layer_norm_params", fields))


def log_softmax_onnx(graph: Graph, node: Node, op: LogSoftmaxOnnx) -> Kernel:
    fields: dict[str, Value] = {
        "exp": Array("exp", op.exp.astype(np.uint32)),
        "step": op.step,
        "gain": f"INT64_C({op.gain})",
        "output_zero": graph.tensors[node.outputs[0]].zero_point,
        **activation(op),
    }
    return Kernel("vmcu_log_softmax_onnx", Struct("vmcu_log_softmax_onnx_params", fields))


def arg_max(graph: Graph, node: Node, op: ArgMax) -> Kernel:
    refuse_activation(graph, node)
    fields: dict[str, Value] = {"smallest": op.smallest, "last": op.last}
    return Kernel("vmcu_arg_max", Struct("vmcu_arg_max_params", fields))


def l2_norm(graph: Graph, node: Node, op: L2Norm) -> Kernel:
    input_zero = graph.tensors[node.inputs[0]].zero_point
    fields: dict[str, Value] = {"input_zero": input_zero, **activation(op)}
    return Kernel("vmcu_l2_norm", Struct("vmcu_l2_norm_params", fields))


def log_softmax_tflite(graph: Graph, node: Node, op: LogSoftmaxTflite) -> Kernel:
    fields: dict[str, Value] = {
        "exp": Array("exp", op.exp.astype(np.uint32)),
        "scaled": Array("scaled", op.scaled.astype(np.int32)),
        **activation(op),
    }
    return Kernel("vmcu_log_softmax_tflite", Struct("vmcu_log_softmax_tflite_params", fields))


OPERATORS = {
    Lookup: lookup,
    Binary: binary,
    Move: move,
    Resize: resize,
    TransposeConv2D: transpose_conv,
    LayerNorm: layer_norm,
    LogSoftmaxOnnx: log_softmax_onnx,
    ArgMax: arg_max,
    L2Norm: l2_norm,
    LogSoftmaxTflite: log_softmax_tflite,
}

# sizeof on a 32-bit core.
OPERATOR_BYTES = {
    "vmcu_lookup_params": 4,
    "vmcu_binary_params": 48,
    "vmcu_move_params": 16,
    "vmcu_resize_params": 24,
    "vmcu_transpose_conv_params": 44,
    "vmcu_layer_norm_params": 32,
    "vmcu_log_softmax_onnx_params": 24,
    "vmcu_arg_max_params": 2,
    "vmcu_l2_norm_params": 3,
    "vmcu_log_softmax_tflite_params": 12,
}
