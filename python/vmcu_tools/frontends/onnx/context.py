# SPDX-License-Identifier: Apache-2.0
"""The state of an ONNX import and the steps that all rules share."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace

import numpy as np

from ...graph import Op, Port, Shape, Tensor
from ...ops.lookup import Lookup
from ...ops.requantize import Requantize
from ...ops.reshape import Reshape
from ...quant import INT8_MAX, INT8_MIN
from .. import tables
from ..common import GraphBuilder, Rules, UnsupportedError, present, require
from ..movement import file_index, rearranged
from .curves import REQUANTISE, check_steps, clamp_range, table_of, tabulated
from .file import FileModel, FileNode
from .values import (
    Activation,
    Args,
    Constant,
    Curve,
    Failed,
    FileShape,
    FloatInput,
    Indices,
    Order,
    Pending,
    QuantConstant,
    Real,
    Value,
    arrangement,
    channels_last,
    explicit,
    is_image,
    matrices,
    operand,
    places,
    result_of,
    simplify,
    tensor_shape,
    usual_order,
)

QUANTISE_ALL = f"let QuantizeLinear follow that result. {REQUANTISE}"


INTEGERS = (
    "an input is an integer tensor, not a quantised one",
    "pick rows of a constant table with it, by a Gather, or let the model end there",
)


@dataclass(frozen=True, eq=False)
class Origin:
    """The activation and the table that give another one: its byte is table[q + 128] for the
    other's byte q."""

    activation: Activation
    table: np.ndarray


