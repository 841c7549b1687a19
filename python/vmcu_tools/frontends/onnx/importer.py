# SPDX-License-Identifier: Apache-2.0
"""ONNX files to graphs: QDQ and QOperator models, with ONNX Runtime's arithmetic.

Nodes are visited in the file's order. Operators between DequantizeLinear and QuantizeLinear stay
pending until the latter tells the scale of their result; then they become one int8 node.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ...graph import Graph, Notes, Port, Tensor
from ...paths import import_modules
from .. import constant_outputs
from ..common import (
    AGAIN,
    KEEP_QUANTISATION,
    MAX_TENSOR_BYTES,
    GraphBuilder,
    PassedOverError,
    UnsupportedError,
    parsing,
    present,
    require,
)
from ..movement import file_index
from . import deferred, embedding, fold, in_float, input_scales, schemas
from .carries import connect_loops
from .context import CONSTRAINTS, QUANTISE_ALL, RULES, Context, outputs
from .file import CALIBRATION, RANDOM, FileModel, FileNode, FileValue, load_proto
from .in_float import refusal
from .input_scales import KEEPS_SCALE, consumers
from .loops import read_opened
from .quantize import quantisation
from .values import (
    Activation,
    Args,
    Constant,
    Curve,
    Failed,
    FloatInput,
    Indices,
    Order,
    Pending,
    QuantConstant,
    Real,
    Value,
    arrangement,
    channels_last,
    laid_out,
    tensor_shape,
)

# Fills RULES.
import_modules(__package__)

__all__ = ["CONSTRAINTS", "RULES", "load", "load_with_views"]

_TO_NCHW = [0, 3, 1, 2]
# Operators that take (1, C, L).
_SPATIAL: tuple[str, ...] = ("Conv", "ConvTranspose", "QLinearConv", "MaxPool", "AveragePool")
_SPATIAL += ("GlobalAveragePool", "GlobalMaxPool", "BatchNormalization")
UNREAD = "take it out of the model's inputs"
_QDQ = ("QuantizeLinear", "DequantizeLinear", "Identity", "Cast")
# Operators of which each output element is one of the first input's.
_MOVES: tuple[str, ...] = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice")
_MOVES += ("Split", "Gather", "GatherND", "Expand", "Tile", "DepthToSpace", "SpaceToDepth")


def load(path: Path) -> Graph:
    """The graph of an .onnx file; UserError with all its problems."""
    return load_with_views(path)[0]


def load_with_views(path: Path) -> tuple[Graph, dict[str, Activation]]:
    """The graph, and for each tensor that is int8 or uint8 in the file too, how it looks there."""
    model = read_opened(load_proto(path), str(path))
    with parsing(str(path)):
        context = _import(model, str(path))
    views = {name: view for name, view in context.views.items() if name not in context.hidden}
    return context.builder.finish(path.stem), views


def _import(model: FileModel, file: str) -> Context:
    context = Context(model, GraphBuilder(file))
    context.constant_nodes = fold.constant_nodes(model)
    context.builder.notes = Notes(is_random=model.metadata.get(CALIBRATION) == RANDOM)
    if in_float.report_qonnx(context) or in_float.report(context):
        return context
    context.values = {name: Constant(array) for name, array in model.constants.items()}
    names = [value.name for value in model.inputs]
    for value in model.inputs:
        if value.name in context.values and names.count(value.name) > 1:
            context.builder.repeated_input(value.name, names.count(value.name))
            continue
        context.values[value.name] = _input(context, value)
    for node in model.nodes:
        _node(context, node)
    for value in model.outputs:
        _output(context, value)
    _sort_inputs(context)
    if not context.builder.problems:
        connect_loops(context.builder, model.carries)
    return context


def _sort_inputs(context: Context) -> None:
    """Ports in the file's order; each float input must have met its QuantizeLinear."""
    builder = context.builder
    order = [value.name for value in context.model.inputs]
    builder.inputs.sort(key=lambda port: order.index(port.name))
    missing = [name for name in order if name not in {port.name for port in builder.inputs}]
    if missing and not builder.problems:
        unread = not any(missing[0] in node.inputs for node in context.model.nodes)
        what, remedy = ("read by no node", UNREAD) if unread else ("never quantised", QUANTISE_ALL)
        builder.problem(f"the input '{missing[0]}' is {what}", remedy)


