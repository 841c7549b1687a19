# SPDX-License-Identifier: Apache-2.0
"""An inference, call by call, on a pool that knows which byte of which tensor each of its bytes is.

Bytes of tensors have keys: the tensor's number and the byte's, counted from the tensor's beginning.
In a model that keeps state, rows are counted on for ever, and tensors of stages that run once a hop
have keys of their own in each hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from . import params
from .elf import ImageError, LinkedImage
from .rules import RULES, CallAccess, CallReads, KernelCall
from .scratch import scratch_bytes
from .tables import ON_STACK, SIZES, TAKE, ImageLayer, ImageModel, ImageStage, ImageTensor

POOL_NUMBER = 28
STACK_SCRATCH = 256
# Of tensors and windows: more is damage.
MOST_BYTES, MOST_TAPS = 1 << 24, 1 << 16
# Of a model that keeps state, hops that are replayed at most.
MOST_HOPS = 400
TENSOR_KEY = 1 << 44
EMPTY, SCRATCH = -1, -2
# Keys of a stage's progress, and of sums in a layer's scratch memory.
PROGRESS, SUMS = -(1 << 20), -(1 << 30)
LATE = np.iinfo(np.int64).max
NOTHING = np.zeros(0, np.int64)
# Kernels that find the end of a ring buffer themselves, between two pixels.
SPLITTING = frozenset(
    (
        "conv",
        "depthwise",
        "average_pool",
        "max_pool",
        "table_mean",
        "transpose_conv",
        "filter_int16",
        "look_back",
        "attention",
    )
)


class FaultError(ImageError):
    """A byte that the image handles wrongly."""

    def __init__(self, message: str):
        super().__init__(message, "build and link it again; if the fault stays, report it")


@dataclass(frozen=True)
class PoolKeys:
    """All pools, one behind another. keys: int64, what each byte is; when: the step at which the
    running call writes a byte."""

    model: ImageModel
    keys: np.ndarray
    when: np.ndarray

    @classmethod
    def of(cls, model: ImageModel) -> PoolKeys:
        size = sum(model.pools)
        return cls(model, np.full(size, EMPTY, np.int64), np.full(size, LATE, np.int64))

    def circle(self, at: int) -> tuple[int, int, int]:
        """Returns the start and the size of the pool of an address, and the offset in it."""
        number = at >> POOL_NUMBER if len(self.model.pools) > 1 else 0
        at -= number << POOL_NUMBER
        if number >= len(self.model.pools):
            raise FaultError(f"there is no pool {number}")
        return sum(self.model.pools[:number]), self.model.pools[number], at

    def places(self, tensor: ImageTensor, at: np.ndarray) -> np.ndarray:
        """Returns the places of bytes of a tensor."""
        start, size, base = self.circle(tensor.base)
        if not tensor.ring or tensor.ring > size or base >= size:
            raise FaultError(f"tensor {tensor.number} is outside the pool of {size} bytes")
        places = (base + (at + tensor.phase) % tensor.ring) % size
        return places + start if start else places

    def run(self, at: int, size: int, what: str) -> slice:
        """Returns `size` contiguous bytes from an address on."""
        start, end, at = self.circle(at)
        if at + size > end:
            raise FaultError(f"{what} ends {at + size - end} bytes behind the pool")
        return slice(start + at, start + at + size)


class ImageReplay:
    """Runs the calls of a model. Raises FaultError at the first byte that is read where it is not,
    or written where it must not be."""

    def __init__(self, image: LinkedImage, model: ImageModel):
        self.image, self.model = image, model
        self.pool = PoolKeys.of(model)
        self.params = [params.read(image, one.kernel, one.params) for one in model.layers]
        self.kinds = [params.parts(one.kernel)[0] for one in model.layers]
        if any(tensor.bytes > MOST_BYTES for tensor in model.tensors):
            raise ImageError(f"a tensor has more than {MOST_BYTES} bytes")
        for layer, p in zip(model.layers, self.params, strict=True):
            if p.get("kernel_h", 1) * p.get("kernel_w", 1) > MOST_TAPS:
                raise ImageError(f"a window of layer {layer.number} has more than {MOST_TAPS} taps")
            if self.kinds[layer.number] not in RULES:
                raise ImageError(f"no rule for the kernel '{layer.kernel}' of a layer")
        self.hop = 0
        # Of the hop, as the image counts it.
        self.number = 0
        # Of an unbounded stage: calls of each layer, and rows of the input, since the beginning.
        self.made = [0] * len(model.layers)
        self.taken = 0
        unbounded = model.stages[0].count if model.stream else 0
        self.endless = {one.output for one in model.layers[:unbounded]}
        if model.stream:
            self.endless |= {port.tensor for port in model.inputs}
        self._arrays = lru_cache(maxsize=None)(self._array)

    def _array(self, code: str, address: int, count: int) -> np.ndarray:
        return np.frombuffer(self.image.read(address, SIZES[code] * count), f"<{code}")

    @property
    def is_around(self) -> bool:
        """True if each layer of an unbounded stage has counted its calls anew, and gone on."""
        stream = self.model.stream
        assert stream is not None
        turned = [
            made > 2 * end - first
            for made, end, first in zip(self.made, stream.calls, stream.again, strict=False)
        ]
        return all(turned) and self.hop > 2

    # Keys.

    def key(self, tensor: ImageTensor, at: np.ndarray, hops_ago: int = 0) -> np.ndarray:
        """Returns the keys of bytes of a tensor, whose rows are counted since the beginning."""
        key = at + tensor.number * TENSOR_KEY
        if self.model.stream and tensor.number not in self.endless:
            key = key + (self.hop - hops_ago) * tensor.bytes
        return key

    def name(self, key: int) -> str:
        """Describes a byte of the pool."""
        if key == EMPTY:
            return "nothing yet"
        if key <= SUMS:
            return f"sums of layer {SUMS - key}"
        if key <= PROGRESS:
            return f"the progress of stage {PROGRESS - key}"
        if key == SCRATCH:
            return "scratch memory"
        return f"byte {key % TENSOR_KEY} of tensor {key // TENSOR_KEY}"

    # An inference.

    def inference(self) -> None:
        """One inference, or one hop: of a stream, from the rows behind the last."""
        model = self.model
        if not model.stream:
            self.pool.keys[:] = EMPTY
        if not (model.streamed or model.elsewhere):
            for port in model.inputs:
                tensor = model.tensors[port.tensor]
                if tensor.ring < tensor.bytes:
                    raise FaultError(f"input '{port.name}' is larger than its ring buffer")
                self._store(tensor, np.arange(tensor.bytes, dtype=np.int64), f"'{port.name}'")
        for stage in model.stages:
            self._stage(stage)
        for port in model.outputs:
            tensor = model.tensors[port.tensor]
            at = np.arange(tensor.bytes, dtype=np.int64)
            shift = 0
            if model.stream and len(model.stages) == 1:
                # Its rows go on and on, and the last one is where the first was.
                at = at[: tensor.row]
                (maker,) = (one for one in model.layers if one.output == tensor.number)
                shift = (self.made[maker.number] // maker.across - 1) * tensor.row
            self._expect(tensor, at, self.key(tensor, at + shift), f"output '{port.name}'")
        self.hop += 1

    def _stage(self, stage: ImageStage) -> None:
        layers = self.model.layers[stage.first : stage.first + stage.count]
        if not stage.parts:
            layer = layers[0]
            for i in range(layer.rows):
                y = layer.rows - 1 - i if layer.descending else i
                self._call(layer, y, 0, layer.columns, y)
            return
        unbounded = self.model.stream is not None and stage.number == 0
        size = 2 * stage.count
        progress = self.pool.run(stage.progress, size, f"the progress of stage {stage.number}")
        if not unbounded or self.hop == 0:
            self.pool.keys[progress] = PROGRESS - stage.number
            for layer in layers:
                self.made[layer.number] = 0
        for entry in self._entries(stage, unbounded):
            if entry == TAKE:
                self._take(stage.taken)
                continue
            if (self.pool.keys[progress] != PROGRESS - stage.number).any():
                raise FaultError(f"the progress of stage {stage.number} is overwritten")
            self._next(layers[entry], unbounded)

    def _entries(self, stage: ImageStage, unbounded: bool) -> Iterator[int]:
        parts = stage.parts
        if unbounded:
            parts = parts[min(self.hop, 1) : min(self.hop, 1) + 1]
        for entries, times in parts:
            for _ in range(1 if unbounded else times):
                yield from entries

    def _next(self, layer: ImageLayer, unbounded: bool) -> None:
        """The next call of a layer of a schedule."""
        made = self.made[layer.number]
        self.made[layer.number] += 1
        number = made
        if unbounded:
            assert self.model.stream is not None
            end = self.model.stream.calls[layer.number]
            first = self.model.stream.again[layer.number]
            if made >= end:
                number = first + (made - first) % (end - first)
        elif made >= layer.rows * layer.across:
            raise FaultError(f"layer {layer.number} is called more often than its rows allow")
        y, x = number // layer.across, number % layer.across * layer.columns
        row = made // layer.across
        left = min(layer.columns, layer.width - x)
        while left:
            part = self._unsplit(layer, y, x, left)
            self._call(layer, y, x, part, row)
            x, left = x + part, left - part

    def _unsplit(self, layer: ImageLayer, y: int, x: int, columns: int) -> int:
        """Columns of a call that no ring buffer's end splits."""
        for bit, number in enumerate((layer.output, *layer.inputs)):
            if layer.splits >> bit & 1:
                tensor = self.model.tensors[number]
                first = (y * tensor.width + x) * tensor.channels
                left = tensor.ring - (first + tensor.phase) % tensor.ring
                columns = min(columns, left // tensor.channels)
        if columns == 0:
            raise FaultError(f"layer {layer.number}: a ring buffer's end splits a pixel")
        return columns

    def _take(self, columns: int) -> None:
        """Stores the next columns of the pushed input."""
        tensor = self.model.tensors[self.model.inputs[0].tensor]
        across = -(-tensor.width // columns)
        row, part = divmod(self.taken, across)
        first = part * columns
        y = row
        if self.model.stream and row > self.model.stream.rows:
            y = 1 + (row - 1) % self.model.stream.rows
        at = first * tensor.channels + np.arange(
            min(columns, tensor.width - first) * tensor.channels
        )
        self.taken += 1
        self._store(tensor, y * tensor.row + at, "the pushed input", (row - y) * tensor.row)
        if not self.model.stream:
            self.taken %= across * tensor.height

    # A call.

    def _call(self, layer: ImageLayer, y: int, x: int, columns: int, row: int) -> None:
        """row: the output's row, counted since the beginning; y: as the kernel counts it."""
        tensors, kind = self.model.tensors, self.kinds[layer.number]
        if kind == "hop_count":
            self.number = y
        call = KernelCall(
            layer=layer,
            params=self.params[layer.number],
            ins=tuple(tensors[number] for number in layer.inputs),
            out=tensors[layer.output],
            y=0 if kind == "hop_count" else y,
            x=x,
            columns=columns,
            arrays=self._arrays,
        )
        where = f"layer {layer.number} ({layer.kernel}), row {y}, column {x}"
        access = RULES[kind](call)
        read = [(self._read(call, reads, row - y, where), reads) for reads in access.reads]
        self._scratch(call, access, read, where)
        tensor = call.out
        shift = (row - call.y) * tensor.row if tensor.number in self.endless else 0
        written = access.written
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
        tensor, kind = call.ins[reads.index], self.kinds[call.layer.number]
        at, ago = reads.at, 0
        if kind == "recall" and reads.index == 0:
            ago = 1
            if self.number == 0:
                return NOTHING
        if self.model.elsewhere and tensor.number == self.model.inputs[0].tensor:
            return NOTHING
        if tensor.number in self.endless:
            shift = rows * reads.stride if call.layer.number < self.model.stages[0].count else 0
            if kind in ("recall", "look_back"):
                step = call.params["step"] if kind == "look_back" and reads.index == 0 else 1
                shift = self.hop * step
                key = self.key(tensor, at + shift * tensor.row)
                if reads.index == 0:
                    at = at + self.number * step * tensor.row
            else:
                key = self.key(tensor, at + shift * tensor.row)
        else:
            key = self.key(tensor, at, ago)
        return self._expect(tensor, at, key, where, kind)

    def _expect(
        self, tensor: ImageTensor, at: np.ndarray, key: np.ndarray, where: str, kind: str = ""
    ) -> np.ndarray:
        """Finds these keys; returns their places."""
        if not len(at):
            return NOTHING
        if at.min() < 0 or (at.max() >= tensor.bytes and tensor.number not in self.endless):
            raise FaultError(
                f"{where} reads byte {at.max()} of tensor {tensor.number}, behind its end"
            )
        places = self.pool.places(tensor, at)
        wrong = np.flatnonzero(self.pool.keys[places] != key)
        if len(wrong):
            first = wrong[0]
            here = self.name(int(self.pool.keys[places[first]]))
            raise FaultError(
                f"{where} reads {self.name(int(key[first]))} at {places[first]} of the pool, where"
                f" there is {here}"
            )
        apart = np.flatnonzero((np.diff(at) == 1) & (np.diff(places) != 1))
        if not len(apart):
            return places
        behind = at[apart + 1]
        whole = behind % tensor.row == 0
        if kind in SPLITTING or not kind:
            whole |= ((behind + tensor.phase) % tensor.ring == 0) & (behind % tensor.channels == 0)
        if not whole.all():
            raise FaultError(f"{where} reads a row of tensor {tensor.number} that an end splits")
        return places

    def _check_written(self, tensor: ImageTensor, at: np.ndarray, where: str) -> None:
        if at.min() < 0 or (at.max() >= tensor.bytes and tensor.number not in self.endless):
            raise FaultError(
                f"{where} writes byte {at.max()} of tensor {tensor.number}, behind its end"
            )
        ends = np.array([at.min(), at.max()])
        first, last = self.pool.places(tensor, ends)
        if last - first != ends[1] - ends[0] and tensor.row >= len(at):
            raise FaultError(f"{where} writes columns of tensor {tensor.number} that an end splits")

    def _in_time(self, read: Sequence[tuple[np.ndarray, CallReads]], where: str) -> None:
        """No byte is read in a later step than it is overwritten in."""
        for places, reads in read:
            if not len(places):
                continue
            late = np.flatnonzero(self.pool.when[places] < reads.steps)
            if len(late):
                raise FaultError(
                    f"{where} overwrites byte {reads.at[late[0]]} of input {reads.index} at"
                    f" {places[late[0]]} of the pool before it reads it"
                )

    def _scratch(
        self,
        call: KernelCall,
        access: CallAccess,
        read: Sequence[tuple[np.ndarray, CallReads]],
        where: str,
    ) -> None:
        """Scratch memory shares no byte with the tensors of a call."""
        layer = call.layer
        size = scratch_bytes(layer, call.params, call.ins, call.out)
        if layer.scratch == ON_STACK:
            if size > STACK_SCRATCH:
                raise FaultError(f"{where} uses {size} bytes of scratch on the stack")
            return
        run = self.pool.run(layer.scratch, size, f"{where}: scratch memory")
        pool, mark = self.pool, SUMS - layer.number
        begins = call.y == 0 and call.x == 0
        if access.appends and not begins and (pool.keys[run] != mark).any():
            raise FaultError(f"{where}: the sums in scratch memory are overwritten")
        pool.when[run] = -1
        self._in_time(read, where)
        pool.when[run] = LATE
        pool.keys[run] = mark if access.appends else SCRATCH
        if len(access.written) and not access.appends:
            places = pool.places(call.out, access.written)
            if ((places >= run.start) & (places < run.stop)).any():
                raise FaultError(f"{where} writes its output into scratch memory")

    def _store(self, tensor: ImageTensor, at: np.ndarray, what: str, shift: int = 0) -> None:
        """Bytes that the caller writes."""
        self._check_written(tensor, at[: tensor.row], what)
        self.pool.keys[self.pool.places(tensor, at)] = self.key(tensor, at + shift)


def check_plan(image: LinkedImage, model: ImageModel) -> int:
    """Runs an inference, or hops of a model that keeps state until its counters have come round.
    Returns the number of hops.

    Raises FaultError at the first byte that is wrong.
    """
    if model.circle:
        raise ImageError("a pool that rotates is not checked", "check an image without --rotate")
    walk = ImageReplay(image, model)
    walk.inference()
    while model.stream and walk.hop < MOST_HOPS and not walk.is_around:
        walk.inference()
    return walk.hop
