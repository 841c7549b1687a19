# SPDX-License-Identifier: Apache-2.0
"""A pixel, of a fully connected layer or in a tile: two blocks of four channels at a time.

A tap is loaded once for all channels; a product costs a load, a multiply and an add.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...language.assembly import Function, note
from ...language.packing import PAIRS, packed_shifts
from .blocks import (
    BYTE,
    CHANNELS,
    END,
    HALF,
    LANES,
    LONG_END,
    OUT,
    PRODUCT,
    START,
    STEPS,
    STREAM,
    WEIGHTS,
    requantised,
    saturated,
)
from .frame import leave, save

TAP, X = "t6", "a1"
SUMS = tuple(f"s{number}" for number in range(8))
# Of the second block; bytes of a block.
SECOND, SIZE = "a6", "a7"
SIZE_OF = PAIRS.dense
CONSTANTS = 4 * SIZE_OF + packed_shifts(SIZE_OF)


# Loads of taps, by their bytes.
LOADS = {1: "lb", 2: "lh"}


def steps(streams: Sequence[str], count: int, size: int) -> Iterator[str]:
    """So many steps of taps, of `size` bytes, times the weights of a block in each stream."""
    for tap in range(LANES * count):
        yield f"{LOADS[size]} {TAP}, {size * tap}({X})"
        step, lane = divmod(tap, LANES)
        for n in range(SIZE_OF * len(streams)):
            block, channel = divmod(n, SIZE_OF)
            at, weight = LANES * (SIZE_OF * step + channel) + lane, WEIGHTS[n % 2]
            yield f"lb {weight}, {at}({streams[block]})"
            yield f"mul {PRODUCT}, {weight}, {TAP}"
            yield f"add {SUMS[n]}, {SUMS[n]}, {PRODUCT}"
    yield f"addi {X}, {X}, {LANES * count * size}"
    for stream in streams:
        yield f"addi {stream}, {stream}, {LANES * SIZE_OF * count}"


def blocks(name: str, streams: Sequence[str], size: int) -> Iterator[str]:
    """From biases to sums."""
    for n in range(SIZE_OF * len(streams)):
        block, channel = divmod(n, SIZE_OF)
        yield f"lw {SUMS[n]}, {4 * channel}({streams[block]})"
    for stream in streams:
        yield f"addi {stream}, {stream}, {4 * SIZE_OF}"
    yield f"mv {X}, {START}"
    # One block is rare.
    for count, end in ((2, LONG_END), (1, END))[len(streams) == 1 :]:
        yield f"beq {X}, {end}, <{name}_{count}_done>"
        yield f"<{name}_{count}>:"
        yield from steps(streams, count, size)
        yield f"bne {X}, {end}, <{name}_{count}>"
        yield f"<{name}_{count}_done>:"


def outputs(first: int) -> list[list[tuple[int, str]]]:
    """Pixel and register of each channel of a block."""
    return [[(0, SUMS[n])] for n in range(first, first + SIZE_OF)]


def code(size: int) -> Iterator[str]:
    yield from save()
    bits, step = (LANES * size).bit_length() - 1, (LANES * SIZE_OF).bit_length() - 1
    yield f"mv {START}, {X}"
    yield f"slli {SIZE}, {STEPS}, {step}"
    yield f"addi {SIZE}, {SIZE}, {4 * SIZE_OF + CONSTANTS}"
    yield f"andi {LONG_END}, {STEPS}, -2"
    yield f"slli {LONG_END}, {LONG_END}, {bits}"
    yield f"add {LONG_END}, {LONG_END}, {X}"
    yield f"slli {END}, {STEPS}, {bits}"
    yield f"add {END}, {END}, {X}"
    yield f"slli {HALF}, {HALF}, 1"
    yield "<next>:"
    yield f"li {PRODUCT}, {2 * SIZE_OF}"
    yield f"blt {CHANNELS}, {PRODUCT}, <one>"
    yield note("Two blocks.")
    yield f"add {SECOND}, {STREAM}, {SIZE}"
    yield from blocks("both", (STREAM, SECOND), size)
    yield f"li {BYTE}, 255"
    yield from requantised(outputs(0), STREAM, 0, "first")
    yield from requantised(outputs(SIZE_OF), SECOND, SIZE_OF, "second")
    yield f"addi {STREAM}, {SECOND}, {CONSTANTS}"
    yield f"addi {OUT}, {OUT}, {2 * SIZE_OF}"
    yield f"addi {CHANNELS}, {CHANNELS}, -{2 * SIZE_OF}"
    yield f"bgtz {CHANNELS}, <next>"
    yield from leave()
    yield note("One block, or its sums alone.")
    yield "<one>:"
    yield from blocks("single", (STREAM,), size)
    yield f"bnez {CHANNELS}, <bytes>"
    for n in range(SIZE_OF):
        yield f"sw {SUMS[n]}, {4 * n}({OUT})"
    yield from leave()
    yield "<bytes>:"
    yield f"li {BYTE}, 255"
    yield from requantised(outputs(0), STREAM)
    yield f"addi {STREAM}, {STREAM}, {CONSTANTS}"
    yield from leave()
    for name in ("first", "second", "byte"):
        yield from saturated(outputs(0), name)


FUNCTIONS = [
    Function(
        name,
        "Whole blocks of a pixel, or, where there are no channels, the sums of one, as words. "
        "Returns where the flash stream goes on.",
        [*code(size)],
        thumb=False,
    )
    for name, size in (("vmcu_paired_dense", 1), ("vmcu_paired_1x4", 2))
]
HELPERS = {
    "dense_whole": """
/* In dense_rv32.S. */
const uint8_t *vmcu_paired_dense(const uint8_t *stream, const int8_t *x, int32_t steps, int8_t *out,
				 int32_t channels, int32_t half);

/* What is left of blocks is rare. */
#define VMCU_DENSE_IN_PLACE 0
#define VMCU_DENSE_SUMS     VMCU_CALLED

/*
 * As many channels as are whole blocks of whole words; returns how many are left. Asked for none,
 * it leaves the sums of a block, as words, and returns zero if it does.
 */
VMCU_INLINE int32_t vmcu_dense_whole(const struct vmcu_mac_params *p, const struct vmcu_source *in,
				    const int8_t *x, const uint8_t **w, int8_t **out,
				    int32_t channels)
{
	const int32_t whole = channels & ~3;

	if (vmcu_source_rows(in) > 1 || (in->run & 3) != 0) {
		return (channels == 0) ? 1 : channels;
	}
	if (whole > 0 || channels == 0) {
		*w = vmcu_paired_dense(*w, x, in->run >> 2, *out, whole, vmcu_half(p));
	}
	*out += whole;
	return channels - whole;
}
""",
}
