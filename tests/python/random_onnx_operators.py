# SPDX-License-Identifier: Apache-2.0
"""How each operator with an import rule is drawn for random_onnx.OperatorNetwork."""

from __future__ import annotations

import math

import numpy as np
import onnx
import operators
from onnx import TensorProto, helper
from random_onnx import OWN_DOMAIN, OperatorNetwork, Shape
from random_onnx_moves import DRAWERS, draws, limit
from vmcu_tools.frontends.onnx.functions import UNARY
from vmcu_tools.frontends.onnx.importer import RULES

AUTO = ("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
# Of drawn operators, most are such that onnxruntime runs them.
ATTEMPTS = 60
DRAWERS.update(operators.DRAWERS)


def operator_network(rng: np.random.Generator, op: str | None = None) -> OperatorNetwork:
    """One that onnxruntime runs, of any operator with an import rule where none is given."""
    names = sorted(RULES)
    op = names[int(rng.integers(len(names)))] if op is None else op
    for _ in range(ATTEMPTS):
        try:
            return OperatorNetwork(rng, op, DRAWERS[op])
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            refused = error
    raise AssertionError(f"no {op} that onnxruntime runs") from refused


def numbers(n: OperatorNetwork, domain: str, op: str) -> dict[str, float]:
    """Random values of an operator's float attributes, as its schema has defaults for them."""
    try:
        schema = onnx.defs.get_schema(op, n.m.opset, domain)
    except onnx.defs.SchemaError:
        return {"alpha": float(n.rng.uniform(0.5, 2))} if op == "QuickGelu" else {}
    found = {}
    for name, attribute in schema.attributes.items():
        if attribute.type == onnx.defs.OpSchema.AttrType.FLOAT and n.coin(0.7):
            default = helper.get_attribute_value(attribute.default_value) or 0.5
            found[name] = float(default * n.rng.uniform(0.3, 1.7))
    return found


@draws(*UNARY, "Relu", "Identity", "Dropout", *OWN_DOMAIN, "QuantizeLinear", "DequantizeLinear")
def unary(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    x = n.input(n.any_shape())
    if op in ("QuantizeLinear", "DequantizeLinear"):
        return [x]
    attributes = {} if op == "Dropout" else numbers(n, domain, op)
    if op == "Gelu" and not domain and n.coin():
        attributes["approximate"] = n.of("tanh", "none")
    return [n.node(op, [x], domain, **attributes)]


@draws("Clip")
def clip(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    x = n.input(n.any_shape())
    low, high = sorted(n.rng.uniform(-60, 60, 2) * n.scale_of(x))
    limits = [n.constant(np.float32(v)) if n.coin(0.8) else "" for v in (low, high)]
    return [n.node(op, [x, *limits])]


def window(n: OperatorNetwork, shape: Shape, kernel: list[int], pool: str = "") -> dict:
    axes = len(shape) - 2
    found: dict = {"strides": [n.pick(1, 1, 2, 3, 5) for _ in range(axes)]}
    if pool != "AveragePool" or (n.m.opset >= 19 and not n.form and n.coin(0.3)):
        found["dilations"] = [n.pick(1, 1, 1, 2) for _ in range(axes)]
    auto = n.of(*AUTO)
    if auto.startswith("SAME") and not pool:
        found.pop("dilations", None)
    if auto != "NOTSET":
        found["auto_pad"] = auto
    else:
        found["pads"] = [int(n.rng.integers(0, k)) for k in kernel * 2]
    if pool:
        found["ceil_mode"] = n.pick(0, 0, 1)
        if pool == "AveragePool":
            found["count_include_pad"] = n.pick(0, 1)
    return {key: value for key, value in found.items() if n.coin(0.9)}


def weights(n: OperatorNetwork, shape: Shape, axis: int, x: str, depth: int) -> list[str]:
    per_channel = axis if n.coin() else None
    more = {}
    if n.coin(0.3):
        more = {"dtype": np.uint8, "zero_point": n.pick(100, 128), "span": 90}
    bias = n.of("int32", "float", "none")
    bias = "int32" if n.form and bias == "float" else bias
    return n.m.weights(shape, per_channel, n.scale_of(x), depth, bias, **more)[0]


@draws("Conv", "QLinearConv")
def conv(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.spatial()
    x = n.input(shape)
    kernel = [n.pick(1, 1, 2, 3, 4) for _ in shape[2:]]
    channels = shape[1]
    group = n.of(1, 1, channels, *(g for g in (2, 3) if channels % g == 0))
    count = group * n.pick(1, 2, 3)
    shape_of = (count, channels // group, *kernel)
    names = weights(n, shape_of, 0, x, math.prod(shape_of[1:]))
    return [n.node(op, [x, *names], group=group, **window(n, shape, kernel))]


@draws("ConvTranspose")
def conv_transpose(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.spatial()
    x = n.input(shape)
    kernel = [n.pick(1, 2, 3, 4) for _ in shape[2:]]
    channels = shape[1]
    group = n.of(1, 1, channels)
    per_group = n.pick(1, 2, 3)
    names = weights(n, (channels, per_group, *kernel), 1, x, channels * math.prod(kernel))[:1]
    attributes = window(n, shape, kernel)
    attributes.pop("auto_pad", None)
    strides = attributes.get("strides", [1] * len(kernel))
    if n.coin(0.4):
        attributes["output_padding"] = [int(n.rng.integers(0, s)) for s in strides]
    return [n.node(op, [x, *names], group=group, **attributes)]


@draws("MaxPool", "AveragePool", "com.microsoft.QLinearAveragePool")
def pool(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.spatial()
    kernel = [n.pick(1, 2, 3, 4) for _ in shape[2:]]
    x = n.input(shape)
    return [n.node(op, [x], kernel_shape=kernel, **window(n, shape, kernel, op))]


@draws("GlobalAveragePool", "GlobalMaxPool", "com.microsoft.QLinearGlobalAveragePool")
def global_pool(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    return [n.node(op, [n.input(n.spatial())])]


@draws("Gemm", "com.microsoft.QGemm")
def gemm(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    rows, depth, count = n.pick(1, 1, 1, 3), n.pick(1, 2, 8, 24, 33), n.pick(1, 2, 5, 10)
    turned = n.pick(0, 1)
    x = n.input((rows, depth))
    shape = (count, depth) if turned else (depth, count)
    names = weights(n, shape, 0 if turned else 1, x, depth)
    return [n.node("Gemm", [x, *names], transB=turned)]


@draws("MatMul", "QLinearMatMul")
def mat_mul(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    depth, count = n.pick(1, 2, 8, 24), n.pick(1, 2, 5, 10)
    ahead = n.any_shape(2)[:-1]
    x = n.input((*ahead, depth))
    if n.coin(0.4):
        other = n.input((*ahead[:-1], depth, count))
        return [n.node("MatMul", [x, other])]
    name = weights(n, (depth, count), 1, x, depth)[0]
    return [n.node("MatMul", [x, name])]


def broadcast(n: OperatorNetwork, shape: Shape) -> Shape:
    """A shape that another broadcasts with."""
    kept = tuple(d if n.coin() else 1 for d in shape)
    return kept[n.pick(0, 0, len(kept) - 1, len(kept)) :]


def array(n: OperatorNetwork, shape: Shape, reach: float, low: float = -1) -> np.ndarray:
    kind = n.pick(0, 0, 1)
    values = n.rng.normal(0, 0.4, shape) if kind else n.rng.uniform(low, 1, shape)
    return np.asarray(np.maximum(values, low) * reach, np.float32)


@draws("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "PRelu")
@draws("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def binary(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    kind = n.pick(0, 1, 1, 2, 3)
    if n.form:
        kind = n.pick(0, 2)
    reach = n.scale_of(x) * float(np.exp(n.rng.uniform(0, 5)))
    if op in ("Div", "Pow"):
        kind = n.pick(1, 1, 3)
    if kind == 0:
        other = n.input(shape if n.coin() else broadcast(n, shape))
    elif kind == 1:
        values = array(n, broadcast(n, shape), reach, 0.2 if op in ("Div", "Pow") else -1)
        other = n.constant(np.rint(values) if op == "Pow" else values)
    elif kind == 2:
        dtype = n.m.dtype if n.form else n.of(np.dtype(np.int8), np.dtype(np.uint8))
        ints = n.rng.integers(0, 256, broadcast(n, shape)).astype(np.uint8).view(dtype)
        zero = n.pick(0, 7, 100)
        names = [n.constant(v) for v in (ints, np.float32(reach / 128), dtype.type(zero))]
        other = n.node("DequantizeLinear", names)
    else:
        other = n.constant(np.float32(2 if op == "Pow" else reach * n.rng.uniform(0.2, 1)))
    swapped = n.coin(0.3) and op not in ("PRelu", "Pow")
    return [n.node(op, [other, x] if swapped else [x, other])]


@draws("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")
def compare(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    x = n.input(n.any_shape())
    return [n.node(op, [x, limit(n, x)] if n.coin() else [limit(n, x), x])]


@draws("And", "Or", "Xor", "Not")
def logic(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    x = n.input(n.any_shape())
    sides = [n.node(n.of("Greater", "Less"), [x, limit(n, x)]) for _ in range(2)]
    return [n.node(op, sides[:1] if op == "Not" else sides)]


@draws("Cast")
def cast(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    x = n.input(n.any_shape())
    inner = n.node("Cast", [x], to=n.of(TensorProto.INT32, TensorProto.BOOL, TensorProto.INT64))
    return [n.node("Cast", [inner], to=TensorProto.FLOAT)]


@draws("Where")
def where(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    if n.coin():
        condition = n.node("Greater", [x, limit(n, x)])
        other = limit(n, x)
    else:
        condition = n.constant(n.rng.random(broadcast(n, shape)) < 0.5)
        other = n.constant(array(n, broadcast(n, shape), 60 * n.scale_of(x)))
    return [n.node(op, [condition, *([x, other] if n.coin() else [other, x])])]


@draws("Trilu")
def trilu(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    x = n.input(n.any_shape(2))
    shift = n.constant(np.int64(n.pick(-1, 0, 1)))
    return [n.node(op, [x, shift], upper=n.pick(0, 1))]


@draws("Concat", "com.microsoft.QLinearConcat")
def concat(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    axis = n.axis(len(shape))
    parts = []
    for place in range(n.pick(1, 2, 2, 3)):
        other = list(shape)
        other[axis] = n.pick(1, 2, 5)
        if place and not n.form and n.coin(0.3):
            parts.append(n.constant(array(n, tuple(other), 1.0)))
        else:
            parts.append(n.input(tuple(other)))
    return [n.node(op, parts, axis=axis)]


@draws("Softmax", "LogSoftmax", "Hardmax", "com.microsoft.QLinearSoftmax")
def softmax(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    return [n.node(op, [x], axis=n.axis(len(shape)))]


@draws("ArgMax", "ArgMin")
def arg_max(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    more = {"keepdims": n.pick(0, 1), "select_last_index": n.pick(0, 1)}
    return [n.node(op, [x], axis=n.axis(len(shape)), **more)]


@draws("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    x = n.input(shape)
    count = int(n.rng.integers(0, len(shape) + 1))
    axes = [int(a) - (len(shape) if n.coin() else 0) for a in n.rng.permutation(len(shape))[:count]]
    more: dict = {"keepdims": n.pick(0, 1)}
    if not axes:
        return [n.node(op, [x], **more)]
    if n.m.opset >= 18 or op == "ReduceSum":
        return [n.node(op, [x, n.constant(np.array(axes, np.int64))], **more)]
    return [n.node(op, [x], axes=axes, **more)]


def factors(n: OperatorNetwork, shape: Shape, count: int) -> list[str]:
    return [n.constant(array(n, shape, float(n.rng.uniform(0.2, 3)))) for _ in range(count)]


def epsilon(n: OperatorNetwork) -> dict[str, float]:
    return {"epsilon": float(n.of(1e-5, 1e-5, 1e-3, 0.1))} if n.coin(0.8) else {}


@draws("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_norm(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    n.plain = True
    shape = n.any_shape()
    axis = n.axis(len(shape))
    x = n.input(shape)
    names = factors(n, shape[axis:], 2 if op == "LayerNormalization" and n.coin() else 1)
    return [n.node(op, [x, *names], axis=axis, **epsilon(n))]


@draws("InstanceNormalization", "GroupNormalization", "BatchNormalization")
def grouped_norm(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    n.plain = True
    shape = n.spatial()
    x = n.input(shape)
    names = factors(n, (shape[1],), 2)
    more: dict = epsilon(n)
    if op == "GroupNormalization":
        more["num_groups"] = n.of(*(g for g in (1, 2, 3, 4) if shape[1] % g == 0))
    if op == "BatchNormalization":
        names += factors(n, (shape[1],), 1)
        names.append(n.constant(n.rng.uniform(0.05, 3, shape[1]).astype(np.float32)))
    return [n.node(op, [x, *names], **more)]


@draws("LpNormalization")
def lp_norm(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    return [n.node(op, [n.input(shape)], axis=n.axis(len(shape)), p=2)]


@draws("com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSigmoid")
def qlinear_unary(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    return [n.node(op, [n.input(n.any_shape())], **numbers(n, "", op))]
