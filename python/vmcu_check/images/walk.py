# SPDX-License-Identifier: Apache-2.0
"""An inference, call by call, on a pool that knows which byte of which tensor each of its bytes is.

In a model that keeps state, rows are counted on for ever, and tensors of stages that run once a hop
have keys of their own in each hop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# The import registers the rules of this module.
from . import moves  # noqa: F401
from .elf import FaultError, prove, require
from .pool import EMPTY, LATE, MARKS, PROGRESS, SCRATCH, SUMS, TENSOR_KEY, PoolKeys
from .rules import RULES, CallAccess, CallReads, KernelCall
from .scratch import scratch_bytes
from .tables import ON_STACK, POINT, TAKE, WORD, ImageLayer, ImageModel, ImageStage, ImageTensor

STACK_SCRATCH = 256
# Of tensors and windows: more is damage.
MOST_BYTES, MOST_TAPS = 1 << 24, 1 << 16
# Of all pools: the replay needs 16 bytes of memory for each byte.
MOST_POOL_BYTES = 1 << 25
# Of a model that keeps state, hops that are replayed at most.
MOST_HOPS = 4096
NOTHING = np.zeros(0, np.int64)
# Kernels that find the end of a ring buffer themselves, between two pixels.
SPLITTING = {"conv", "depthwise", "average_pool", "max_pool", "table_mean", "transpose_conv"}
SPLITTING |= {"filter_int16", "look_back", "attention"}
PAST = ("recall", "look_back")
Read = list[tuple[np.ndarray, CallReads]]


class ImageReplay:
    """Runs the calls of a model. Raises FaultError at the first byte that is read where it is not,
    or written where it must not be."""

    def __init__(self, model: ImageModel):
        are_small = all(0 < tensor.bytes <= MOST_BYTES for tensor in model.tensors)
        require(are_small, f"a tensor has no byte, or more than {MOST_BYTES}")
        are_small = sum(model.pools) <= MOST_POOL_BYTES
        require(are_small, f"its pools have more than {MOST_POOL_BYTES} bytes")
        for layer in model.layers:
            _check_layer(layer)
        self.model, self.pool = model, PoolKeys.of(model)
        # Hops since the beginning, and the number that the image counts.
        self.hop, self.number = 0, 0
        # Of an unbounded stage: calls of each layer, and rows of the input, since the beginning.
        self.made, self.taken = [0] * len(model.layers), 0
        unbounded = model.stages[0].layers if model.stream else ()
        self.unbounded = {layer.number for layer in unbounded}
        pushed = {port.tensor.number for port in model.inputs if model.stream}
        self.endless = {layer.out.number for layer in unbounded} | pushed

    @property
    def is_around(self) -> bool:
        """True if each layer of an unbounded stage has counted its calls anew, and gone on."""
        stream = self.model.stream
        assert stream is not None
        counts = zip(self.made, stream.calls, stream.again, strict=False)
        return self.hop > 2 and all(made > 2 * end - first for made, end, first in counts)

    def key(self, tensor: ImageTensor, at: np.ndarray, hops_ago: int = 0) -> np.ndarray:
        """Returns the keys of bytes of a tensor, whose rows are counted since the beginning."""
        key = at + tensor.number * TENSOR_KEY
        if self.model.stream and tensor.number not in self.endless:
            key = key + (self.hop - hops_ago) * tensor.bytes
        return key

    # An inference.

    def inference(self) -> None:
        """One inference, or one hop: of a stream, from the rows behind the last."""
        model = self.model
        if not model.stream:
            self.pool.keys[:] = EMPTY
        for port in () if model.streamed or model.elsewhere else model.inputs:
            is_whole = port.tensor.ring >= port.tensor.bytes
            prove(is_whole, f"input '{port.name}' is larger than its ring buffer")
            self._store(port.tensor, np.arange(port.tensor.bytes), f"'{port.name}'")
        for stage in model.stages:
            self._stage(stage)
        for port in model.outputs:
            tensor, shift = port.tensor, 0
            at = np.arange(tensor.bytes, dtype=np.int64)
            if model.stream and len(model.stages) == 1:
                # Its rows go on and on, and the last one is where the first was.
                at = at[: tensor.row]
                (maker,) = (layer for layer in model.layers if layer.out == tensor)
                shift = (self.made[maker.number] // maker.across - 1) * tensor.row
            self._expect(tensor, at, self.key(tensor, at + shift), f"output '{port.name}'")
        self.hop += 1

    def _stage(self, stage: ImageStage) -> None:
        if not stage.parts:
            (layer,) = stage.layers
            for y in range(layer.rows)[:: -1 if layer.descending else 1]:
                self._call(layer, y, 0, layer.columns, y)
            return
        what, mark = f"the progress of stage {stage.number}", PROGRESS - MARKS * stage.number
        progress = self.pool.contiguous(stage.progress, 2 * len(stage.layers), what)
        if stage.layers[0].number not in self.unbounded or self.hop == 0:
            self.pool.keys[progress] = mark
            for layer in stage.layers:
                self.made[layer.number] = 0
        for entry in self._entries(stage):
            if entry == TAKE:
                self._take(stage.taken)
                continue
            prove((self.pool.keys[progress] == mark).all(), f"{what} is overwritten")
            self._next(stage.layers[entry])

    def _entries(self, stage: ImageStage) -> Iterator[int]:
        """Returns the schedule of a stage: of an unbounded one, that of the hop."""
        parts, part = stage.parts, min(self.hop, 1)
        if stage.layers[0].number in self.unbounded:
            parts = tuple((entries, 1) for entries, _ in parts[part : part + 1])
        return (entry for entries, times in parts for _ in range(times) for entry in entries)

    def _next(self, layer: ImageLayer) -> None:
        """The next call of a layer of a schedule."""
        number, made, stream = layer.number, self.made[layer.number], self.model.stream
        self.made[number] += 1
        call, most = made, layer.rows * layer.across
        if stream and number in self.unbounded:
            end, first = stream.calls[number], stream.again[number]
            call = made if made < end else first + (made - first) % (end - first)
        prove(call < most, f"layer {number} is called more often than its rows allow")
        y, x = call // layer.across, call % layer.across * layer.columns
        end = min(x + layer.columns, layer.width)
        while x < end:
            part = self._unsplit(layer, y, x, end - x)
            self._call(layer, y, x, part, made // layer.across)
            x += part

    def _unsplit(self, layer: ImageLayer, y: int, x: int, columns: int) -> int:
        """Columns of a call that no ring buffer's end splits."""
        for bit, tensor in enumerate((layer.out, *layer.ins)):
            if layer.splits >> bit & 1:
                first = (y * tensor.width + x) * tensor.channels
                left = tensor.ring - (first + tensor.phase) % tensor.ring
                columns = min(columns, left // tensor.channels)
        prove(columns, f"layer {layer.number}: a ring buffer's end splits a pixel")
        return columns

    def _take(self, columns: int) -> None:
        """Stores the next columns of the pushed input."""
        tensor, stream = self.model.inputs[0].tensor, self.model.stream
        across = -(-tensor.width // columns)
        y = row = self.taken // across
        if stream and row > stream.rows:
            y = 1 + (row - 1) % stream.rows
        first = self.taken % across * columns
        last = min(first + columns, tensor.width)
        at = y * tensor.row + np.arange(first * tensor.channels, last * tensor.channels)
        self._store(tensor, at, "the pushed input", (row - y) * tensor.row)
        self.taken += 1
        if not stream:
            self.taken %= across * tensor.height

    # A call.

    def _call(self, layer: ImageLayer, y: int, x: int, columns: int, row: int) -> None:
        """row: the output's row, counted since the beginning; y: as the kernel counts it."""
        if layer.kind == "hop_count":
            self.number, y = y, 0
        call = KernelCall(layer, y, x, columns, self.model.image.array)
        where = f"layer {layer.number} ({layer.kernel}), row {y}, column {x}"
        access = RULES[layer.kind](call)
        read = [(self._read(call, reads, row - y, where), reads) for reads in access.reads]
        self._scratch(call, access, read, where)
        tensor, written = layer.out, access.written
        shift = (row - y) * tensor.row if tensor.number in self.endless else 0
        if len(written):
            self._check_written(tensor, written, where)
            places = self.pool.places(tensor, written)
            self.pool.when[places[::-1]] = access.steps[::-1]
            self._in_time(read, where)
            self.pool.when[places] = LATE
            self.pool.keys[places] = self.key(tensor, written + shift)

    def _read(self, call: KernelCall, reads: CallReads, rows: int, where: str) -> np.ndarray:
        """Compares the bytes that a call reads with those that it wants; returns their places, none
        if it reads nothing of the pool. rows: by which the output is further on than the kernel
        counts."""
        layer, tensor, at = call.layer, call.ins[reads.index], reads.at
        is_past = layer.kind in PAST and reads.index == 0
        is_recalled = layer.kind == "recall" and is_past
        is_external = self.model.elsewhere and tensor == self.model.inputs[0].tensor
        if is_external or (is_recalled and self.number == 0):
            return NOTHING
        if tensor.number not in self.endless:
            key = self.key(tensor, at, int(is_recalled))
        elif layer.kind in PAST:
            step = layer.p.get("step", 1) if is_past else 1
            key = self.key(tensor, at + self.hop * step * tensor.row)
            at = at + self.number * step * tensor.row if is_past else at
        else:
            shift = rows * reads.stride if layer.number in self.unbounded else 0
            key = self.key(tensor, at + shift * tensor.row)
        splits = (layer.within or (layer,))[0].kind in SPLITTING
        return self._expect(tensor, at, key, where, splits or layer.p.get("by_pixel", False))

    def _expect(
        self, tensor: ImageTensor, at: np.ndarray, key: np.ndarray, where: str, splits: bool = True
    ) -> np.ndarray:
        """Finds these keys; returns their places. splits: the end of the ring buffer may be between
        two pixels."""
        if not len(at):
            return NOTHING
        self._check_inside(tensor, at, f"{where} reads")
        places = self.pool.places(tensor, at)
        wrong = np.flatnonzero(self.pool.keys[places] != key)
        if len(wrong):
            place, wanted = places[wrong[0]], self.pool.name(int(key[wrong[0]]))
            here = self.pool.name(int(self.pool.keys[place]))
            what = f"{where} reads {wanted} at {place} of the pool"
            raise FaultError(f"{what}, where there is {here}")
        apart = np.flatnonzero((np.diff(at) == 1) & (self.pool.distances(places) != 1))
        behind = at[apart + 1]
        whole = behind % tensor.row == 0
        if splits:
            whole |= ((behind + tensor.phase) % tensor.ring == 0) & (behind % tensor.channels == 0)
        prove(whole.all(), f"{where} reads a row of tensor {tensor.number} that an end splits")
        return places

    def _check_inside(self, tensor: ImageTensor, at: np.ndarray, what: str) -> None:
        is_inside = at.min() >= 0 and (at.max() < tensor.bytes or tensor.number in self.endless)
        prove(is_inside, f"{what} byte {at.max()} of tensor {tensor.number}, behind its end")

    def _check_written(self, tensor: ImageTensor, at: np.ndarray, where: str) -> None:
        self._check_inside(tensor, at, f"{where} writes")
        ends = np.array([at.min(), at.max()])
        (distance,) = self.pool.distances(self.pool.places(tensor, ends))
        is_whole = distance == ends[1] - ends[0] or tensor.row < len(at)
        prove(is_whole, f"{where} writes columns of tensor {tensor.number} that an end splits")

    def _in_time(self, read: Read, where: str) -> None:
        """No byte is read in a later step than it is overwritten in."""
        for places, reads in read:
            late = np.flatnonzero(self.pool.when[places] < reads.steps) if len(places) else NOTHING
            if len(late):
                at, place = reads.at[late[0]], places[late[0]]
                what = f"{where} overwrites byte {at} of input {reads.index} at {place} of the pool"
                raise FaultError(f"{what} before it reads it")

    def _scratch(self, call: KernelCall, access: CallAccess, read: Read, where: str) -> None:
        """Scratch memory shares no byte with the tensors of a call."""
        layer, pool, size = call.layer, self.pool, scratch_bytes(call.layer)
        if layer.scratch == ON_STACK:
            prove(size <= STACK_SCRATCH, f"{where} uses {size} bytes of scratch on the stack")
            return
        run = pool.contiguous(layer.scratch, size, f"{where}: scratch memory")
        mark = SUMS - MARKS * layer.number
        is_kept = not access.appends or call.y == call.x == 0 or (pool.keys[run] == mark).all()
        prove(is_kept, f"{where}: the sums in scratch memory are overwritten")
        pool.when[run] = -1
        self._in_time(read, where)
        pool.when[run] = LATE
        pool.keys[run] = mark if access.appends else SCRATCH
        if len(access.written) and not access.appends:
            is_apart = not np.isin(pool.places(call.out, access.written), run).any()
            prove(is_apart, f"{where} writes its output into scratch memory")

    def _store(self, tensor: ImageTensor, at: np.ndarray, what: str, shift: int = 0) -> None:
        """Bytes that the caller writes."""
        self._check_written(tensor, at[: tensor.row], what)
        self.pool.keys[self.pool.places(tensor, at)] = self.key(tensor, at + shift)


def _fits(layer: ImageLayer) -> bool:
    """Returns true unless a kernel is one for other windows, groups or channels."""
    is_pool, p = layer.kind in ("average_pool", "max_pool"), layer.p
    if not is_pool and layer.kind not in ("pointwise", "conv", "dense", "depthwise"):
        return True
    _, (taps, stride, dilation, left) = layer.axes
    if is_pool:
        return layer.ins[0].channels == layer.out.channels
    inputs = layer.ins[0].channels
    if layer.kind == "depthwise":
        return bool(p["groups"] == (1 if p["run"] else inputs))
    is_row = p["run"] == taps * p["depth"] and (taps == 1 or dilation == 1) and p["groups"] == 1
    is_row &= p["packed"] <= (layer.kind == "conv") and p["depth"] * p["groups"] == inputs
    fits = {
        "conv": is_row or (p["run"] == p["depth"] and p["depth"] * p["groups"] == inputs),
        "dense": is_row and left == 0 and (layer.out.width == 1 or taps == stride == 1),
        "pointwise": is_row and layer.axes == POINT,
    }
    return bool(fits[layer.kind])


def _check_layer(layer: ImageLayer) -> None:
    """Raises ImageError for a layer that no rule can replay."""
    what = f"layer {layer.number} ({layer.kernel})"
    require(layer.kind in RULES, f"no rule for the kernel '{layer.kernel}' of a layer")
    grid = layer.ins[0] if layer.kind == "average_pool_sum" else layer.out
    is_all = (layer.rows, layer.width) == (grid.height, grid.width)
    prove(is_all, f"{what}: its calls are not those of a tensor's rows and columns")
    for one in layer.within or (layer,):
        is_small = one.p.get("kernel_h", 1) * one.p.get("kernel_w", 1) <= MOST_TAPS
        require(is_small, f"{what}: a window has more than {MOST_TAPS} taps")
        prove(_fits(one), f"{what}: its kernel is for other parameters")
    is_word = layer.scratch == ON_STACK or layer.scratch % WORD == 0
    prove(is_word, f"{what}: its scratch memory begins at no word")
    if not layer.within:
        return
    (inner, _), p = layer.within, layer.p
    ring, scratch, pixel = p["ring"], p["scratch"], inner.out.channels
    has_ring = layer.scratch != ON_STACK and ring and pixel and p["columns"]
    splits = [one.kind in SPLITTING for one in layer.within]
    for holds, fault in (
        (has_ring and ring % pixel == 0, "the ring buffer between its layers splits a pixel"),
        (not 0 < scratch < ring and scratch % WORD == 0, "scratch memory is inside a ring buffer"),
        (
            scratch or max(map(scratch_bytes, layer.within)) <= STACK_SCRATCH,
            "its layers need scratch memory in the pool",
        ),
        (splits == [not p["by_pixel"], True], "its layers find no end of a ring buffer"),
    ):
        prove(holds, f"{what}: {fault}")


def check_plan(model: ImageModel) -> int:
    """Runs an inference, or hops of a model that keeps state until its counters have come round.
    Returns the number of hops.

    Raises FaultError at the first byte that is wrong.
    """
    walk = ImageReplay(model)
    walk.inference()
    while model.stream and not walk.is_around:
        require(walk.hop <= MOST_HOPS, f"its rows do not come round in {MOST_HOPS} steps")
        walk.inference()
    walk.pool.check_ends()
    outputs = [model.inputs[0]] * model.elsewhere + [*model.outputs]
    used = {one.number for layer in model.layers for one in layer.ins}
    written = [port.tensor.number for port in model.inputs]
    written += {layer.out.number for layer in model.layers}
    prove(len(written) == len({*written}), "a tensor is an input twice, or a layer writes it")
    for number in {*range(len(model.tensors))} - used - {port.tensor.number for port in outputs}:
        raise FaultError(f"nothing reads tensor {number}, and it is no output")
    return walk.hop
