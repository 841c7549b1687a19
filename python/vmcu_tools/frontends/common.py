# SPDX-License-Identifier: Apache-2.0
"""The functions that the frontends share: reporting, and arithmetic that turns scales into
constants."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ..errors import Problem, UserError
from ..graph import Graph, Node, Notes, Op, Port, RecurrentState, Shape, State, Tensor, Window
from ..quant import INT8_MAX, INT8_MIN, FixedPoint, FixedSum, Numbers

# Beyond the memory of any microcontroller. A file that exceeds a limit is taken for a hostile one:
# together they bound the time and the memory that reading a file takes.
MAX_FILE_BYTES = 1 << 26
MAX_TENSOR_BYTES = 1 << 23
MAX_NODES = 3_000
MAX_PORTS = 256
MAX_RANK = 8
# The elements that the windows of a layer read, each as often as it is read; fields of a window in
# C.
MAX_WINDOWED_ELEMENTS, MAX_WINDOW = 1 << 28, 65535
MAX_MOVED_ELEMENTS = 1 << 25
SMALLER = "use a smaller model"

# The errors of reading a damaged file, in all libraries.
PARSE_ERRORS = (
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)

AGAIN = "export or download the file again"
ASK_EXPORTER = "change this part of the model and export it again"
REPORT_DEFECT = (
    "if other tools run this file, report it as a defect of vmcu, with the file; "
    "otherwise export the file again"
)
KEEP_QUANTISATION = "convert the model again with full-integer int8 quantisation"

Found = TypeVar("Found")
RuleT = TypeVar("RuleT")


class UnsupportedError(Exception):
    """Raised by an import rule: this node cannot be imported, and why. at: the name and the
    operator of the node, where it is not the one that is being read."""

    def __init__(self, reason: str, remedy: str = ""):
        self.reason = reason
        self.remedy = remedy
        self.at: tuple[str, str] | None = None
        super().__init__(reason)


class PassedOverError(Exception):
    """Raised where a node depends on something whose problem has been reported already."""


class Rules(dict[str, RuleT]):
    """Functions by operator. constraints: of each, for doc/ops.md; empty where only the general
    ones apply."""

    def __init__(self) -> None:
        self.constraints: dict[str, str] = {}

    def rule(
        self, *ops: str, constraints: str | Mapping[str, str] = ""
    ) -> Callable[[RuleT], RuleT]:
        """Registers a function under the names of operators. constraints: one text for all of
        them, or a text for each that has constraints of its own."""
        own = constraints if isinstance(constraints, Mapping) else dict.fromkeys(ops, constraints)

        def register(function: RuleT) -> RuleT:
            self.update(dict.fromkeys(ops, function))
            self.constraints |= {op: own.get(op, "") for op in ops}
            return function

        return register


def require(condition: bool, reason: str, remedy: str = "") -> None:
    """Raises UnsupportedError unless `condition` holds."""
    if not condition:
        raise UnsupportedError(reason, remedy)


def present(value: Found | None, reason: str, remedy: str = "") -> Found:
    """Returns its argument; raises UnsupportedError if that is None."""
    if value is None:
        raise UnsupportedError(reason, remedy)
    return value


@contextmanager
def naming(node: str, op: str) -> Iterator[None]:
    """Adds a node to the refusals of a rule that do not name one."""
    try:
        yield
    except UnsupportedError as error:
        error.at = error.at or (node, op)
        raise


@contextmanager
def reporting(file: str) -> Iterator[None]:
    """Turns the refusal of a rule into a UserError."""
    try:
        yield
    except UnsupportedError as error:
        raise UserError(Problem(error.reason, error.remedy, file, *(error.at or ()))) from error


@contextmanager
def parsing(file: str) -> Iterator[None]:
    """Turns the refusal of a rule, and every error that a damaged file can provoke, into one
    UserError."""
    try:
        # Nonsense scales overflow; the results are checked where they matter.
        with np.errstate(all="ignore"), reporting(file):
            yield
    except PARSE_ERRORS as error:
        reason = f"the file is damaged or truncated: {_said(error)}"
        raise UserError(Problem(reason, AGAIN, file)) from error


def unexpected(error: Exception) -> str:
    """The reason to give where a rule fails that should have found one itself: the file passed
    the first look, but its parts contradict each other, or the rule is wrong."""
    return f"importing it failed: {_said(error)}"


def _said(error: Exception) -> str:
    """An error in words of the file, without a name of Python's."""
    if isinstance(error, KeyError):
        return f"there is no {error}"
    if isinstance(error, RecursionError | MemoryError):
        return "its parts are nested too deeply or are too large"
    return str(error) or "the parts contradict each other"


