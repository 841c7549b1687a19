# SPDX-License-Identifier: Apache-2.0
"""The bytes of chunks (chunks.py): the constants of a stage, and their offsets in its chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph import Graph, Node
from ..ops import Layer, bind, kernel_of
from ..ops.values import Array, Kernel, Struct, StructArray, Value
from .plan import Plan, Step

# Kernels may read weights by words.
ALIGN = 4

Key = tuple[str, bytes]


@dataclass(frozen=True, eq=False)
class ChunkLayout:
    """Offsets in a chunk by array, and its bytes; none if no layer of the stage has constants."""

    offsets: dict[Key, int]
    data: bytes

    @property
    def size(self) -> int:
        """Bytes of the chunk."""
        return len(self.data)


def key_of(array: Array) -> Key:
    """Equal for arrays of one type with equal values."""
    return array.values.dtype.name, array.values.tobytes()


def arrays_of(value: Value) -> Iterator[Array]:
    """The arrays that a value of a parameter struct refers to."""
    if isinstance(value, Array):
        yield value
    elif isinstance(value, Struct):
        for member in value.fields.values():
            yield from arrays_of(member)
    elif isinstance(value, StructArray):
        for item in value.items:
            yield from arrays_of(item)


def layout_of(graph: Graph, steps: Iterable[Step]) -> ChunkLayout:
    """The chunk of a stage: the arrays of its layers in their order, equal ones once."""
    return _layout(kernel_of(graph, step.bind(graph)) for step in steps)


def chunk_bytes(graph: Graph, node: Node) -> int:
    """Bytes of the chunk of a node as a stage on its own."""
    return _layout([kernel_of(graph, bind(graph, node))]).size


def constant_bytes(graph: Graph, layer: Layer[Any]) -> int:
    """Bytes of the constants that the kernel of a layer reads."""
    return _layout([kernel_of(graph, layer)]).size


def layouts_of(plan: Plan) -> list[ChunkLayout]:
    """The chunk of each stage."""
    return [layout_of(plan.graph, steps) for steps in plan.stages]


def digest_of(data: bytes) -> int:
    """MurmurHash3_x86_32 of whole words, with seed 0. The runtime compares it after each read:
    a change within one word always changes it."""
    words = np.frombuffer(data, np.uint32) * np.uint32(0xCC9E2D51)
    turned = np.left_shift(words, 15) | np.right_shift(words, 17)
    digest = 0
    for key in (turned * np.uint32(0x1B873593)).tolist():
        digest ^= key
        digest = ((digest << 13 | digest >> 19) * 5 + 0xE6546B64) & 0xFFFFFFFF
    digest ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        digest = (digest ^ digest >> shift) * factor & 0xFFFFFFFF
    return digest


def file_of(layouts: Iterable[ChunkLayout]) -> bytes:
    """The weights file."""
    return b"".join(layout.data for layout in layouts)


def _layout(kernels: Iterable[Kernel]) -> ChunkLayout:
    offsets: dict[Key, int] = {}
    data = bytearray()
    for kernel in kernels:
        for array in arrays_of(kernel.params) if kernel.params is not None else ():
            key = key_of(array)
            if key not in offsets:
                offsets[key] = len(data)
                data += key[1] + bytes(-len(key[1]) % ALIGN)
    return ChunkLayout(offsets, bytes(data))