@dataclass
class Context:
    """The file, the graph under construction, and the value of each name so far."""

    model: FileModel
    builder: GraphBuilder
    values: dict[str, Value | Failed] = field(default_factory=dict)
    # How the file sees each tensor of the graph, and which of them are float values there.
    views: dict[str, Activation] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    origins: dict[str, Origin] = field(default_factory=dict)
    # Float values of the file that were given a scale, so that a function of them is a table.
    rounded: set[str] = field(default_factory=set)
    # The nodes whose values depend on constants and shapes alone.
    constant_nodes: Set[FileNode] = frozenset()
    # Elements of constants that were computed.
    folded: int = 0
    _fresh: int = 0
    _quantised: dict[tuple[str, float, int], Activation] = field(default_factory=dict)
    _arranged: dict[tuple[str, tuple[int, ...], bytes], Tensor] = field(default_factory=dict)

    def define(
        self,
        name: str,
        shape: FileShape,
        order: Order,
        scale: float,
        zero: int,
        dtype: str,
        memory: Shape | None = None,
    ) -> Activation:
        """A new tensor under a name of the file."""
        tensor = Tensor(name, memory or tensor_shape(shape, order), scale, zero)
        activation = Activation(self.builder.add_tensor(tensor), shape, order, dtype)
        self.views[name] = activation
        return activation

    def activation(self, value: Value | None) -> Activation:
        """The int8 tensor behind a value; a pending one is made at the scale it keeps."""
        value = operand(value)
        if isinstance(value, Activation):
            return value
        if isinstance(value, Real):
            return value.activation
        if isinstance(value, Pending):
            scale, zero_point = present(
                value.keeps,
                f"input '{value.name}' is a float result that is not quantised",
                QUANTISE_ALL,
            )
            self.hidden.add(value.name)
            return self.quantise(value, scale, zero_point, value.name, value.dtype)
        if isinstance(value, Curve):
            raise UnsupportedError("an input is a float result that is not quantised", QUANTISE_ALL)
        require(not isinstance(value, Indices), *INTEGERS)
        if isinstance(value, FloatInput):
            reason = f"the float input '{value.name}' is not quantised first"
            raise UnsupportedError(reason, f"leave this step to the caller. {REQUANTISE}")
        reason = "an input is a constant where an activation is needed"
        raise UnsupportedError(reason, "fold the constant")

    def quantise(
        self, value: Value | None, scale: float, zero_point: int, name: str, dtype: str
    ) -> Activation:
        """Applies QuantizeLinear to a float value; the result is a tensor called `name`.

        zero_point is that of int8, also for uint8 tensors, whose q are kept as q - 128.
        """
        if isinstance(value, FloatInput):
            return self._quantise_input(value, scale, zero_point, name, dtype)
        if isinstance(value, Real):
            value = clamp(value.activation, name, name)
        if isinstance(value, Curve):
            if value.activation.tensor.name in self.rounded:
                check_steps(value, scale, zero_point)
            activation = self.quantise(tabulated(value, name), scale, zero_point, name, dtype)
            table = table_of(value, activation.tensor)
            self.origins[activation.tensor.name] = Origin(value.activation, table)
            return activation
        require(not isinstance(value, Indices), *INTEGERS)
        if not isinstance(value, Pending):
            raise UnsupportedError("the input of QuantizeLinear is not an activation")
        if value.resolve is not None:
            inner = value.resolve(scale, zero_point)
            if isinstance(inner, Pending):
                inner = replace(inner, low=value.low, high=value.high)
            return self.quantise(inner, scale, zero_point, name, dtype)
        key = (value.name, scale, zero_point)
        if key not in self._quantised:
            self._quantised[key] = self._emit(value, scale, zero_point, name, dtype)
        return self._quantised[key]

    def _emit(
        self, value: Pending, scale: float, zero_point: int, name: str, dtype: str
    ) -> Activation:
        act_min, act_max = clamp_range(value.low, value.high, scale, zero_point)
        bounded = (act_min, act_max) != (INT8_MIN, INT8_MAX)
        if (bounded and not value.clamps) or (value.copies and value.keeps != (scale, zero_point)):
            inner = self._unbounded(value, scale, zero_point)
            value = clamp(inner, name, name, value.low, value.high)
        quant = scale, zero_point, dtype
        out = self.define(name, value.shape, value.order, *quant, value.memory)
        op = value.make(out.tensor)
        op = op.clamped(act_min, act_max) if bounded else op
        self.builder.add_node(value.node, op, [t.name for t in value.inputs], out.tensor.name)
        return out

    def fresh(self, name: str) -> str:
        """A name that no other tensor has."""
        self._fresh += 1
        return f"{name}/{self._fresh}"

    def hidden_name(self, name: str) -> str:
        """A name that no other tensor has, of one that is none in the file."""
        fresh = self.fresh(name)
        self.hidden.add(fresh)
        return fresh

    def _unbounded(self, value: Pending, scale: float, zero_point: int) -> Activation:
        """The float result itself as a tensor, under its own name and without its clamp."""
        if value.copies and value.keeps is not None:
            scale, zero_point = value.keeps
        name = f"{value.name}/unbounded"
        self.hidden.add(name)
        free = replace(value, low=-np.inf, high=np.inf)
        return self.quantise(free, scale, zero_point, name, value.dtype)

    def _quantise_input(
        self, value: FloatInput, scale: float, zero_point: int, name: str, dtype: str
    ) -> Activation:
        taken = [port.tensor for port in self.builder.inputs if port.name == value.name]
        if taken:
            first = self.views[taken[0]]
            same = (first.tensor.scale, first.tensor.zero_point) == (scale, zero_point)
            require(same, f"the input '{value.name}' is quantised twice, in different ways")
            # Views of the input differ in shape, not in the order of bytes.
            laid = explicit(value.shape, value.order).reshape(first.tensor.shape)
            return replace(first, shape=value.shape, order=arrangement(value.shape, laid)[0])
        quant = scale, zero_point, dtype
        ahead, image = name, None
        if value.layout == "nchw" and not _as_given(value):
            # Its channels are those of the shape in which it is given, not of one behind a view.
            ahead = self.hidden_name(name)
            order, memory = arrangement(value.source, channels_last(value.source))
            image = self.define(ahead, value.source, order, *quant, memory)
        out = self.define(name, value.shape, value.order, *quant, value.memory)
        if image is not None:
            self.builder.add_node(name, Reshape(), [ahead], name)
        port = Port(ahead, value.name, value.source, "float32", value.layout)
        self.builder.inputs.append(port)
        return out

    def arranged(self, x: Activation, laid: np.ndarray) -> Tensor:
        """`x` with the file's elements in the order `laid`, (H, W, C) of row-major indices."""
        index = places(x).ravel()[laid]
        key = (x.tensor.name, index.shape, index.tobytes())
        if key not in self._arranged:
            source, kind = rearranged(self.builder, x.tensor, index)
            if source is x.tensor and isinstance(kind, Reshape) and source.shape == index.shape:
                return x.tensor
            name = f"{x.tensor.name}/{sum(k[0] == x.tensor.name for k in self._arranged)}"
            shape = index.shape[0], index.shape[1], index.shape[2]
            out = self.builder.add_tensor(Tensor(name, shape, x.tensor.scale, x.tensor.zero_point))
            self.builder.add_node(name, kind, [source.name], name)
            self._arranged[key] = out
        return self._arranged[key]

    def image(self, value: Value | None) -> Activation:
        """A (1, C, H, W) or (1, C, L) activation, its bytes channels last. L becomes H."""
        x = self.activation(value)
        known = len(x.shape) in (3, 4)
        require(known, f"the input has the shape {list(x.shape)}, not (1, C, H, W) or (1, C, L)")
        require(x.shape[0] == 1, f"batch size {x.shape[0]} in {list(x.shape)}", "use batch size 1")
        laid = channels_last(x.shape)
        tensor = self.arranged(x, laid)
        return Activation(tensor, x.shape, arrangement(x.shape, laid)[0], x.dtype)

    def usual(self, value: Value | None) -> Activation:
        """An activation in the usual order, under the shape that goes with it."""
        x = self.activation(value)
        memory = tensor_shape(x.shape, None)
        laid = usual_order(x.shape).reshape(memory)
        return Activation(self.arranged(x, laid), x.shape, None, x.dtype)

    def moved(self, node: FileNode, x: Activation, index: np.ndarray, output: int = 0) -> Pending:
        """`x` after an operator that only rearranges: `index` holds, in the shape of the result
        in the file, the row-major place of each element in x."""
        require(index.size > 0, f"the output is empty, of shape {list(index.shape)}")
        shape = tuple(int(d) for d in index.shape)
        if is_image(shape) and is_image(x.shape) and x.order is None:
            laid = channels_last(shape)
        else:
            laid = file_index(shape)
            laid = laid.reshape(matrices(shape) if len(shape) > 3 else tensor_shape(shape, None))
        places_in = places(x).ravel()[index.ravel()[laid]]
        source, kind = rearranged(self.builder, x.tensor, places_in)
        keeps = x.tensor.scale, x.tensor.zero_point
        more = {"keeps": keeps, "copies": True, "clamps": False}
        pending = result_of(node, x, (source,), lambda out: kind, (shape, laid), **more)
        return replace(pending, name=node.outputs[output])

    def view(self, value: Value, node: FileNode, to: FileShape, order: Order) -> Value:
        """`value` under another file shape, its bytes where they are."""
        name = node.outputs[0]
        if order is not None:
            self.builder.spend(order.size)
        if isinstance(value, FloatInput):
            return replace(value, shape=to, order=order, memory=None)
        x = self.activation(value)
        return Pending(
            name,
            node.name,
            to,
            order,
            (x.tensor,),
            lambda out: Reshape(),
            x.dtype,
            (x.tensor.scale, x.tensor.zero_point),
            copies=True,
            clamps=False,
        )

    def reshape(self, value: Value | None, node: FileNode, to: FileShape) -> Value:
        """`value` with its row-major elements in the file regrouped into the shape `to`."""
        if isinstance(value, Indices):
            return replace(value, shape=to)
        if not isinstance(value, FloatInput):
            value = self.activation(value)
        count = int(np.prod(value.shape, dtype=np.int64))
        require(count == int(np.prod(to, dtype=np.int64)), f"{list(value.shape)} to {list(to)}")
        return self.view(value, node, to, simplify(to, explicit(value.shape, value.order)))

    def constant(self, args: Args, place: int, what: str) -> np.ndarray | None:
        """Input `place` as an array, None if absent; it must be a constant."""
        value = args[place] if place < len(args) else None
        if value is None:
            return None
        if isinstance(value, QuantConstant):
            return value.real()
        if not isinstance(value, Constant):
            raise UnsupportedError(f"the {what} must be constant", "freeze the model")
        return value.array