def check_window(window: Window, shape: Sequence[int], channels: int) -> Window:
    """The window, if one over an image of `shape` (H, W, ...) with as many channels is small enough
    to be computed here and stored in C."""
    largest = max(*window.kernel, *window.stride, *window.dilation, *window.pad)
    require(largest <= MAX_WINDOW, f"its window has {largest} in one of its fields", SMALLER)
    sizes = [window.out_size(axis, shape[axis]) for axis in (0, 1)]
    count = math.prod((*window.kernel, *sizes, channels))
    reason = f"its windows read {count} elements"
    require(count <= MAX_WINDOWED_ELEMENTS, reason, SMALLER)
    return window


@dataclass
class GraphBuilder:
    """Collects a graph and, instead of stopping at the first, all problems of a file."""

    file: str
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    # States that layers compute in each call.
    recurrent: list[RecurrentState] = field(default_factory=list)
    moved: int = 0
    # The node of each tensor that has one, by name.
    producers: dict[str, Node] = field(default_factory=dict)

    def problem(self, reason: str, remedy: str = "", node: str = "", op: str = "") -> None:
        entry = Problem(reason, remedy or ASK_EXPORTER, self.file, node, op)
        if entry not in self.problems:
            self.problems.append(entry)

    def repeated_input(self, name: str, times: int) -> None:
        self.problem(
            f"'{name}' is {times} of the model's inputs at once",
            "list each input once, and give copies of a value to one input",
            name,
        )

    def add_tensor(self, tensor: Tensor) -> Tensor:
        small = tensor.bytes <= MAX_TENSOR_BYTES
        require(small, f"tensor '{tensor.name}' has {tensor.bytes} bytes", SMALLER)
        known = self.tensors.setdefault(tensor.name, tensor)
        require(known == tensor, f"two tensors are called '{tensor.name}'", "rename one of them")
        return known

    def spend(self, elements: int) -> None:
        """Counts elements whose places have to be worked out one by one."""
        self.moved += elements
        few = self.moved <= MAX_MOVED_ELEMENTS
        require(few, "the model rearranges its tensors too often", "transpose and slice less")

    def add_node(self, name: str, op: Op, inputs: list[str], output: str) -> None:
        node = Node(name, op, tuple(inputs), (output,))
        self.nodes.append(node)
        self.producers[output] = node

    def add_steps(self, node: str, x: Tensor, steps: Sequence[tuple[str, Op, Shape]]) -> Tensor:
        """Adds ops one behind the other: a name, an op and the shape of its result each. Returns
        the last result, which has the scale and zero point of x, as all of them."""
        for name, op, shape in steps:
            out = self.add_tensor(replace(x, name=name, shape=shape))
            self.add_node(node, op, [x.name], name)
            x = out
        return x

    def limit_numbers(self, tensor: str, rows: int) -> None:
        """Notes that an input's numbers are those of a table's rows."""
        for place, port in enumerate(self.inputs):
            if port.tensor == tensor:
                self.inputs[place] = replace(port, below=min(rows, port.below or rows))

    def finish(self, name: str) -> Graph:
        """The graph, or UserError with every problem met on the way."""
        if self.notes.dropped and not self.outputs:
            self.problem("all of its outputs are constants", "use them without a model")
        if self.problems:
            raise UserError(*self.problems)
        return Graph(
            name,
            self.file,
            self.tensors,
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(self.outputs),
            state=State(recurrent=tuple(self.recurrent)),
            notes=self.notes,
        )


def check_file_size(path: Path, size: int) -> None:
    """UserError for a file that no microcontroller's model can be."""
    if size > MAX_FILE_BYTES:
        reason = f"the file has {size:,} bytes, {MAX_FILE_BYTES:,} at most"
        raise UserError(Problem(reason, "use a smaller model", str(path)))


def hwc(shape: tuple[int, ...]) -> Shape:
    """The (H, W, C) of a channels-last file shape: (1, H, W, C), (1, M, K), (M, K), (K,) or ().

    Row-major order is kept, so bytes need not move.
    """
    require(all(d > 0 for d in shape), f"shape {list(shape)} is empty or dynamic", "fix all sizes")
    while len(shape) > 4 and shape[0] == 1:
        shape = shape[1:]
    require(len(shape) <= 4, f"shape {list(shape)} has more than four dimensions")
    if len(shape) >= 3:
        require(shape[0] == 1, f"batch size {shape[0]} in shape {list(shape)}", "use batch size 1")
        shape = shape[1:]
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return shape[0], 1, shape[1]
    return 1, 1, shape[0] if shape else 1


