# SPDX-License-Identifier: Apache-2.0
"""The C of a model, read back, as a container."""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ..emit.structs import CHUNK, STREAM
from ..errors import Problem, UserError
from ..machine.tables import Address, Objects
from ..machine.weights import macros_of
from ..ops import recomputed
from ..ops.values import ENUMERATORS, STRUCTS, CStruct, Member
from . import external, layout
from . import release as releases
from .online import Online, packed
from .release import Release
from .seal import sealed

_TYPED = re.compile(r"\w+\((-?\d+)\)")
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def pack(
    objects: Objects,
    name: str,
    requantisers: Iterable[str],
    online: Online | None = None,
    release: Release | None = None,
    digest: bytes = b"",
) -> bytes:
    """The container of model `name`, unsigned. objects: of the emitted C (machine/tables.py).
    requantisers: of REQUANTISERS, those that the model needs. online: for planners on the
    device. release: compared by devices. digest: of the weights file, for a model that has one
    (external.py). The same objects give the same bytes."""
    packer = _Packer(objects, name, online, release)
    external.packed(packer.image, digest)
    packer.run(sum(1 << layout.REQUANTISERS.index(kind) for kind in requantisers))
    return sealed(bytes(packer.image))


def _check(model: Mapping[str, object], params: Collection[str]) -> None:
    """Raises UserError for a model with a feature that no container has."""
    if model.get("pool_count"):
        raise UserError(Problem("a container has one pool", "build it without --memory"))
    if recomputed.PARAMS.name in params:
        reason = "recomputation inside a layer is not supported in containers"
        remedy = "build it with --format container, or without --extra-macs"
        raise UserError(Problem(reason, remedy))
    if model.get("elsewhere"):
        remedy = "build it without --external-input"
        raise UserError(Problem("a container's model has its input in the pool", remedy))


