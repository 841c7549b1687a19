# SPDX-License-Identifier: Apache-2.0
"""A container as the objects that its C would define, for the proof and for people.

Nothing that a file says is trusted: every offset, number and string is checked before it is used,
by the same rules as on the device (lib/vmcu/container).
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..emit.structs import CHUNK, STREAM
from ..emit.text import string
from ..graph import EXCHANGED
from ..machine.tables import NUMBERS, Address, Objects, Value
from ..machine.weights import macros_of
from ..ops.values import STRUCTS, CStruct, Member
from . import external, layout
from . import release as releases
from .head import DamagedError, head_of, require
from .hops import Hops, hops_of
from .online import Online, unpacked
from .release import Release

# The type of a pointer without one.
WORDS = "uint32_t"


@dataclass(frozen=True)
class Side:
    """An input or output; shape: H, W, C; layout and half_away: as a Port of graph.py has them."""

    name: str
    shape: tuple[int, int, int]
    scale: float
    zero_point: int
    layout: str = "nhwc"
    half_away: bool = False


@dataclass(frozen=True)
class Facts:
    """The facts of a container for people. size: bytes of the file; digest: in hexadecimal;
    signed: by which method, "" if it is not; online: devices can plan it; hops: of a model that
    keeps rows; release: its product and version, None if it has none. weights_bytes: of the weights
    file, 0 if constants are in the container."""

    name: str
    version: str
    size: int
    pool_bytes: int
    streamed: bool
    layers: int
    tensors: int
    kernels: tuple[str, ...]
    inputs: tuple[Side, ...]
    outputs: tuple[Side, ...]
    digest: str
    signed: str
    online: bool
    hops: Hops | None = None
    release: Release | None = None
    weights_bytes: int = 0


def unpack(image: bytes) -> tuple[Objects, str]:
    """The objects of a container and its model's name. Raises DamagedError."""
    reader = _Reader(image)
    return reader.run(), reader.name


def kernels_of(image: bytes) -> list[str]:
    """The names of the kernels that a container needs. Raises DamagedError."""
    return [kernel for kernel, _ in _Reader(image).kernels]


def facts(image: bytes) -> Facts:
    """All of a container is read for it. Raises DamagedError."""
    reader = _Reader(image)
    objects, head, model, name = reader.run(), reader.head, reader.model, reader.name
    values: Mapping[str, Any] = objects.values
    tensors = values.get(f"{name}_tensors", [])

    def sides(table: str) -> tuple[Side, ...]:
        return tuple(_side(entry, tensors) for entry in values.get(f"{name}_{table}", []))

    return Facts(
        name,
        f"{head.major}.{head.minor}",
        head.size,
        int(model["pool_bytes"]),
        bool(model["streamed"]),
        int(model["layer_count"]),
        int(model["tensor_count"]),
        tuple(kernel for kernel, _ in reader.kernels),
        sides("inputs"),
        sides("outputs"),
        image[layout.DIGEST].hex(),
        layout.SIGNATURES.get(head.signature, ""),
        reader.distances is not None,
        hops_of(objects, name),
        reader.release,
        int(objects.macros.get(macros_of(name)[1], 0)),
    )


def _side(entry: dict[str, Any], tensors: list[Any]) -> Side:
    number = int(entry.get("tensor", 0))
    require(number < len(tensors), f"an input or output is tensor {number}, which is not there")
    height, width, channels = (
        int(tensors[number].get(axis, 0)) for axis in ("height", "width", "channels")
    )
    name = str(entry.get("name", "")).strip('"')
    flags, scale = str(entry.get("flags", "")), float(entry.get("scale", 0))
    require(math.isfinite(scale), f"an input or output has the scale {scale}")
    order = "nchw" if "VMCU_IO_CHANNELS_FIRST" in flags else "nhwc"
    return Side(
        name,
        (height, width, channels),
        scale,
        int(entry.get("zero_point", 0)),
        EXCHANGED[order] if "VMCU_IO_COLUMNS" in flags else order,
        "VMCU_IO_HALF_AWAY" in flags,
    )


def layers_of(image: bytes) -> tuple[int, int]:
    """Returns the offset of a container's table of layers, and their number. Raises
    DamagedError."""
    model = _Reader(image).model
    return int(model["layers"]), int(model["layer_count"])


def requantisers_of(image: bytes) -> list[str]:
    """Lists those of REQUANTISERS that a container needs. Raises DamagedError."""
    bits = int(_Reader(image).model["requantisers"])
    return [kind for number, kind in enumerate(layout.REQUANTISERS) if bits >> number & 1]


def distances_of(image: bytes) -> Online | None:
    """Reads a container's data for planners on the device. Raises DamagedError."""
    return _Reader(image).distances


