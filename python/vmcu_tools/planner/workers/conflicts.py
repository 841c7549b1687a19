# SPDX-License-Identifier: Apache-2.0
"""The order that accesses to the same bytes impose on the pieces of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from .pieces import CallPiece, Kind


def dependencies(all_pieces: Sequence[CallPiece]) -> list[int]:
    """Returns for each piece those before it that it has to come behind, as a set of bits, without
    those that others imply.

    The bytes between two borders of any accesses are one cell. Accesses of one kind that follow
    each other in a cell are an epoch: each depends on all of the epoch before."""
    borders = sorted({at for piece in all_pieces for a in piece.accesses for at in a[1:]})
    cell_at = {at: number for number, at in enumerate(borders)}
    kinds: list[Kind | None] = [None] * len(borders)
    epoch, before = [0] * len(borders), [0] * len(borders)
    behind: list[int] = []
    last_of: dict[int, int] = {}
    for number, piece in enumerate(all_pieces):
        mine, needed = 1 << number, 0
        for kind, start, stop in piece.accesses:
            for cell in range(cell_at[start], cell_at[stop]):
                if kind is Kind.WRITE or kind is not kinds[cell]:
                    before[cell], kinds[cell] = epoch[cell], kind
                    epoch[cell] = mine
                else:
                    epoch[cell] |= mine
                needed |= before[cell]
        step = piece.task.step
        if piece.in_turn and step in last_of:
            needed |= 1 << last_of[step]
        last_of[step] = number
        behind.append(needed & (mine - 1))
    return behind