def _node(context: Context, node: FileNode) -> None:
    try:
        if node.op not in RULES and node not in context.constant_nodes:
            # Also where its inputs have failed already: all problems are told at once.
            raise UnsupportedError(*refusal(node.op))
        require(not (missing := schemas.missing(node, context.model.opset)), missing, AGAIN)
        given = [_argument(context, name) for name in node.inputs]
        args = [arg for arg in given if not isinstance(arg, Failed)]
        if len(args) < len(given):
            raise PassedOverError
        constant = fold.fold(context, node, args)
        results = _apply(context, node, args) if constant is None else constant
    except UnsupportedError as error:
        context.builder.problem(error.reason, error.remedy, *(error.at or (node.name, node.op)))
        results = []
    except PassedOverError:
        results = []
    for index, name in enumerate(node.outputs):
        context.values[name] = results[index] if index < len(results) else Failed()


def _argument(context: Context, name: str) -> Value | Failed | None:
    if not name:
        return None
    require(name in context.values, f"'{name}' is used before it is computed")
    return context.values[name]


def _apply(context: Context, node: FileNode, args: Args) -> list[Value]:
    """The node's outputs."""
    if node.op not in RULES:
        raise UnsupportedError(*refusal(node.op))
    require(len(node.outputs) > 0, "there is no output")
    # Between int8 tensors, without float in between, an operator keeps the scale.
    direct = any(isinstance(arg, Activation) for arg in args)
    require(
        not direct or node.op in KEEPS_SCALE or "Linear" in node.op or ".Q" in node.op,
        "an operator on plain int8 values, without their scale, is not supported",
        "put DequantizeLinear before and QuantizeLinear behind it",
    )
    first = args[0] if args else None
    if node.op in _MOVES and isinstance(first, Curve):
        return _moved_curve(context, node, first, args)
    later = deferred.apply(context, node, args)
    if later is not None:
        return later
    results = outputs(context, node, args)
    return [_kept(context, result) if direct else result for result in results]


def _moved_curve(context: Context, node: FileNode, curve: Curve, args: Args) -> list[Value]:
    """A function of each byte of an activation, whose bytes move before it is applied. args: all
    operands, of which it is the first."""
    results = outputs(context, node, [Real(curve.activation), *args[1:]])
    moved = [context.activation(result) for result in results]
    if curve.activation.tensor.name in context.rounded:
        context.rounded.update(x.tensor.name for x in moved)
    return [Curve(x, curve.real) for x in moved]


def _kept(context: Context, result: Value) -> Value:
    """The result of an operator between int8 tensors, at its input's scale."""
    if not isinstance(result, Pending):
        return result
    keeps = present(result.keeps, "the inputs have different scales", KEEP_QUANTISATION)
    return context.quantise(result, *keeps, result.name, result.dtype)


def _input(context: Context, value: FileValue) -> Value | Failed:
    """A graph input as the importer sees it: a float one waits for its QuantizeLinear."""
    try:
        shape = present(value.shape, "the input has no shape", "fix all sizes")
        require(min(shape, default=1) > 0, "the input has a dynamic shape", "fix all sizes")
        order: Order = None
        layout, memory = "nhwc", None
        small = math.prod(shape) <= MAX_TENSOR_BYTES
        require(small, f"the input has {math.prod(shape)} elements", "use a smaller model")
        readers = consumers(context.model, value.name, _QDQ)
        if len(shape) == 4:
            transposed = readers and all(n.ints("perm", []) == _TO_NCHW for n in readers)
            if transposed or shape[0] != 1:
                # Other tensors than images stay as the file has them.
                order = np.arange(math.prod(shape))
            else:
                layout = "nchw"
        elif len(shape) == 3 and shape[0] == 1 and _is_sequence(context.model, value.name):
            layout = "nchw"
            order, memory = arrangement(shape, channels_last(shape))
        if value.dtype == "float32":
            several = input_scales.of_all(context.model, value.name)
            if several is None:
                return FloatInput(value.name, shape, shape, order, layout, memory)
            tensor = context.define(value.name, shape, order, *several, "int8", memory)
            # In the file it is a float value.
            context.hidden.add(value.name)
            context.builder.inputs.append(Port(value.name, value.name, shape, "float32", layout))
            return Real(tensor)
        if value.dtype in embedding.DTYPES:
            numbers = embedding.numbers(context, value, shape)
            port = Port(numbers.tensor.name, value.name, shape, value.dtype)
            context.builder.inputs.append(port)
            return numbers
        require(value.dtype in ("int8", "uint8"), f"the input is {value.dtype}, not int8 or float")
        scale, zero_point = input_scales.of_int8(context.model, value.name)
        zero_point = np.zeros(1, value.dtype) if zero_point is None else zero_point
        quant = quantisation(scale, zero_point)
        require(quant[2] == value.dtype, f"the input is {value.dtype} but used as {quant[2]}")
        result = context.define(value.name, shape, order, *quant, memory)
    except UnsupportedError as error:
        context.builder.problem(error.reason, error.remedy, value.name)
        return Failed()
    context.builder.inputs.append(Port(value.name, value.name, shape, value.dtype, layout))
    return result