class _Reader:
    """A container whose first bytes are as they should be. Raises DamagedError."""

    def __init__(self, image: bytes):
        self.head, self.image = head_of(image), image
        self.model = {
            label: self._plain(member, layout.MODEL_AT)
            for label, member in layout.MODEL.members.items()
        }
        self.name = self.text(self.model["name"])
        self.objects = Objects()
        self.blocks: dict[int, int] = {}

    @functools.cached_property
    def kernels(self) -> list[tuple[str, str]]:
        """Names of kernels and of their parameters, "" for none, by number."""
        table = next(table for table in layout.TABLES if table.element is layout.KERNEL)
        return [
            (self.text(entry["name"]), self.text(entry["params"]) if entry["params"] else "")
            for entry in self.entries(table)
        ]

    @property
    def distances(self) -> Online | None:
        """Reads the data for planners on the device."""
        if self.head.minor < layout.MINOR_ONLINE or self.head.major != layout.MAJOR:
            return None
        try:
            return unpacked(self.image, int(self.model["layer_count"]))
        except struct.error as error:
            raise DamagedError("the distances are outside of the file") from error

    @property
    def release(self) -> Release | None:
        """Whom it is for, and how new it is."""
        if self.head.minor < layout.MINOR_RELEASE[self.head.major]:
            return None
        try:
            release = releases.unpacked(self.image)
            return None if release == Release(0, 0) and self._is_external else release
        except struct.error as error:
            raise DamagedError("the product and version are outside of the file") from error

    def run(self) -> Objects:
        """All objects."""
        self._read_blocks()
        tables = {table.label: table for table in layout.TABLES}
        values = self.objects.values
        entries_of = {
            t.label: self._entries(t) for t in layout.TABLES if t.label not in ("kernels", "blocks")
        }
        for label, entries in entries_of.items():
            if len(entries):
                values[f"{self.name}_{label}"] = entries
        model: dict[str, Any] = {
            k: v for k, v in self.model.items() if v and k not in entries_of and "count" not in k
        }
        for table in ("tensors", "layers", "stages", "inputs", "outputs"):
            model[tables[table].count] = self.model[tables[table].count]
            if len(entries_of[table]):
                model[table] = f"{self.name}_{table}"
        for label in ("kernels", "blocks", "requantisers"):
            model.pop(label, None)
        if self._is_external:
            model |= self._weights()
        if self._keeps_rows:
            model["stream"] = self._stream()
        values[f"{self.name}_model"] = {**model, "name": string(self.name)}
        return self.objects

    @property
    def _is_external(self) -> bool:
        return self.head.major == layout.MAJOR_WEIGHTS

    @property
    def _keeps_rows(self) -> bool:
        return self.head.major == layout.MAJOR_STREAMS or (
            self._is_external and bool(self._plain(STREAM.members["rows"], layout.STREAM_AT))
        )

    def _weights(self) -> dict[str, Any]:
        """Reads the chunks of constants that are in a file of their own: members of the model."""
        require(len(self.image) >= layout.WEIGHTS_END, "the chunks are outside of the file")
        start, count, buffer = (
            int(self._plain(layout.WEIGHTS.members[label], layout.WEIGHTS_AT))
            for label in ("chunks", "chunk_count", "buffer")
        )
        stop = start + CHUNK.size * count
        inside = start >= layout.WEIGHTS_END and stop <= len(self.image) and count > 0
        require(inside, "the chunks are outside of the file")
        entries = [self._struct(CHUNK, at) for at in range(start, stop, CHUNK.size)]
        self.objects.values[f"{self.name}_chunks"] = entries
        size = sum(int(str(entry.get("bytes", 0))) for entry in entries)
        self.objects.macros.update(zip(macros_of(self.name), map(str, (buffer, size)), strict=True))
        names = {label: f"{self.name}_{label}" for label in ("chunks", "weights")}
        return {**names, "chunk_count": count}

    def _stream(self) -> Address:
        """Reads the state of a model, and its counts by the names that emitted tables have for
        them."""
        require(len(self.image) >= layout.STREAM_END, "the state is outside of the file")
        values, types = self.objects.values, self.objects.types
        stream = self._struct(STREAM, layout.STREAM_AT)
        for member in ("calls", "again"):
            counts = stream.get(member)
            require(isinstance(counts, Address) and counts.name in types, f"there is no {member}")
            assert isinstance(counts, Address)
            label = stream[member] = f"{self.name}_{member}"
            values[label], types[label] = values.pop(counts.name), types.pop(counts.name)
        label = f"{self.name}_stream"
        values[label], types[label] = stream, STREAM.name
        return Address(label)

    def _plain(self, member: Member, at: int) -> int | float:
        kind = "uint32_t" if member.pointer else member.kind
        form = layout.FORMATS.get(kind, "<I")
        number: int | float = struct.unpack_from(form, self.image, at + member.start)[0]
        return number

    def _span(self, table: layout.Table) -> range:
        """Returns the offsets of the entries of a table."""
        start, count = int(self.model[table.label]), int(self.model[table.count])
        if count == 0:
            return range(0)
        stop = start + count * table.size
        inside = layout.MODEL_AT + layout.MODEL.size <= start and stop <= len(self.image)
        require(inside, f"the table of {table.label} is outside of the file")
        return range(start, stop, table.size)

    def entries(self, table: layout.Table) -> list[dict[str, int | float]]:
        assert isinstance(table.element, CStruct)
        members = table.element.members
        return [
            {label: self._plain(member, at) for label, member in members.items()}
            for at in self._span(table)
        ]

    def _read_blocks(self) -> None:
        table = next(t for t in layout.TABLES if t.element is layout.BLOCK)
        end = 0
        for entry in self.entries(table):
            start, size = int(entry["start"]), int(entry["size"])
            inside = end <= start and start + size <= len(self.image)
            require(inside and size > 0, "constants overlap or are outside of the file")
            self.blocks[start], end = size, start + size

    def _entries(self, table: layout.Table) -> list[dict[str, Any]] | np.ndarray:
        span = self._span(table)
        if isinstance(table.element, int):
            raw = self.image[span.start : span.stop]
            return np.frombuffer(raw, f"<u{table.element}")
        return [self._struct(table.element, at) for at in span]

    def _struct(self, kind: CStruct, at: int) -> dict[str, Value]:
        """Members that are not zero."""
        members: dict[str, Value] = {}
        params = ""
        for label, member in kind.members.items():
            if member.kind in STRUCTS and not member.pointer:
                inner = self._struct(STRUCTS[member.kind], at + member.start)
                if inner:
                    members[label] = inner
                continue
            value = self._plain(member, at)
            if member.kind == "vmcu_kernel_t":
                require(value < len(self.kernels), f"there is no kernel {value}")
                members[label], params = self.kernels[int(value)]
            elif member.pointer and value:
                target = params if label == "params" else member.kind
                members[label] = self._pointer(label, target, int(value))
            elif value:
                members[label] = value
        if members.get("scratch") == layout.CONSTANTS["VMCU_SCRATCH_ON_STACK"]:
            members["scratch"] = "VMCU_SCRATCH_ON_STACK"
        if "flags" in members and kind.name == "vmcu_io":
            members["flags"] = _flags(int(str(members["flags"])))
        return members

    def _pointer(self, label: str, kind: str, at: int) -> Value:
        if kind == "char":
            return string(self.text(at))
        if at & layout.EXTERNAL and self._is_external:
            return external.address_of(at)
        for table in layout.TABLES:
            span = self._span(table)
            if len(span) and at in range(span.start, span.stop):
                require(at in span, f"'{label}' points between two {table.label}")
                return Address(f"{self.name}_{table.label}", span.index(at))
        require(at in self.blocks, f"'{label}' points to no constants")
        kind = WORDS if kind == "void" else kind
        require(kind in STRUCTS or kind in NUMBERS, f"there are no parameters '{kind}'")
        return Address(self._block(at, kind))

    def _block(self, at: int, kind: str) -> str:
        """The name of the block that begins there, read once. Raises DamagedError where it is
        two things."""
        name = f"{self.name}_{at:08x}"
        if name in self.objects.types:
            require(self.objects.types[name] == kind, f"the constants at {at} are two things")
            return name
        raw = self.image[at : at + self.blocks[at]]
        if kind in NUMBERS:
            dtype = np.dtype(NUMBERS[kind]).newbyteorder("<")
            require(len(raw) % dtype.itemsize == 0, f"the constants at {at} end within a number")
            value: np.ndarray | list[Any] | dict[str, Any] = np.frombuffer(raw, dtype)
        else:
            size = STRUCTS[kind].size
            require(len(raw) % size == 0, f"the constants at {at} end within a struct")
            items = [
                self._struct(STRUCTS[kind], at + offset) for offset in range(0, len(raw), size)
            ]
            value = items[0] if len(items) == 1 and kind.endswith("_params") else items
        self.objects.values[name] = value
        self.objects.types[name] = kind
        return name

    def text(self, at: int | float) -> str:
        start = int(at)
        end = self.image.find(b"\0", start)
        require(start >= layout.MODEL_AT and end >= 0, "a name is outside of the file")
        try:
            return self.image[start:end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise DamagedError("a name is not UTF-8") from error


def _flags(bits: int) -> str:
    named = {bit: label for label, bit in layout.CONSTANTS.items() if label.startswith("VMCU_IO_")}
    require(bits < 2 * max(named), f"an input or output has flags {bits:#x}")
    return " | ".join(label for bit, label in named.items() if bits & bit)
