# SPDX-License-Identifier: Apache-2.0
"""A stage's calls as a table: a byte for each, and repeated parts only once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..plan.calls import STREAMED
from ..plan.schedule import Stage

# VMCU_TAKE; layers of a stage have smaller numbers.
TAKE = 255


@dataclass(frozen=True)
class Part:
    """struct vmcu_part: `length` entries from `start` on, `times` over."""

    start: int
    length: int
    times: int


def written(stage: Stage) -> tuple[bytes, list[Part]]:
    """The schedule's entries and how they are to be read.

    Cut where a row of the last layer is done: rows in the middle of an image take the same calls.
    A loop is cut into its steps.
    """
    table = bytearray()
    places: dict[bytes, int] = {}
    parts: list[Part] = []
    for piece in _pieces(stage):
        if piece not in places:
            places[piece] = len(table)
            table += piece
        start = places[piece]
        if parts and parts[-1].start == start and parts[-1].length == len(piece):
            parts[-1] = replace(parts[-1], times=parts[-1].times + 1)
        else:
            parts.append(Part(start, len(piece), 1))
    if stage.unbounded and len(parts) == 1:
        # The executor begins with one part and goes on with another.
        parts = [replace(parts[0], times=1), replace(parts[0], times=parts[0].times - 1)]
    return bytes(table), parts


def _pieces(stage: Stage) -> Iterator[bytes]:
    last = stage.loops[-1].stop - 1 if stage.loops else len(stage.layers) - 1
    piece = bytearray()
    for call in stage.calls():
        piece.append(TAKE if call.layer == STREAMED else call.layer)
        if call.layer == last and call.x + call.columns == stage.layers[last].width:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
