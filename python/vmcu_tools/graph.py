# SPDX-License-Identifier: Apache-2.0
"""The int8 graph: what a model computes, free of its file format.

Activations are int8 tensors of shape (H, W, C); batch is always one. A row is the W x C bytes of
one y. Fully connected activations are one row of one pixel, (1, 1, C); a matrix of M rows is
(M, 1, K). Weights and all other constants live inside the ops, already in the layout given
there; ONNX models have been turned from NCHW to NHWC. Every op carries its requantiser, computed
exactly as the runtime that the file was written for computes it, so that nothing below the
frontends needs to know the format.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from .quant import INT8_MAX, INT8_MIN, FixedPoint, FloatProduct, FloatScale, FloatSum

Shape = tuple[int, int, int]
Shapes = Sequence[Shape]
# A port's layout by that of one whose rows and columns are in each other's place.
EXCHANGED = {"nhwc": "nwhc", "nchw": "ncwh"}
# By the names of Kconfig, VMCU_REQUANT_...
REQUANTISERS = {FixedPoint: "FIXED", FloatScale: "FLOAT", FloatSum: "FLOAT", FloatProduct: "FLOAT"}


@dataclass(frozen=True)
class Tensor:
    """An int8 activation. real = scale * (q - zero_point). Where an element is several bytes, see
    Port, q is the element."""

    name: str
    shape: Shape
    scale: float
    zero_point: int

    @property
    def table_zero(self) -> int:
        """The zero point as struct vmcu_io has it: 0 for one that is not within int8."""
        return self.zero_point if INT8_MIN <= self.zero_point <= INT8_MAX else 0

    @property
    def row_bytes(self) -> int:
        return self.shape[1] * self.shape[2]

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.row_bytes


@dataclass(frozen=True)
class Window:
    """How an output pixel looks at its input: kernel, stride, dilation as (y, x); pad as
    (top, left, bottom, right). Padding takes part as the input's zero point."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)

    def extent(self, axis: int) -> int:
        """Input elements from a window's first tap to its last, both included."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    @property
    def transposed(self) -> Window:
        """With rows and columns in each other's place."""
        top, left, bottom, right = self.pad
        kernel, stride, dilation = (
            (across, down) for down, across in (self.kernel, self.stride, self.dilation)
        )
        return Window(kernel, stride, dilation, (left, top, right, bottom))

    def first(self, axis: int, out: int) -> int:
        """Input index of the first tap of output index `out`; negative inside the padding."""
        return out * self.stride[axis] - self.pad[axis]

    def out_size(self, axis: int, size: int) -> int:
        padded = size + self.pad[axis] + self.pad[axis + 2]
        return (padded - self.extent(axis)) // self.stride[axis] + 1


@dataclass(frozen=True, eq=False)
class Op:
    """Base of all ops, which are in ops/. act_min and act_max bound the int8 output.

    Traits, by which the rest of the tools treats ops alike. What an op does not say of itself is
    what is right for any:

    clamps: the kernel applies act_min and act_max; an activation may be fused into it
    elementwise: an output byte depends on the inputs' bytes of its own place alone, and in the same
        way in all places; whoever writes in place may write over any input
    windowed: an output pixel is made of the taps under its `window`, a field of the op
    exact: bytes are compared and moved; every runtime that computes on their values gives the same
    relabels: the same bytes in the same order, which need not be moved at all
    columnwise: weights (N, ...) times a column of taps, which other libraries gather first
    channelwise: weights of each channel on its own, which other libraries work on one by one
    tabulated: a table of one byte's 256 values
    differing_share: of the bytes for random inputs, or of the entries of a table, how many may be a
        step from ONNX Runtime's, if it is not exact; see oracle/promise.py
    monotone: an output byte only rises, or only falls, while one input byte rises and the others
        stay, so that the least and the largest are those of the least and largest inputs
    always_has: requantisers, of REQUANTISERS, that no build of the kernel can leave out
    fetches: the graph input whose bytes it reads where the caller has them, "" for none
    data_dependent: what its instructions depend on besides shapes, and by how much; "" if they are
        as many for every input
    """

    clamps: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    windowed: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    relabels: ClassVar[bool] = False
    columnwise: ClassVar[bool] = False
    channelwise: ClassVar[bool] = False
    tabulated: ClassVar[bool] = False
    differing_share: ClassVar[float] = 0.06
    monotone: ClassVar[bool] = False
    always_has: ClassVar[frozenset[str]] = frozenset()
    fetches = ""
    data_dependent: ClassVar[str] = ""

    act_min: int = field(default=INT8_MIN, kw_only=True)
    act_max: int = field(default=INT8_MAX, kw_only=True)

    @property
    def is_data_dependent(self) -> bool:
        """True if `data_dependent` is about this op, not about another form of it."""
        return bool(self.data_dependent)

    @property
    def by_channel(self) -> bool:
        """True if channel c of the output is made of channel c of every input alone."""
        return self.elementwise

    def clamped(self, low: int, high: int) -> Op:
        """The op whose output is also within [low, high], if it clamps."""
        if not self.clamps:
            return self
        return replace(self, act_min=max(low, self.act_min), act_max=min(high, self.act_max))

    def of_channels(self, picked: np.ndarray) -> Op:
        """The op for some channels of its tensors alone, where it works by_channel."""
        return self

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        """The op for inputs of shapes `ins` in place of `was`, and its output's shape in place of
        `out`; channels: of the output, where the op has weights of its own for each. Weights are
        made up by repeating or leaving out. None where there is no such op."""
        if tuple(ins) == tuple(was):
            return self, out
        if self.elementwise and len(set(ins)) == 1:
            return self, ins[0]
        return None

    def of_columns(self, first: int) -> Op:
        """The op for an output that begins with column `first`, where it fetches columns."""
        return self

    def window_source(self, inputs: Sequence[str]) -> str:
        """Returns the input with an unbounded schedule of which it copies a window; "" for none."""
        return ""

    def previous_step_input(self, inputs: Sequence[str]) -> str:
        """Returns the input that has its value of the previous streaming step; "" for none."""
        return ""

    def at_step(self, number: int) -> Op:
        """Returns the op of streaming step `number`, where it depends on that."""
        return self

    @property
    def requantisers(self) -> set[str]:
        """Which requantisers a build with this op must not leave out, by the names of Kconfig."""
        kinds = map(type, vars(self).values())
        return {REQUANTISERS[kind] for kind in kinds if kind in REQUANTISERS} - self.always_has