def _as_given(value: FloatInput) -> bool:
    """Whether an image that the file gives channels first still has its shape and order."""
    laid = channels_last(value.source).ravel()
    return value.shape == value.source and np.array_equal(laid, explicit(value.shape, value.order))


def common_root(context: Context, curves: list[Curve]) -> list[Curve] | None:
    """Functions of several activations as functions of one that all of them come from, if there is
    one and all have its shape."""
    histories = [_history(context, curve) for curve in curves]
    for root in histories[0]:
        if all(root in history for history in histories):
            functions = [history[root] for history in histories]
            shapes = {curve.activation.shape for curve in functions}
            return functions if len(shapes) == 1 else None
    return None


def _history(context: Context, curve: Curve) -> dict[str, Curve]:
    """A function by the name of each activation that it is a function of, the last one first."""
    curves = {curve.activation.tensor.name: curve}
    while (origin := context.origins.get(curve.activation.tensor.name)) is not None:
        real = curve.real[origin.table.astype(np.int64) - INT8_MIN]
        if origin.activation.shape != curve.activation.shape:
            break
        curve = Curve(origin.activation, real)
        curves[origin.activation.tensor.name] = curve
    return curves


# Takes a node and the values of its inputs; returns its first output, or all of them.
Rule = Callable[[Context, FileNode, Args], Value | list[Value]]
RULES: Rules[Rule] = Rules()
rule, CONSTRAINTS = RULES.rule, RULES.constraints


def outputs(context: Context, node: FileNode, args: Args) -> list[Value]:
    """Applies the rule of a node's operator to its inputs."""
    values = RULES[node.op](context, node, args)
    return values if isinstance(values, list) else [values]


def clamp(
    x: Activation, name: str, node: str, low: float = -np.inf, high: float = np.inf
) -> Pending:
    """A pending change of scale of `x`, bounded by real limits."""
    keeps = (x.tensor.scale, x.tensor.zero_point)

    def make(out: Tensor) -> Op:
        if (out.scale, out.zero_point) == keeps:
            return Requantize(None)
        table = tables.quantised(tables.real_values(x.tensor), out)
        return Lookup(table)

    return Pending(
        name,
        node,
        x.shape,
        x.order,
        (x.tensor,),
        make,
        x.dtype,
        keeps,
        low=low,
        high=high,
        memory=x.tensor.shape,
        curve=Curve(x, np.clip(tables.real_values(x.tensor), np.float32(low), np.float32(high))),
    )