def axis_of(axis: int, rank: int) -> int:
    """Returns an axis that may be counted from the end, counted from the front."""
    require(-rank <= axis < rank, f"axis {axis} of {rank} dimensions")
    return axis % rank


def hwc_axis(axis: int, rank: int) -> int:
    """Returns the axis in `hwc` of axis `axis` of a channels-last file shape of `rank` dimensions.

    Raises UnsupportedError for the batch.
    """
    axis = axis_of(axis, rank)
    table = {1: [2], 2: [0, 2], 3: [-1, 0, 2], 4: [-1, 0, 1, 2]}
    require(rank in table, f"a tensor with {rank} dimensions")
    place = table[rank][axis]
    require(place >= 0, "the operation works across the batch", "use batch size 1")
    return place


def round_half_away(x: float) -> int:
    """C round(): to nearest, ties away from zero."""
    return int(np.floor(abs(x) + 0.5)) * (1 if x >= 0 else -1)


def quantize_bound(value: float, scale: float, zero_point: int) -> int:
    """A real bound in a tensor's quantisation, not clipped to int8.

    The quotient is a float32 one: TensorFlow Lite, kernels/kernel_util.cc,
    CalculateActivationRangeQuantized.
    """
    return zero_point + round_half_away(float(np.float32(value) / np.float32(scale)))


def clamp_range(low: float, high: float, scale: float, zero_point: int) -> tuple[int, int]:
    """act_min, act_max for the real interval [low, high]; infinities leave a side open."""
    lowest = INT8_MIN if np.isneginf(low) else quantize_bound(low, scale, zero_point)
    highest = INT8_MAX if np.isposinf(high) else quantize_bound(high, scale, zero_point)
    act_min, act_max = max(INT8_MIN, lowest), min(INT8_MAX, highest)
    require(act_min <= act_max, f"no int8 value lies within the activation range [{low}, {high}]")
    return act_min, act_max


def fixed_point(real: Numbers, max_shift: int = 30) -> FixedPoint:
    """The factors in fixed point. Raises UnsupportedError for those that shift beyond 32 bits."""
    require(bool(np.isfinite(real).all()), "a ratio of its scales is not a number")
    result = FixedPoint.of(real)
    absurd = f"a ratio of its scales is {np.abs(real).max()}"
    require(int(result.shift.max()) <= max_shift, absurd, KEEP_QUANTISATION)
    return result


def double_scale(x: float, w: np.ndarray, y: float) -> FixedPoint:
    """x * w / y in double, w per channel. TensorFlow Lite, kernels/kernel_util.cc,
    PopulateConvolutionQuantizationParams."""
    return fixed_point(np.float64(x) * np.asarray(w, np.float64) / np.float64(y))


def rescale(x: float, y: float) -> FixedPoint:
    """The one factor x / y, from float32 scales, in double."""
    return fixed_point(np.float64(x) / np.float64(y))


def fixed_sum(a: float, b: float, out: float) -> FixedSum:
    """Constants of an addition from its scales. TensorFlow Lite, micro/kernels/add_common.cc."""
    left_shift = 20
    twice_max = 2.0 * max(a, b)
    return FixedSum(
        a=fixed_point(np.float64(a / twice_max), 0),
        b=fixed_point(np.float64(b / twice_max), 0),
        out=fixed_point(np.float64(twice_max / ((1 << left_shift) * out)), 0),
        left_shift=left_shift,
    )


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """(before, after) of SAME padding, the odd element after."""
    out = -(-size // stride)
    total = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def check_scale(scale: float, what: str) -> None:
    """Raises UnsupportedError unless `scale` is a positive finite number."""
    ok = bool(np.isfinite(scale)) and scale > 0
    require(ok, f"the scale of {what} is {scale}", KEEP_QUANTISATION)


def check_weight_scales(scales: np.ndarray) -> None:
    """Raises UnsupportedError for zero or infinite scales.

    Negative ones are legal: some exporters fold a negative batch-norm factor into them.
    """
    ok = bool((np.isfinite(scales) & (scales != 0)).all())
    require(ok, "a scale of its weights is zero or not a number", KEEP_QUANTISATION)


def quantised(real: float, tensor: Tensor) -> int:
    """Quantises as QuantizeLinear does, with a tensor's scale and zero point."""
    q = np.rint(np.float32(real) / np.float32(tensor.scale)) + np.float32(tensor.zero_point)
    # Clipped before it becomes an integer: an infinity is the extreme.
    return int(np.clip(q, INT8_MIN, INT8_MAX))
