# SPDX-License-Identifier: Apache-2.0
"""The interface of a layer for the planner, the virtual MCU and the tests.

A layer is computed row by row. Within a row it works in *ticks*: at one tick it first
reads, then writes. `writes` gives the tick at which each output byte is written and `last_reads`
the tick of the last read of each input byte, both counted over the whole layer with
`ticks_per_row` ticks to a row; row and tick inside the row are the quotient and the remainder.
These two arrays are all the planner needs to know: an output byte may replace an input byte when
the byte's last read is not later than the write. lib/vmcu/kernels follows the same order.
"""

from __future__ import annotations

import enum
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from ..graph import Graph, Node, Op, Tensor
from ..kernels.language.ir import Program
from ..kernels.language.ticks import Ticks
from ..kernels.programs import programs
from ..kernels.targets import named
from .biases import Biases
from .binding import Binding
from .interval import Interval
from .rates import FLOATING, Rates
from .reach import Reach
from .values import STRUCTS, Kernel

OpT = TypeVar("OpT", bound=Op)
NEVER = -1
# Columns that most kernels work on together.
PAIR = 2
# The executor's own buffer for scratch; what does not fit into it lives in the pool, from a
# multiple of SCRATCH_ALIGN on.
STACK_SCRATCH = 256
SCRATCH_ALIGN = 4
# The layer of each op, entered by subclassing Layer with `op`.
LAYER_OF: dict[type[Op], type[Layer[Any]]] = {}


class Form(enum.Enum):
    """The form in which a layer works, where there is a choice. SUMMING: it sums up whatever it
    reads, call by call, and writes after the last. DIRECT: it widens its input on the way, again
    and again, instead of in scratch. WIDE: it works on more pixels at once, for which it takes
    more scratch; the overlap of its tensors stays as it is."""

    USUAL = enum.auto()
    SUMMING = enum.auto()
    DIRECT = enum.auto()
    WIDE = enum.auto()


@dataclass(frozen=True)
class Cost:
    """The cost of tiles in cycles, from the costs of a target.

    per_call: of a call of the kernel beyond one for each row; per_idle: of a multiply-accumulate
    that a block of columns computes for nothing; per_mac: of any, beyond its cost in rows.
    """

    per_call: float
    per_idle: float
    per_mac: float = 0.0


