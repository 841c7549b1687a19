# SPDX-License-Identifier: Apache-2.0
"""A pixel, of a fully connected layer or in a tile: four blocks of four channels at a time.

A tap is loaded once for all channels; a product costs a load, a multiply and an add.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ...language.assembly import WORD, Function, note
from ...language.packing import PAIRS, packed_shifts
from .blocks import BYTE, CHANNELS, END, HALF, LANES, OUT, STEPS, STREAM, requantised, saturated
from .frame import leave, save

TAP, X, WEIGHTS = "t6", "a1", ("t4", "t5")
SIZE_OF, BLOCKS = PAIRS.dense, 4
SUMS = (*(f"s{number}" for number in range(12)), "t0", "t1", "t2", "t3")
STREAMS = (STREAM, "a6", "a7", "ra")
CONSTANTS = WORD * SIZE_OF + packed_shifts(SIZE_OF)
# Words on the stack: where taps begin, bytes of a block, sums of the blocks behind the first.
START, SIZE, SPILLED = 0, WORD, 2 * WORD
SPILLS = SUMS[SIZE_OF:]
WORDS = 2 + len(SPILLS)
# While bytes are made: where the next block's sums are, how many blocks are left, bytes of one.
NEXT, LEFT, STEP = "s4", "s5", "s6"


def blocks(name: str, streams: Sequence[str]) -> Iterator[str]:
    """From biases to sums, a block in each stream."""
    count = SIZE_OF * len(streams)
    for n in range(count):
        block, channel = divmod(n, SIZE_OF)
        yield f"lw {SUMS[n]}, {WORD * channel}({streams[block]})"
    yield from (f"addi {stream}, {stream}, {WORD * SIZE_OF}" for stream in streams)
    yield f"lw {X}, {START}(sp)"
    yield note("Four taps.")
    yield f"<{name}>:"
    for tap in range(LANES):
        yield f"lb {TAP}, {tap}({X})"
        for first in range(0, count, 2):
            for n, weight in enumerate(WEIGHTS, first):
                block, channel = divmod(n, SIZE_OF)
                yield f"lb {weight}, {LANES * channel + tap}({streams[block]})"
            for n, weight in enumerate(WEIGHTS, first):
                yield f"mul {weight}, {weight}, {TAP}"
                yield f"add {SUMS[n]}, {SUMS[n]}, {weight}"
    yield f"addi {X}, {X}, {LANES}"
    yield from (f"addi {stream}, {stream}, {LANES * SIZE_OF}" for stream in streams)
    yield f"bne {X}, {END}, <{name}>"


def code() -> Iterator[str]:
    yield from save(WORDS)
    yield note("Bytes of a block, and where taps end.")
    yield f"sw {X}, {START}(sp)"
    yield f"slli t0, {STEPS}, {(LANES * SIZE_OF).bit_length() - 1}"
    yield f"addi t0, t0, {WORD * SIZE_OF + CONSTANTS}"
    yield f"sw t0, {SIZE}(sp)"
    yield f"slli {END}, {STEPS}, {LANES.bit_length() - 1}"
    yield f"add {END}, {END}, {X}"
    yield f"slli {HALF}, {HALF}, 1"
    yield "<next>:"
    yield f"li t0, {BLOCKS * SIZE_OF}"
    yield f"blt {CHANNELS}, t0, <one>"
    yield note("Several blocks.")
    yield f"lw t0, {SIZE}(sp)"
    for before, stream in itertools.pairwise(STREAMS):
        yield f"add {stream}, {before}, t0"
    yield from blocks("several", STREAMS)
    yield note("Keep the sums of all blocks but the first.")
    yield from (f"sw {acc}, {SPILLED + WORD * n}(sp)" for n, acc in enumerate(SPILLS))
    yield f"addi {NEXT}, sp, {SPILLED}"
    yield f"li {LEFT}, {BLOCKS - 1}"
    yield f"lw {STEP}, {SIZE}(sp)"
    yield note("The bytes of a block.")
    yield "<bytes>:"
    yield f"li {BYTE}, 255"
    channels = [[(0, acc)] for acc in SUMS[:SIZE_OF]]
    yield from requantised(channels, STREAM)
    yield f"addi {OUT}, {OUT}, {SIZE_OF}"
    yield f"addi {CHANNELS}, {CHANNELS}, -{SIZE_OF}"
    yield f"beqz {LEFT}, <stored>"
    yield f"add {STREAM}, {STREAM}, {STEP}"
    yield from (f"lw {acc}, {WORD * n}({NEXT})" for n, acc in enumerate(SUMS[:SIZE_OF]))
    yield f"addi {NEXT}, {NEXT}, {WORD * SIZE_OF}"
    yield f"addi {LEFT}, {LEFT}, -1"
    yield "j <bytes>"
    yield "<stored>:"
    yield f"addi {STREAM}, {STREAM}, {CONSTANTS}"
    yield f"bgtz {CHANNELS}, <next>"
    yield "<done>:"
    yield from leave(WORDS)
    yield note("One block, or its sums alone.")
    yield "<one>:"
    yield from blocks("single", STREAMS[:1])
    yield f"li {LEFT}, 0"
    yield f"bnez {CHANNELS}, <bytes>"
    yield from (f"sw {acc}, {WORD * n}({OUT})" for n, acc in enumerate(SUMS[:SIZE_OF]))
    yield "j <done>"
    yield from saturated(channels)


FUNCTIONS = [
    Function(
        "vmcu_paired_1x4",
        "Whole blocks of a pixel, or, where there are no channels, the sums of one, as words. "
        "Returns where the flash stream goes on.",
        [*code()],
        thumb=False,
    )
]