def _is_sequence(model: FileModel, name: str) -> bool:
    """Whether an input (1, C, L) has channels: a layer sees it so, by itself or beside others."""
    readers, seen = consumers(model, name, _QDQ), set()
    while readers:
        node = readers.pop()
        if node.op in _SPATIAL:
            return True
        if node.op == "Concat" and node.outputs[0] not in seen:
            seen.add(node.outputs[0])
            readers += consumers(model, node.outputs[0], _QDQ)
    return False


def _is_channels_last(x: Activation) -> bool:
    """Whether the bytes of an image, or of a former one, lie as such."""
    laid = channels_last(x.shape)
    same = x.tensor.shape == laid.shape and np.array_equal(laid_out(x), laid)
    return same and (len(x.shape) == 4 or not np.array_equal(laid.ravel(), np.arange(laid.size)))


def _constant_output(context: Context, name: str, value: Constant | QuantConstant) -> None:
    """An output that is in the file. QuantConstant: of one scale it is int8 in memory."""
    builder = context.builder
    if isinstance(value, Constant) and value.array.dtype in (np.int32, np.int64):
        constant_outputs.write_integers(builder, name, value.array)
    elif isinstance(value, QuantConstant) and value.is_int8:
        shift = 128 if value.ints.dtype == np.uint8 else 0
        zero = int(value.zero_point.ravel()[0]) - shift
        shape = tensor_shape(value.ints.shape, np.zeros(0))
        tensor = Tensor(name, shape, float(value.scale.ravel()[0]), zero)
        values = (value.ints.astype(np.int16) - shift).astype(np.int8)
        constant_outputs.write(builder, tensor, values)
        builder.outputs.append(Port(name, name, value.ints.shape, "float32"))
    else:
        constant_outputs.drop(builder, name)


def _output(context: Context, value: FileValue) -> None:
    try:
        value_known = context.values.get(value.name)
        if value_known is None:
            raise UnsupportedError("the output is never computed")
        if isinstance(value_known, Failed):
            return
        if isinstance(value_known, Indices):
            port = Port(value_known.tensor.name, value.name, value_known.shape, value_known.dtype)
            context.builder.outputs.append(port)
            return
        if isinstance(value_known, (Constant, QuantConstant)):
            _constant_output(context, value.name, value_known)
            return
        value_known = deferred.with_own_scale(context, value_known)
        float_result = deferred.is_float(value_known)
        require(not float_result, "the output is a float that is not quantised", QUANTISE_ALL)
        x = context.activation(value_known)
        layout = "nhwc"
        if len(x.shape) in (3, 4) and x.shape[0] == 1 and _is_channels_last(x):
            layout = "nchw"
        else:
            plain = file_index(x.shape).reshape(tensor_shape(x.shape, np.zeros(0)))
            tensor = context.arranged(x, plain)
            x = Activation(tensor, x.shape, plain.ravel(), x.dtype)
        dtype = "float32" if isinstance(value_known, (Real, Pending)) else x.dtype
        context.builder.outputs.append(Port(x.tensor.name, value.name, x.shape, dtype, layout))
    except UnsupportedError as error:
        context.builder.problem(error.reason, error.remedy, *(error.at or (value.name,)))
