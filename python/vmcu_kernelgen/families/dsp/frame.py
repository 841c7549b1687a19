# SPDX-License-Identifier: Apache-2.0
"""The stack of the assembly of depthwise convolutions, from SP on, a word each."""

from __future__ import annotations

from ...assembly import SAVED

MOST = 6
# Members of struct vmcu_strip_job, in this order; it says their meaning.
RUN = ("even", "odd", "pixels", "left")
FIRST = (*(f"first_{name}" for name in RUN), "first_tile", "first_last", "first_out")
SECOND = tuple(f"second_{name}" for name in RUN)
SAME = ("half", "phase", "plane", "pitch", "back", "stream", "fours", "lanes", "channel")
STAGED = ("pieces", "behind", "zeros")
JOB = (*FIRST, *SECOND, *SAME, *STAGED, "p", "finish")
# Those of the block: its code, pixels and so on.
BLOCK = (*RUN, "tile", "last", "out")
FRAME = (
    # The arguments of vmcu_finish_any() on the stack.
    *("multiplier", "place"),
    *(f"patch_{pixel}" for pixel in range(MOST)),
    *(f"sum_{pixel}" for pixel in range(MOST)),
    # The places of two channels of the block in the tile; of the code behind them, and behind the
    # last two; of the patch of the first two.
    *("here", "pair", "store", "patch"),
    # Where channels of so many pixels are requantised.
    *("finish_4", "finish_6"),
    *BLOCK,
    *JOB,
)
# SP is a multiple of eight.
PAD = (len(SAVED) + len(FRAME)) % 2
# All words on the stack, with those that the function saves.
WHOLE = len(SAVED) + PAD + len(FRAME)
# The code behind the sums of a channel, and behind requantising them if its number is odd.
BEHIND = {False: "odd", True: "pair"}
FINISH = {pixels: f"finish_{pixels}" for pixels in (4, 6)}


def offset(name: str) -> int:
    return 4 * FRAME.index(name)


def member(name: str) -> str:
    """Returns the address of a member for LDR or STR."""
    return f"[sp, #{offset(name)}]"


# Names in the assembly file.
SLOTS = {offset(name): name.upper() for name in FRAME}