# An op for tensors of other sizes, and the shape of its output.
Scaled = tuple[Op, Shape]


@dataclass(frozen=True, eq=False)
class Node:
    """One op, with the names of its activation inputs and outputs. `name` is the file's."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        return type(self.op).__name__

    @property
    def is_recurrent(self) -> bool:
        """True if it reads its own output: it computes each row from the row before."""
        return not set(self.inputs).isdisjoint(self.outputs)

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors that its values are made of, wherever they lie."""
        return (self.op.fetches,) if self.op.fetches else self.inputs


@dataclass(frozen=True)
class Port:
    """How the file presents a graph input or output: shape, element type, and the order of its
    axes: "nchw" where channels come first among (1, C, ...), else "nhwc"; EXCHANGED where H of the
    tensor is W of the file.

    Types are "int8", "uint8", "float32", and those whose elements are several channels of the
    tensor, least significant byte first: "int16", and "int32" or "int64", both the bytes of an
    int32, for quantised values, the result of ArgMax and the numbers of Embedding. `half_away`:
    real values are quantised with ties away from zero, as TensorFlow Lite does, not to even.
    `below`: numbers of an input are from 0 to this less one.
    """

    tensor: str
    name: str
    file_shape: tuple[int, ...]
    dtype: str
    layout: str = "nhwc"
    half_away: bool = False
    below: int = 0

    @property
    def element_bytes(self) -> int:
        """Bytes of its tensor that hold an element."""
        return {"int16": 2, "int32": 4, "int64": 4}.get(self.dtype, 1)

    @property
    def is_wide(self) -> bool:
        """True if an element is several bytes of its tensor."""
        return self.element_bytes > 1


@dataclass(frozen=True)
class RecurrentState:
    """A state that layers compute in each call.

    before: the tensor with its value before the call, which no node of the graph computes
    after: the tensor with its value after the call
    initial: the int8 value of all its bytes before the first call
    """

    before: str
    after: str
    initial: int


@dataclass(frozen=True)
class RowField:
    """An input of the file that is a part of the only input's row, from byte `first` on. Passes
    can remove the tensor from the graph."""

    port: Port
    tensor: Tensor
    first: int