class _Packer:
    def __init__(self, objects: Objects, name: str, online: Online | None, release: Release | None):
        self.objects, self.name, self.online, self.release = objects, name, online, release
        self.stream = objects.values.get(f"{name}_stream")
        whole = layout.ONLINE_AT + (layout.ONLINE.size if online else 0)
        whole = layout.STREAM_END if self.stream else whole
        whole = layout.RELEASE_END if release else whole
        self.chunks = self._table("chunks")
        self.image = bytearray(layout.WEIGHTS_END if len(self.chunks) else whole)
        self.places: dict[str, int] = {}
        self.strings: dict[str, int] = {}
        self.blocks: list[tuple[int, int]] = []
        layers = self._table("layers")
        self.kernels = sorted({str(layer["kernel"]) for layer in layers})
        self.params = {
            str(layer["kernel"]): objects.types[layer["params"].name]
            for layer in layers
            if "params" in layer
        }

    def run(self, requantisers: int) -> None:
        """Tables first, so that the blocks of constants, which are most of it, end the file."""
        model = self.objects.values[f"{self.name}_model"]
        assert isinstance(model, dict)
        others = [f"{self.name}_{label}" for label in ("model", "stream", "chunks")]
        owned = {f"{self.name}_{table.label}" for table in layout.TABLES}.union(others)
        constants = [label for label in self.objects.values if label not in owned]
        tables = {table.label: self._table(table.label) for table in layout.TABLES[:-2]}
        tables["kernels"] = [
            {"name": kernel, "params": self.params.get(kernel, "")} for kernel in self.kernels
        ]
        members: dict[str, object] = dict(model)
        _check(members, self.params.values())
        counts = {table.label: table.count for table in layout.TABLES}
        for label, entries in tables.items():
            self.places[f"{self.name}_{label}"] = self._room(self._size(label) * len(entries))
            members[counts[label]] = len(entries)
        if self.online is not None:
            packed(self.image, self.online)
        if self.release is not None:
            releases.packed(self.image, self.release)
        self._pack_chunks()
        blocks = self._room(8 * len(constants))
        for label in constants:
            self._reserve(label)
        members |= {label: f"{self.name}_{label}" for label in tables if len(tables[label])}
        members |= {"block_count": len(constants), "requantisers": requantisers}
        self._struct(layout.MODEL, members, layout.MODEL_AT)
        self._number(layout.MODEL.members["blocks"], blocks if constants else 0, layout.MODEL_AT)
        if isinstance(self.stream, dict):
            self._struct(STREAM, self.stream, layout.STREAM_AT)
        for label, entries in tables.items():
            self._fill(label, entries)
        for number, block in enumerate(sorted(self.blocks)):
            struct.pack_into("<II", self.image, blocks + 8 * number, *block)
        for label in constants:
            self._constant(label)
        # Kernels fetch words, which may end behind the last byte.
        self.image += bytes(layout.ALIGN - len(self.image) % layout.ALIGN)
        magic = int.from_bytes(layout.MAGIC, "little")
        minor = layout.MINOR if self.online is None else layout.MINOR_ONLINE
        major = layout.MAJOR_STREAMS if self.stream else layout.MAJOR
        major = layout.MAJOR_WEIGHTS if len(self.chunks) else major
        if self.release is not None:
            minor = layout.MINOR_RELEASE[major]
        stated = {"magic": magic, "major": major, "minor": minor, "signature": layout.UNSIGNED}
        self._struct(layout.FILE, {**stated, "size": len(self.image)}, 0)

    def _pack_chunks(self) -> None:
        """The table of chunks, of a model that has some."""
        label, entries = f"{self.name}_chunks", self.chunks
        if not len(entries):
            return
        self.places[label] = self._room(CHUNK.size * len(entries))
        for number, entry in enumerate(entries):
            self._struct(CHUNK, entry, self.places[label] + CHUNK.size * number)
        buffer = int(self.objects.macros[macros_of(self.name)[0]])
        stated = {"chunks": label, "chunk_count": len(entries), "buffer": buffer}
        self._struct(layout.WEIGHTS, stated, layout.WEIGHTS_AT)

    def _table(self, label: str) -> list[Any] | np.ndarray:
        table = self.objects.values.get(f"{self.name}_{label}", [])
        assert isinstance(table, (list, np.ndarray))
        return table

    @staticmethod
    def _size(label: str) -> int:
        return next(table.size for table in layout.TABLES if table.label == label)

    def _room(self, size: int) -> int:
        """Allocates `size` more bytes and returns their offset."""
        self.image += bytes(-len(self.image) % layout.ALIGN)
        at = len(self.image)
        self.image += bytes(size)
        return at

    def _reserve(self, label: str) -> None:
        value = self.objects.values[label]
        if isinstance(value, np.ndarray):
            size = value.nbytes
        else:
            whole = STRUCTS[self.objects.types[label]].size
            size = whole if isinstance(value, dict) else whole * len(value)
        self.places[label] = self._room(size)
        self.blocks.append((self.places[label], size))

    def _fill(self, label: str, entries: list[Any] | np.ndarray) -> None:
        at, element = next((t.size, t.element) for t in layout.TABLES if t.label == label)
        start = self.places[f"{self.name}_{label}"]
        if isinstance(entries, np.ndarray):
            self.image[start : start + entries.nbytes] = entries.tobytes()
            return
        for number, entry in enumerate(entries):
            assert isinstance(element, CStruct)
            self._struct(element, entry, start + at * number)

    def _constant(self, label: str) -> None:
        value, at = self.objects.values[label], self.places[label]
        if isinstance(value, np.ndarray):
            self.image[at : at + value.nbytes] = value.tobytes()
            return
        kind = STRUCTS[self.objects.types[label]]
        for number, entry in enumerate([value] if isinstance(value, dict) else value):
            self._struct(kind, entry, at + kind.size * number)

    def _struct(self, kind: CStruct, values: Mapping[str, object], at: int) -> None:
        for label, member in kind.members.items():
            value = values.get(label, 0)
            if isinstance(value, dict):
                self._struct(STRUCTS[member.kind], value, at + member.start)
            elif member.pointer:
                self._number(member, self._offset(member, value), at)
            elif member.kind not in STRUCTS:
                self._number(member, self._value(member, value), at)

    def _number(self, member: Member, value: float, at: int) -> None:
        form = (
            "<I"
            if member.pointer or member.kind not in layout.FORMATS
            else layout.FORMATS[member.kind]
        )
        struct.pack_into(form, self.image, at + member.start, value)

    def _value(self, member: Member, value: object) -> float:
        if member.kind == "vmcu_kernel_t":
            return self.kernels.index(str(value))
        if isinstance(value, str):
            typed = _TYPED.fullmatch(value)
            known = ENUMERATORS | layout.CONSTANTS
            return int(typed[1]) if typed else sum(known[word] for word in value.split(" | "))
        assert isinstance(value, (int, float))
        return value

    def _offset(self, member: Member, value: object) -> int:
        if member.kind == "char":
            return self._string(str(value)) if value else 0
        if isinstance(value, Address):
            return self._element(value)
        if value in (0, "NULL"):
            return 0
        outside = external.offset_of(str(value))
        return self.places[str(value)] if outside is None else outside

    def _element(self, value: Address) -> int:
        array = self.objects.values[value.name]
        size = array.itemsize if isinstance(array, np.ndarray) else 0
        if not size and value.index:
            size = STRUCTS[self.objects.types[value.name]].size
        return self.places[value.name] + size * value.index

    def _string(self, literal: str) -> int:
        """Returns the offset of a C string, which ends with a zero."""
        if literal not in self.strings:
            raw = _ESCAPE.sub(lambda m: bytes([int(m[1], 8)]), literal.encode()) + b"\0"
            at = self._room(len(raw))
            self.image[at : at + len(raw)] = raw
            self.strings[literal] = at
        return self.strings[literal]
