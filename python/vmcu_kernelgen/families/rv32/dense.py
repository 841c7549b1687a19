# SPDX-License-Identifier: Apache-2.0
"""A pixel, of a fully connected layer or in a tile: four blocks of four channels at a time.

A tap is loaded once for all channels; a product costs a load, a multiply and an add.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vmcu_tools.kernels.language.packing import PAIRS, packed_shifts

from ...assembly import WORD, Function, note
from .blocks import CHANNELS, END, HALF, LANES, OUT, STEPS, STREAM, beyond, requantised
from .frame import leave, save

TAP, X, WEIGHTS = "t6", "a1", ("t4", "t5")
SIZE_OF, BLOCKS = PAIRS.dense, 4
SUMS = (*(f"s{number}" for number in range(12)), "t0", "t1", "t2", "t3")
STREAMS = (STREAM, "a6", "a7", "ra")
CONSTANTS = WORD * SIZE_OF + packed_shifts(SIZE_OF)
# Words on the stack: where taps begin and end, bytes of a block, channels that are left; of a turn
# of several blocks, where its code begins, the taps and the bytes from a block's biases that this
# code addresses first.
START, STOP, SIZE, LEFT, ENTRY, FIRST, BEHIND = range(0, 7 * WORD, WORD)
WORDS = 7
# While bytes are made: the registers of the requantiser, and the address behind it.
USED, BACK = (*WEIGHTS, TAP, TAP, END), CHANNELS
# Steps of four taps in a turn of several blocks. The first turn may begin at any of them.
TURN = 4


@dataclass(frozen=True)
class Weights:
    """nibbles: they have 4 bits, see int4.py."""

    nibbles: bool = False

    @property
    def stride(self) -> int:
        """Bytes of four taps of a block."""
        return LANES * SIZE_OF // (2 if self.nibbles else 1)


def of_byte(upper: str, lower: str, place: str) -> list[str]:
    """Loads a byte of two weights of 4 bits."""
    return [
        f"lb {lower}, {place}",
        f"srai {upper}, {lower}, 4",
        f"slli {lower}, {lower}, 28",
        f"srai {lower}, {lower}, 28",
    ]


def biases(streams: Sequence[str]) -> Iterator[str]:
    for n in range(SIZE_OF * len(streams)):
        block, channel = divmod(n, SIZE_OF)
        yield f"lw {SUMS[n]}, {WORD * channel}({streams[block]})"


def pairs_of(of: Weights, number: int, tap: int) -> Iterator[tuple[list[str], tuple[int, int]]]:
    """Code that loads weights of a tap, and their channels in the block of a stream {}."""
    half = SIZE_OF // 2
    for n in range(half):
        if of.nibbles:
            place = f"{of.stride * number + LANES * n + tap}({{}})"
            yield of_byte(*WEIGHTS, place), (n, n + half)
        else:
            pair = 2 * n, 2 * n + 1
            places = [f"{of.stride * number + LANES * m + tap}({{}})" for m in pair]
            loads = zip(WEIGHTS, places, strict=True)
            yield [f"lb {weight}, {place}" for weight, place in loads], pair


def step(of: Weights, streams: Sequence[str], number: int = 0) -> Iterator[str]:
    """Four taps of a block in each stream. number: of steps before it in a turn."""
    for tap in range(LANES):
        yield f"lb {TAP}, {LANES * number + tap}({X})"
        for block, stream in enumerate(streams):
            for code, channels in pairs_of(of, number, tap):
                yield from (line.format(stream) for line in code)
                for n, weight in zip(channels, WEIGHTS, strict=True):
                    total = SUMS[SIZE_OF * block + n]
                    yield f"mul {weight}, {weight}, {TAP}"
                    yield f"add {total}, {total}, {weight}"


def advance(of: Weights, name: str, streams: Sequence[str], steps: int = 1) -> Iterator[str]:
    yield f"addi {X}, {X}, {LANES * steps}"
    yield from (f"addi {stream}, {stream}, {of.stride * steps}" for stream in streams)
    yield f"bne {X}, {END}, <{name}>"


def several(of: Weights) -> Iterator[str]:
    """Computes sums from biases, a block in each stream."""
    yield from biases(STREAMS)
    yield f"lw {TAP}, {BEHIND}(sp)"
    yield from (f"add {stream}, {stream}, {TAP}" for stream in STREAMS)
    yield f"lw {X}, {FIRST}(sp)"
    yield f"lw {TAP}, {ENTRY}(sp)"
    yield f"jr {TAP}"
    for number in range(TURN):
        yield note("Four taps.")
        yield f"<step_{number}>:"
        yield from step(of, STREAMS, number)
    yield from advance(of, "step_0", STREAMS, TURN)


def single(of: Weights) -> Iterator[str]:
    """Computes sums from biases, one block."""
    yield from biases(STREAMS[:1])
    yield f"addi {STREAM}, {STREAM}, {WORD * SIZE_OF}"
    yield f"lw {X}, {START}(sp)"
    yield note("Four taps.")
    yield "<single>:"
    yield from step(of, STREAMS[:1])
    yield from advance(of, "single", STREAMS[:1])


def entry(of: Weights) -> Iterator[str]:
    """Computes the start of a turn of several blocks, if the number of steps is not a multiple of
    TURN."""
    yield note("Steps that the first turn of several blocks does not have.")
    yield f"neg t0, {STEPS}"
    yield f"andi t0, t0, {TURN - 1}"
    yield f"slli t1, t0, {LANES.bit_length() - 1}"
    yield f"sub t1, {X}, t1"
    yield f"sw t1, {FIRST}(sp)"
    yield f"slli t1, t0, {of.stride.bit_length() - 1}"
    yield f"li t2, {WORD * SIZE_OF}"
    yield "sub t2, t2, t1"
    yield f"sw t2, {BEHIND}(sp)"
    for number in range(TURN):
        yield from ["addi t0, t0, -1"] * (number > 0)
        yield f"lla t1, <step_{number}>"
        yield from ["beqz t0, <begin>"] * (number < TURN - 1)
    yield "<begin>:"
    yield f"sw t1, {ENTRY}(sp)"


def code(of: Weights) -> Iterator[str]:
    yield from save(WORDS)
    yield from entry(of)
    yield note("Bytes of a block, and where taps end.")
    yield f"sw {X}, {START}(sp)"
    yield f"slli t0, {STEPS}, {of.stride.bit_length() - 1}"
    yield f"addi t0, t0, {WORD * SIZE_OF + CONSTANTS}"
    yield f"sw t0, {SIZE}(sp)"
    yield f"slli {END}, {STEPS}, {LANES.bit_length() - 1}"
    yield f"add {END}, {END}, {X}"
    yield f"sw {END}, {STOP}(sp)"
    yield f"slli {HALF}, {HALF}, 1"
    yield "<next>:"
    yield f"addi t0, {CHANNELS}, -{BLOCKS * SIZE_OF}"
    yield "bltz t0, <one>"
    yield note("Several blocks.")
    yield f"sw t0, {LEFT}(sp)"
    yield f"lw t0, {SIZE}(sp)"
    for before, stream in itertools.pairwise(STREAMS):
        yield f"add {stream}, {before}, t0"
    yield from several(of)
    yield f"jal {BACK}, <bytes>"
    for block, stream in enumerate(STREAMS[1:], 1):
        sums = SUMS[SIZE_OF * block : SIZE_OF * (block + 1)]
        yield from (f"mv {to}, {acc}" for to, acc in zip(SUMS, sums, strict=False))
        yield f"mv {STREAM}, {stream}"
        yield from [f"jal {BACK}, <bytes>"] * (block < BLOCKS - 1)
    yield note("The last block.")
    yield "<last>:"
    yield f"lla {BACK}, <stored>"
    yield note("The bytes of a block.")
    yield "<bytes>:"
    yield f"li {USED[-1]}, 127"
    channels = [[(0, acc)] for acc in SUMS[:SIZE_OF]]
    yield from requantised(channels, STREAM, used=USED)
    yield f"addi {OUT}, {OUT}, {SIZE_OF}"
    yield f"jr {BACK}"
    yield "<stored>:"
    yield f"addi {STREAM}, {STREAM}, {CONSTANTS}"
    yield f"lw {CHANNELS}, {LEFT}(sp)"
    yield f"lw {END}, {STOP}(sp)"
    yield f"bgtz {CHANNELS}, <next>"
    yield "<done>:"
    yield from leave(WORDS)
    yield note("One block, or its sums alone.")
    yield "<one>:"
    yield f"addi t0, {CHANNELS}, -{SIZE_OF}"
    yield f"sw t0, {LEFT}(sp)"
    yield from single(of)
    yield f"bnez {CHANNELS}, <last>"
    yield from (f"sw {acc}, {WORD * n}({OUT})" for n, acc in enumerate(SUMS[:SIZE_OF]))
    yield "j <done>"
    yield from beyond(channels, bounds=(USED[-2], USED[-1]))


def run(name: str, of: Weights) -> Function:
    return Function(
        name,
        "Whole blocks of a pixel, or, where there are no channels, the sums of one, as words. "
        "Returns where the flash stream goes on.",
        [*code(of)],
        thumb=False,
    )


FUNCTIONS = [run("vmcu_paired_1x4", Weights())]