@dataclass(frozen=True)
class State:
    """What a graph keeps between calls or between streaming steps; passes set it.

    names: the states in the file: its variables, or its inputs that receive an output
    pairs: input and output of each state, by the file's names; none for variables
    recurrent: the states that layers compute; all others are rows of ring buffers, and in the graph
        of a first call they are padding
    row_fields: the file's inputs, if they are parts of the only input's row
    copied: the recurrent states among the file's inputs, and why they are no ring buffers
    step_rows: the streaming step: rows of the only input from one output to the next; 0 for a graph
        that does not stream
    unbounded_nodes: the number of first nodes that have an unbounded schedule, if those behind them
        compute a whole window in each streaming step; 0 if all nodes have
    updates: tensors of an input and of the output that is its next value, both at one address
    """

    names: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    recurrent: tuple[RecurrentState, ...] = ()
    row_fields: tuple[RowField, ...] = ()
    copied: tuple[tuple[str, str], ...] = ()
    step_rows: int = 0
    unbounded_nodes: int = 0
    updates: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Notes:
    """What a user is told of a graph.

    dropped: names of the file's outputs that are float constants, which the graph does not have
    is_random: its scales come from random samples, and its results mean nothing
    """

    dropped: tuple[str, ...] = ()
    is_random: bool = False


def loops_among(producers: Sequence[Sequence[int]]) -> tuple[range, ...]:
    """Runs of nodes in which one reads another that comes later. producers: by node, the numbers of
    those whose outputs it reads."""
    runs: list[range] = []
    for number, read in enumerate(producers):
        last = max(read, default=-1)
        if runs and number < runs[-1].stop:
            runs[-1] = range(runs[-1].start, max(runs[-1].stop, last + 1))
        elif last > number:
            runs.append(range(number, last + 1))
    return tuple(runs)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in the file's order, which is an execution order. `origin` is the file's path; `target`
    the cores that constants are laid out for, by their name in kernels/targets, the default ones if
    None.

    `channels`: of a tensor that has lost some, which of the file's channels it still has, int64;
    `left_out`: how many all tensors have lost; `macs_file`: multiply-accumulates of the file where
    there are fewer now, else 0. `offline`: offsets in bytes that the file has for tensors, for
    another runtime. `elsewhere`: inputs that are read where the caller has them, by ops that say
    so (`fetches`), and are never in the pool. `aligned`: tensors that begin where scratch can;
    `apart`: those that overlap no input of their layer, which another reads at the same time.
    The heights of a graph that streams are those of some streaming steps.
    """

    name: str
    origin: str
    tensors: dict[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    target: str | None = None
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)
    left_out: int = 0
    macs_file: int = 0
    offline: Mapping[str, int] = field(default_factory=dict)
    elsewhere: frozenset[str] = frozenset()
    aligned: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    notes: Notes = Notes()
    state: State = State()

    def with_state(self, **changes: Any) -> Graph:
        """Returns the graph with some fields of its state changed."""
        return replace(self, state=replace(self.state, **changes))

    @property
    def held(self) -> tuple[Port, ...]:
        """The inputs that a pool holds."""
        return tuple(port for port in self.inputs if port.tensor not in self.elsewhere)

    @property
    def is_recurrent(self) -> bool:
        """True if one of its nodes is, see Node."""
        return any(node.is_recurrent for node in self.nodes)

    @functools.cached_property
    def carried(self) -> frozenset[str]:
        """The tensors of loops that a node reads which comes before the one that makes them."""
        made: set[str] = {port.tensor for port in self.inputs}
        early: set[str] = set()
        for node in self.nodes:
            early.update(set(node.inputs) - made - set(node.outputs))
            made.update(node.outputs)
        return frozenset(early)

    @functools.cached_property
    def loops(self) -> tuple[range, ...]:
        """Runs of nodes, by number, whose first reads rows of the steps before, which the last
        makes: they are computed row by row together."""
        makers = {node.outputs[0]: number for number, node in enumerate(self.nodes)}
        return loops_among([[makers.get(name, -1) for name in n.inputs] for n in self.nodes])

    @property
    def stored_states(self) -> dict[str, str]:
        """The tensors that store recurrent states until the next streaming step, by the tensor with
        the state after the step."""
        read = {node.op.previous_step_input(node.inputs) for node in self.nodes}
        return {node.inputs[0]: node.outputs[0] for node in self.nodes if node.outputs[0] in read}

    def rows_at_once(self, port: Port) -> int:
        """Returns the rows of an input or output that the caller passes at once: one with an
        unbounded schedule, else all."""
        streams = self.state.step_rows > 0
        unbounded = streams and (self.state.unbounded_nodes == 0 or port in self.inputs)
        return 1 if unbounded else self.tensors[port.tensor].shape[0]

    def producer(self, tensor: str) -> Node | None:
        return next((n for n in self.nodes if tensor in n.outputs), None)

    def consumers(self, tensor: str) -> list[Node]:
        return [n for n in self.nodes if tensor in n.inputs]

    @functools.cached_property
    def readers(self) -> dict[str, list[Node]]:
        """The consumers of every tensor, for whoever asks for many."""
        found: dict[str, list[Node]] = {name: [] for name in self.tensors}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found
