# SPDX-License-Identifier: Apache-2.0
"""The bytes of chunks (chunks.py): the constants of a stage, and their offsets in its chunk."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import Graph, Node
from ..ops import Layer, bind, kernel_of
from ..ops.values import Array, Kernel, Struct, StructArray, Value
from .plan import Plan, Step

# Kernels may read weights by words.
ALIGN = 4
# The last word of each chunk: which weights file it is of. The runtime compares it after the read,
# so that a file of another build is an error and no wrong answer.
MARK_BYTES = 4

Key = tuple[str, bytes]


@dataclass(frozen=True, eq=False)
class ChunkLayout:
    """Offsets in a chunk by array, and its bytes before the mark."""

    offsets: dict[Key, int]
    data: bytes

    @property
    def size(self) -> int:
        """Bytes of the chunk, 0 if no layer of the stage has constants."""
        return len(self.data) + MARK_BYTES if self.data else 0


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
    return len(_layout([kernel_of(graph, layer)]).data)


def layouts_of(plan: Plan) -> list[ChunkLayout]:
    """The chunk of each stage."""
    return [layout_of(plan.graph, steps) for steps in plan.stages]


def mark_of(layouts: Iterable[ChunkLayout]) -> int:
    """Computes the mark of a weights file: a CRC-32 over the sizes and bytes of its chunks."""
    mark = 0
    for layout in layouts:
        mark = zlib.crc32(layout.size.to_bytes(4, "little") + layout.data, mark)
    return mark


def file_of(layouts: Sequence[ChunkLayout]) -> bytes:
    """The weights file."""
    mark = mark_of(layouts).to_bytes(MARK_BYTES, "little")
    return b"".join(layout.data + mark for layout in layouts if layout.size)


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