class Layer(ABC, Generic[OpT]):
    """One node of a graph, bound to its tensors: meaning, cost, order of access, kernel in C.

    A layer works from the first row to the last, or `descending`, if it `can_descend`, from the
    last row and pixel to the first. `columns`: how many of a row a call computes, all by default.
    `block` is how many columns its kernel works on together, `target` the target of its constants,
    `outside` the input outside of the pool that it fetches from, if it does, `rates` the rates for
    the estimate of its cycles, `is_apart` whether its output may not overlap its inputs.

    A subclass with `op`, as in `class AddLayer(ProgramLayer[Add], op=Add)`, serves that op's nodes.
    """

    can_descend = False
    block = PAIR
    rates: ClassVar[Rates] = Rates()

    def __init_subclass__(cls, op: type[Op] | None = None, **rest: Any):
        """Raises TypeError where an op's layer is not the only one, or lacks a member that the
        tools would ignore in silence."""
        super().__init_subclass__(**rest)
        if op is None:
            return
        needed = {"kernel"} | {"biases" for field in fields(op) if field.name == "bias"}
        missing = [name for name in needed if getattr(cls, name) is getattr(Layer, name)]
        if op in LAYER_OF or missing:
            raise TypeError(f"{cls.__name__}: {op.__name__} has a layer, or it has no {missing}")
        LAYER_OF[op] = cls

    @classmethod
    def working(cls, graph: Graph, node: Node, form: Form) -> type[Layer[Any]] | None:
        """The class for a node of its op in a form; None if there is none."""
        return cls if form is Form.USUAL else None

    def __init__(
        self,
        graph: Graph,
        node: Node,
        descending: bool = False,
        columns: int | None = None,
        form: Form = Form.USUAL,
    ):
        assert self.can_descend or not descending, f"{type(self).__name__} cannot descend"
        self.node, self.form, self.target = node, form, named(graph.target)
        self.descending = descending
        self.op = cast("OpT", node.op)
        self.ins: tuple[Tensor, ...] = tuple(graph.tensors[name] for name in node.inputs)
        self.out: Tensor = graph.tensors[node.outputs[0]]
        self.is_apart = self.out.name in graph.apart
        self.outside: Tensor | None = graph.tensors.get(node.op.fetches)
        self.columns = self.width if columns is None else columns

    @abstractmethod
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        """Output rows y0 .. y1-1 as int8 (y1 - y0, W, C).

        data holds one int8 (H, W, C) array per input; only the rows `input_rows` names matter.
        """

    @abstractmethod
    def input_rows(self, index: int, y: int) -> range:
        """The rows of input `index` that output row y reads, cut to the image; step may be > 1."""

    def interval(self, ins: Sequence[Interval]) -> Interval:
        """Returns the range of the output's bytes, from the ranges of the inputs'."""
        if self.op.monotone:
            ends = itertools.product(*((one.low, one.high) for one in ins))
            return Interval.around([self._uniform(end) for end in ends])
        low, high = self.op.act_min, self.op.act_max
        return Interval.between(low, high, self.out.shape[2])

    def _uniform(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """The output for inputs of one byte a channel."""
        pairs = zip(values, self.ins, strict=True)
        images = [np.broadcast_to(value.astype(np.int8), tensor.shape) for value, tensor in pairs]
        return self.rows(images, 0, self.out.shape[0])

    def cycles(self, calls: int) -> float:
        """Cycles of so many calls, by estimate, on a Cortex-M4 without wait states. One layer in
        all of its calls computes its output once."""
        rates = self.rates
        each = rates.byte + rates.floating * (FLOATING in self.op.requantisers)
        each += rates.slow * self.slow_share
        taps = self.macs / self.out.shape[2]
        blocks = self.blocks(rates.block)
        worked = rates.mac * self.macs + rates.tap * taps + each * self.out.bytes
        return rates.call * calls + worked * blocks * rates.block / self.width

    def blocks(self, block: int, columns: int | None = None) -> int:
        """Counts blocks of so many columns in a row that is computed in calls of `columns`, by
        default the layer's."""
        columns = columns or self.columns
        calls, rest = divmod(self.width, columns)
        return calls * -(-columns // block) + -(-rest // block)

    @property
    def slow_share(self) -> float:
        """Returns the share of the output's channels whose fixed-point factor has no short form."""
        return 0.0

    @property
    def can_remove_channels(self) -> bool:
        """True if every output channel has weights of its own for every input channel; see
        `needed_channels` and `without`."""
        return False

    def needed_channels(self, outs: np.ndarray, source: Interval) -> np.ndarray:
        """Input channels, bool (C,), that output channels `outs`, bool, require where the input's
        bytes are those; of a layer that can remove channels."""
        raise NotImplementedError(f"{type(self).__name__} cannot remove channels")

    def without(self, outs: np.ndarray, ins: np.ndarray, source: Interval) -> Op:
        """The op of channels `outs` from channels `ins`, both bool: the constant terms of the
        others are part of the biases."""
        raise NotImplementedError(f"{type(self).__name__} cannot remove channels")

    def reach(self, index: int) -> Reach:
        """Returns the region of input `index` that an output pixel reads."""
        return Reach.everything(self.ins[index])

    @abstractmethod
    def last_reads(self, index: int) -> np.ndarray:
        """Tick of the last read of each byte of input `index`, int64 (H, W, C); NEVER if unread."""

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        """Tick, from the start of a call for columns from x on, of the last read of each byte of
        the rows that it reads of input `index`, int64 (W, C), NEVER where it reads none; None if
        only the call is known."""
        return None

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        """Tick, from the start of a call for columns from x on, at which each byte of its row is
        written, int64 (W, C), NEVER where none is; None if only the call is known."""
        return None

    def writes(self) -> np.ndarray:
        """Tick at which each output byte is written, int64 (H, W, C): byte by byte, ascending."""
        return np.arange(self.out.bytes, dtype=np.int64).reshape(self.out.shape)

    def ticks_of(self, rows: np.ndarray, columns: np.ndarray, channels: np.ndarray) -> np.ndarray:
        """Ticks, int64 (H, W, C), of output channels at the rows and columns that read an input's
        last, NEVER where none does; of a layer that writes byte by byte, ascending."""
        rows, columns = rows[:, None, None], columns[None, :, None]
        ticks = rows * self.out.row_bytes + columns * self.out.shape[2] + channels
        return np.where((rows == NEVER) | (columns == NEVER), NEVER, ticks)

    def rounding_noise(self, data: Sequence[np.ndarray]) -> np.ndarray:
        """Output bytes, bool (H, W, C), that ONNX Runtime computes from nothing but the rounding of
        its floats; data as in rows()."""
        return np.zeros(self.out.shape, bool)

    def clamp(self, values: np.ndarray) -> np.ndarray:
        """Bounded by the fused activation, as int8."""
        clipped: np.ndarray = np.clip(values, self.op.act_min, self.op.act_max).astype(np.int8)
        return clipped

    @property
    def bounds(self) -> dict[str, int]:
        """The fused activation, as parameter structs have it."""
        return {"act_min": self.op.act_min, "act_max": self.op.act_max}

    @property
    def zeros(self) -> dict[str, int]:
        """The zero points of the first input and of the output, as parameter structs have them."""
        return {"input_zero": self.ins[0].zero_point, "output_zero": self.out.zero_point}

    @property
    def kernel(self) -> Kernel:
        """The C function that computes the layer, and its parameters."""
        raise NotImplementedError(f"{type(self).__name__} can be replayed, not emitted")

    @property
    def cost(self) -> Cost:
        """Returns the costs that planners weigh against bytes."""
        costs = self.target.costs
        return Cost(costs.call, costs.mac / 2)

    def biases(self) -> Biases | None:
        """Returns the biases that lose precision on the way to bytes; None if it has none."""
        return None

    @property
    def sharing(self) -> int:
        """Columns for which a call reads its constants once."""
        return self.block

    @property
    def by_columns(self) -> bool:
        """True if a call may compute some columns of a row, from input rows that their ring
        splits; see struct vmcu_call."""
        return False

    @property
    def fewest(self) -> int:
        """Columns that a call is to compute at least, where there are as many."""
        return 1

    @property
    def by_rows(self) -> bool:
        """True if each output row is made in the same way of the input rows that it reaches,
        wherever it is, and the op would do so at any height: it can go on for ever. Padding in
        front of the first row aside."""
        return False

    @property
    def rows_ahead(self) -> int:
        """Rows of its own from which on no input is read in front of its first row; of a layer that
        works by_rows."""
        reaches = (self.reach(index) for index in range(len(self.ins)))
        return max(-(-reach.before[0] // max(reach.stride[0], 1)) for reach in reaches)

    @property
    def startup_rows(self) -> int:
        """Rows at its beginning, padding aside, that an unbounded schedule does not repeat."""
        return 0

    @property
    def transposed(self) -> Op | None:
        """The op for transposed tensors, rows for columns; None if there is none."""
        return None

    @property
    def sums(self) -> bool:
        return self.form is Form.SUMMING

    @property
    def ticks_per_row(self) -> int:
        return self.out.row_bytes

    @property
    def scratch_bytes(self) -> int:
        """Scratch that the kernel needs while it computes a row."""
        return 0

    @property
    def addressed(self) -> bool:
        """True if its scratch has to be in the pool, however small it is."""
        return self.sums

    @property
    def parts(self) -> dict[str, ProgramLayer[Any]]:
        """Layers whose kernels its own one calls, by the member of its parameters that has
        theirs."""
        return {}

    @property
    def height(self) -> int:
        """Rows of calls: the output's; the input's if the layer sums it up."""
        return self.out.shape[0]

    @property
    def width(self) -> int:
        """Columns of a row of calls."""
        return self.out.shape[1]

    @property
    def fetched(self) -> range:
        """Columns of `outside` that it copies; all rows have them."""
        return range(0)

    def turn(self, y: int) -> int:
        """The position of row y in the layer's order, and the row at position y."""
        return self.height - 1 - y if self.descending else y

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole layer; taps in the padding count."""
        return 0

    @property
    def weight_bytes(self) -> int:
        """Constant bytes the layer reads, requantiser included."""
        return 0


class ProgramLayer(Layer[OpT]):
    """A layer whose kernel is generated: its order of access is the program's."""

    can_descend = True

    @property
    @abstractmethod
    def binding(self) -> Binding:
        """The kernel and its parameters."""

    def program(self, name: str) -> Program:
        """The program of the target's kernel `vmcu_<name>`."""
        return programs(self.target.packing)[f"vmcu_{name}"]

    @property
    def symbol(self) -> str:
        """The kernel's name in C."""
        return self.binding.program.symbol

    @property
    def kernel(self) -> Kernel:
        binding = self.binding
        return Kernel(self.symbol, STRUCTS[binding.program.params](**binding.members("stream")))

    @functools.cached_property
    def ticks(self) -> Ticks:
        """Returns the ticks of a whole row."""
        return self._ticks(0, self.out.shape[1])

    def _ticks(self, x: int, columns: int) -> Ticks:
        return self.binding.ticks(self.ins, self.out, self.descending, x, columns)

    @property
    def ticks_per_row(self) -> int:
        return self.ticks.count

    @property
    def scratch_bytes(self) -> int:
        return self.binding.scratch_bytes

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        return self._ticks(x, columns).reads[index].reshape(self.ins[index].shape[1:])

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        return self._ticks(x, columns).writes.reshape(self.out.shape[1:])

    def writes(self) -> np.ndarray:
        turns = np.array([self.turn(y) for y in range(self.height)], np.int64)[:, None, None]
        ticks: np.ndarray = turns * self.ticks.count + self.ticks.writes
        return ticks

    def last_turns(self, index: int) -> np.ndarray:
        """Returns for each row of input `index` the turn of the layer that reads it last, int64;
        NEVER if none does."""
        last = np.full(self.ins[index].shape[0], NEVER, np.int64)
        for turn in range(self.height):
            rows = self.input_rows(index, self.turn(turn))
            last[rows.start : rows.stop : rows.step] = turn
        return last

    def last_reads(self, index: int) -> np.ndarray:
        last_row = self.last_turns(index)
        last_row = last_row[:, None, None]
        ticks = self.ticks.reads[index]
        times: np.ndarray = last_row * self.ticks.count + ticks
        times[np.broadcast_to((last_row < 0) | (ticks < 0), times.shape)] = NEVER
        return times.reshape(self.ins[index].shape)
