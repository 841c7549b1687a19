# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of square windows, two pixels a multiply.

The tile of a strip has a word for each pixel under it, one of four channels: all rows of a column,
then those of the next. Assembly computes channel by channel, as long as they are for the fast
requantiser and any two taps may be added up; C computes the others.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from ...language.assembly import Function, note
from ...language.packing import PAIRS
from ..portable.depthwise import (
    BIAS,
    EXACT,
    SQUARE_TAPS,
    STRIDES,
    TAPS,
    THREE,
    TWO,
    channel_bytes,
    line_order,
    pair_counts,
    whole_pairs,
)
from ..portable.strips import STRIP, all_strips
from . import requant
from .frame import leave, save

# Words on the stack.
LANES, X, OUT, END, LIMIT, HALF, PITCH, BIAS_AT, BOTH_AT, NEXT, FLAGS = range(0, 44, 4)
WORDS = 11
# Of larger windows: pixels, and where the weights are.
COUNT, FIRST = END, LIMIT
LOW, HIGH, PRODUCT, SCRATCH, OTHER = "t6", "s9", "s10", "s11", "ra"
COLUMN, ROUND, BYTE, STOP, STEP = "a1", "a2", "a3", "a4", "a5"
FACTOR, SHIFT, CONSTANT = "a6", "a7", "a0"
WEIGHTS = tuple(f"s{number}" for number in range(9))
KEPT, LAST = ("t0", "t1", "t2"), ("t3", "t4", "t5")


@functools.cache
def places(taps: int, stride: int) -> tuple[int, ...]:
    """Where the weights of a window are behind its channel's word, row by row."""
    found: dict[tuple[int, int], int] = {}
    size, rows = 2 * whole_pairs(taps), taps // 2
    columns = [s for phase in range(stride) for s in range(phase, taps, stride)]
    pairs = PAIRS.pairs(2 * taps if taps == SQUARE_TAPS else whole_pairs(taps))
    for number in range(rows):
        for s, couple in zip(columns, pairs, strict=False):
            for half, place in enumerate(couple):
                found[2 * number + half, s] = number * size + place
    count = taps if stride == 1 else pair_counts(taps, stride)[0]
    if taps == SQUARE_TAPS:
        pairs, first = pairs[taps:], 0
    else:
        pairs, first = PAIRS.pairs(whole_pairs(count)), rows * size
    line = [*line_order(taps)] if stride == 1 else [(s, s + 1) for s in range(0, taps, 2)]
    for weights, couple in zip(line, pairs, strict=False):
        for s, place in zip(weights, couple, strict=True):
            if 0 <= s < taps:
                found[taps - 1, s] = first + place
    return tuple(found[divmod(at, taps)] for at in range(taps * taps))


def start(taps: int, stride: int, code: Iterator[str]) -> Iterator[str]:
    """Arguments: stream, tile of the first channel, output, channels, pixels, bytes from a pixel to
    the next, half. Returns where the first channel is that was not computed."""
    size = channel_bytes(taps, stride)
    yield from save(WORDS)
    yield f"sw a1, {X}(sp)"
    yield f"sw a2, {OUT}(sp)"
    yield f"sw a3, {LANES}(sp)"
    yield f"sw a5, {PITCH}(sp)"
    yield "slli a6, a6, 1"
    yield f"sw a6, {HALF}(sp)"
    if taps > SQUARE_TAPS:
        yield f"sw a4, {COUNT}(sp)"
    # Bytes of two pixels in the tile, times the number of pairs.
    yield f"li {SCRATCH}, {8 * taps * stride}"
    for place, more in ((LIMIT, 0), (END, 1)) if taps == SQUARE_TAPS else ():
        yield f"addi {PRODUCT}, a4, {more}"
        yield f"srli {PRODUCT}, {PRODUCT}, 1"
        yield f"mul {PRODUCT}, {PRODUCT}, {SCRATCH}"
        yield f"add {PRODUCT}, {PRODUCT}, a1"
        yield f"sw {PRODUCT}, {place}(sp)"
    yield "<channel>:"
    yield f"lw {PRODUCT}, 0(a0)"
    yield f"andi {SCRATCH}, {PRODUCT}, {EXACT | TWO}"
    yield f"li {OTHER}, {TWO}"
    yield f"bne {SCRATCH}, {OTHER}, <done>"
    yield f"andi {SCRATCH}, {PRODUCT}, {THREE}"
    yield f"sw {SCRATCH}, {FLAGS}(sp)"
    yield f"andi {SHIFT}, {PRODUCT}, 31"
    yield f"srai {PRODUCT}, {PRODUCT}, {BIAS}"
    yield f"sw {PRODUCT}, {BIAS_AT}(sp)"
    yield f"slli {SCRATCH}, {PRODUCT}, 16"
    yield f"add {SCRATCH}, {SCRATCH}, {PRODUCT}"
    yield f"sw {SCRATCH}, {BOTH_AT}(sp)"
    yield f"lw {FACTOR}, {size - 4}(a0)"
    yield f"addi {SCRATCH}, a0, {size}"
    yield f"sw {SCRATCH}, {NEXT}(sp)"
    yield f"lw {BYTE}, {OUT}(sp)"
    yield f"lw {COLUMN}, {X}(sp)"
    yield f"lui {ROUND}, 8"
    yield from code
    yield note("The next channel, if there is one.")
    yield "<next>:"
    for place, more in ((X, 1), (OUT, 1), (LANES, -1)):
        yield f"lw {SCRATCH}, {place}(sp)"
        yield f"addi {SCRATCH}, {SCRATCH}, {more}"
        yield f"sw {SCRATCH}, {place}(sp)"
    yield f"lw a0, {NEXT}(sp)"
    yield f"bgtz {SCRATCH}, <channel>"
    yield "<done>:"
    yield from leave(WORDS)


def requantiser() -> Iterator[str]:
    """The constants, of which SHIFT is known."""
    yield f"lw {SCRATCH}, {HALF}(sp)"
    yield f"sll {CONSTANT}, {SCRATCH}, {SHIFT}"
    yield f"addi {SHIFT}, {SHIFT}, 2"


def requantised(acc: str, label: str) -> Iterator[str]:
    yield from requant.fixed(acc, FACTOR, CONSTANT, SHIFT, (PRODUCT, SCRATCH, OTHER))
    yield f"srli {SCRATCH}, {SCRATCH}, 8"
    yield f"bnez {SCRATCH}, <over_{label}>"
    yield f"<store_{label}>:"
    yield f"sb {PRODUCT}, 0({BYTE})"


@dataclass
class Sums:
    """Of a pair of pixels, some taps at a time. seen: taps until now."""

    low: str
    high: str
    product: str
    together: int = 2
    seen: int = 0

    def tap(self, weight: str, word: str, is_last: bool) -> Iterator[str]:
        is_first = self.seen % self.together == 0
        self.seen += 1
        if is_first:
            yield f"mul {self.product}, {weight}, {word}"
        else:
            yield f"mul {SCRATCH}, {weight}, {word}"
            yield f"add {self.product}, {self.product}, {SCRATCH}"
        if self.seen % self.together and not is_last:
            return
        yield f"add {self.low}, {self.low}, {self.product}"
        yield f"add {self.product}, {self.product}, {ROUND}"
        yield f"srai {self.product}, {self.product}, 16"
        yield f"add {self.high}, {self.high}, {self.product}"

    def begin(self) -> Iterator[str]:
        yield f"lw {self.low}, {BOTH_AT}(sp)"
        yield f"lw {self.high}, {BIAS_AT}(sp)"

    def parted(self) -> Iterator[str]:
        yield f"slli {SCRATCH}, {self.high}, 16"
        yield f"sub {self.low}, {self.low}, {SCRATCH}"


def at(column: int, row: int, taps: int) -> str:
    return f"{4 * (taps * column + row)}({COLUMN})"


def square_words(row: int, stride: int) -> Iterator[tuple[list[str], str]]:
    """Of 3 x 3 taps: code, and the register that has the next word of a row then. A row keeps what
    the next pair begins with."""
    kept, last = KEPT[row], LAST[row]

    def joined(to: str, first: str, second: str) -> list[str]:
        return [f"slli {SCRATCH}, {second}, 16", f"add {to}, {first}, {SCRATCH}"]

    if stride == 1:
        yield [], kept
        yield [f"lb {OTHER}, {at(2, row, 3)}", *joined(last, last, OTHER)], last
        yield [f"lb {last}, {at(3, row, 3)}", *joined(kept, OTHER, last)], kept
        return
    yield [f"lb {OTHER}, {at(2, row, 3)}", *joined(last, last, OTHER)], last
    loads = [f"lb {kept}, {at(1, row, 3)}", f"lb {SCRATCH}, {at(3, row, 3)}"]
    yield [*loads, *joined(kept, kept, SCRATCH)], kept
    yield [f"lb {last}, {at(4, row, 3)}", *joined(OTHER, OTHER, last)], OTHER


def square(stride: int) -> Iterator[str]:
    """3 x 3 taps: all weights are in registers."""
    for weight, place in zip(WEIGHTS, places(3, stride), strict=True):
        yield f"lb {weight}, {4 + place}(a0)"
    yield from requantiser()
    yield f"lw {STOP}, {LIMIT}(sp)"
    yield f"lw {STEP}, {PITCH}(sp)"
    for row in range(3):
        if stride == 2:
            yield f"lb {LAST[row]}, {at(0, row, 3)}"
            continue
        yield f"lb {KEPT[row]}, {at(0, row, 3)}"
        yield f"lb {LAST[row]}, {at(1, row, 3)}"
        yield f"slli {SCRATCH}, {LAST[row]}, 16"
        yield f"add {KEPT[row]}, {KEPT[row]}, {SCRATCH}"
    yield f"bgeu {COLUMN}, {STOP}, <odd>"
    yield f"lw {SCRATCH}, {FLAGS}(sp)"
    yield f"bnez {SCRATCH}, <pair_3>"
    yield from pairs(2, stride)
    yield "j <odd>"
    yield from pairs(3, stride)
    yield note("A pixel that has no other.")
    yield "<odd>:"
    yield f"lw {SCRATCH}, {END}(sp)"
    yield f"bgeu {COLUMN}, {SCRATCH}, <next>"
    yield f"lw {LOW}, {BIAS_AT}(sp)"
    for tap, weight in enumerate(WEIGHTS):
        yield f"lb {OTHER}, {at(tap % 3, tap // 3, 3)}"
        yield f"mul {OTHER}, {OTHER}, {weight}"
        yield f"add {LOW}, {LOW}, {OTHER}"
    yield from requantised(LOW, "single")


def pairs(together: int, stride: int) -> Iterator[str]:
    """All pairs of pixels of a channel, so many taps at a time."""
    yield f"<pair_{together}>:"
    sums = Sums(LOW, HIGH, PRODUCT, together)
    yield from sums.begin()
    for row in range(3):
        for s, (code, word) in enumerate(square_words(row, stride)):
            yield from code
            yield from sums.tap(WEIGHTS[3 * row + s], word, sums.seen == 8)
    yield from sums.parted()
    yield from requantised(LOW, f"even_{together}")
    yield f"add {BYTE}, {BYTE}, {STEP}"
    yield from requantised(HIGH, f"odd_{together}")
    yield f"add {BYTE}, {BYTE}, {STEP}"
    yield f"addi {COLUMN}, {COLUMN}, {24 * stride}"
    yield f"bltu {COLUMN}, {STOP}, <pair_{together}>"


def strip_function(taps: int, stride: int) -> Function:
    summary = f"Channels of a strip of {taps} x {taps} taps at a stride of {stride}."
    code = [*start(taps, stride, square(stride) if taps == SQUARE_TAPS else larger(taps, stride))]
    for label in LABELS if taps == SQUARE_TAPS else PIXELS:
        code += requant.saturated(label, PRODUCT)
    return Function(f"vmcu_paired_strip_{taps}_{stride}", summary, code, thumb=False)


LABELS = ("even_2", "odd_2", "even_3", "odd_3", "single")
PIXELS = ("0", "1", "2", "3")
# Of larger windows: words of columns, in turn; bytes of the last ones; what is left of pixels.
RING, BYTES = ("t0", "t1", "t2", "t3", "t4"), ("s0", "s1", "s2")
WEIGHT, STREAM, ROWS_END, TOP, LEFT = "s3", "s4", "s5", "s6", "s7"
SECOND = ("t6", "s9", "s10"), ("t5", "s8", STOP)


def row_words(taps: int, stride: int, row: int) -> Iterator[tuple[list[str], str, str]]:
    """Code, and the words of two pairs of pixels that the row's next tap meets then."""
    ahead, ring = 2 * stride, RING[: 2 * stride + 1]

    def load(column: int) -> str:
        return f"lb {BYTES[column % 3]}, {at(column, row, taps)}"

    def word(column: int) -> list[str]:
        """Of a column and of that a stride further on, whose byte comes last."""
        first, second = BYTES[column % 3], BYTES[(column + stride) % 3]
        code = [load(column + stride), f"slli {SCRATCH}, {second}, 16"]
        return [*code, f"add {ring[column % len(ring)]}, {first}, {SCRATCH}"]

    begin = [load(column) for column in range(stride)]
    for column in range(ahead):
        begin += word(column)
    for s in range(taps):
        code = begin * (s == 0) + word(s + ahead)
        yield code, ring[s % len(ring)], ring[(s + ahead) % len(ring)]


def some_rows(taps: int, stride: int, rows: int, first: int) -> Iterator[str]:
    """Rows whose first weight is in the stream's row `first`."""
    order = places(taps, stride)
    base = (taps - 1) // 2 * 2 * whole_pairs(taps) if first else 0
    both = [Sums(*registers) for registers in SECOND]
    for row in range(rows):
        for s, (code, *words) in enumerate(row_words(taps, stride, row)):
            yield from code
            place = order[(first + row) * taps + s] - base
            yield f"lb {WEIGHT}, {place}({STREAM})"
            is_last = row == rows - 1 and s == taps - 1
            for sums, word in zip(both, words, strict=True):
                yield from sums.tap(WEIGHT, word, is_last)


def larger(taps: int, stride: int) -> Iterator[str]:
    """Larger windows: four pixels, two rows at a time, then the last row."""
    yield f"addi {STREAM}, a0, 4"
    yield f"sw {STREAM}, {FIRST}(sp)"
    yield from requantiser()
    yield f"lw {STEP}, {PITCH}(sp)"
    yield f"lw {LEFT}, {COUNT}(sp)"
    yield "<block>:"
    both = [Sums(*registers) for registers in SECOND]
    for sums in both:
        yield from sums.begin()
    size = 2 * whole_pairs(taps)
    yield f"lw {STREAM}, {FIRST}(sp)"
    yield f"addi {ROWS_END}, {STREAM}, {taps // 2 * size}"
    yield f"mv {TOP}, {COLUMN}"
    yield "<rows>:"
    yield from some_rows(taps, stride, 2, 0)
    yield f"addi {COLUMN}, {COLUMN}, 8"
    yield f"addi {STREAM}, {STREAM}, {size}"
    yield f"bne {STREAM}, {ROWS_END}, <rows>"
    yield from some_rows(taps, stride, 1, taps - 1)
    yield f"addi {COLUMN}, {TOP}, {16 * taps * stride}"
    results = []
    for sums in both:
        yield from sums.parted()
        results += [sums.low, sums.high]
    for label, acc in zip(PIXELS, results, strict=True):
        # The products' registers are free from here on.
        yield from requantised(acc, label)
        yield f"addi {LEFT}, {LEFT}, -1"
        yield f"add {BYTE}, {BYTE}, {STEP}"
        yield f"beqz {LEFT}, <next>" if label != PIXELS[-1] else f"bnez {LEFT}, <block>"


FUNCTIONS = [strip_function(taps, stride) for taps in TAPS for stride in STRIDES]

DECLARED = "".join(
    f"""
const uint8_t *{function.name}(const uint8_t *stream, const int8_t *tile, int8_t *out,
				int32_t channels, int32_t pixels, int32_t pitch, int32_t half);"""
    for function in FUNCTIONS
)
HELPERS = {
    "paired_strips": f"/* For columns.h: tiles have columns of pixels. In strips_rv32.S: */\n"
    f"#define VMCU_COLUMNS 1\n{DECLARED}\n"
}


def strip_body(taps: int, stride: int) -> str:
    order = "\n".join(textwrap.wrap(", ".join(map(str, places(taps, stride))), 72))
    size = channel_bytes(taps, stride)
    return f"""
static const uint8_t order[] = {{
{textwrap.indent(order, chr(9))},
}};
static const struct vmcu_paired_window window = {{
	.taps = {taps},
	.stride = {stride},
	.size = {size},
	.places = order,
	.run = vmcu_paired_strip_{taps}_{stride},
}};

vmcu_paired_fours(job, &window, w, out, lanes);
"""


ALL_STRIPS = """
VMCU_OWN_PARAMS(vmcu_mac_params, p, call);
const struct vmcu_tensor *t = vmcu_call_input(call, 0);
const int32_t stride = p->window.stride_w, taps = p->window.kernel_h, step = 4 * taps;
const int32_t columns = call->columns;
const int32_t channels = vmcu_call_output(call)->channels;
const int32_t zeros = (int32_t)((uint8_t)p->input_zero * 0x01010101U);
int8_t *out = vmcu_output_start(call);
vmcu_pair_t *tile = (vmcu_pair_t *)call->scratch;
struct vmcu_band_row rows[VMCU_BAND_ROWS];
struct vmcu_strip_job job;

VMCU_OWN_POINTER(call, p, stream);
job.p = p;
job.tile = call->scratch;
job.pitch = channels;
for (int32_t done = 0; done < columns; done += p->steps) {
	const uint8_t *w = p->stream;
	int32_t x = done;

	job.wide = vmcu_min(p->steps, columns - done);
	if (call->layer->descending != 0) {
		x = columns - done - job.wide;
	}
	const int32_t pixel = (call->x + x) * stride - p->window.pad_left;
	const int32_t wide = (job.wide - 1) * stride + taps;
	const int32_t begin = (pixel < 0) ? -pixel : 0;
	const int32_t count = vmcu_min(wide, t->width - pixel) - begin;

	vmcu_band_rows(rows, call, &p->window, pixel + begin, count);
	/* Padding is the same for all channels. */
	for (int32_t i = 0; i < wide * taps; i++) {
		tile[i] = zeros;
	}
	for (int32_t c = 0; c < channels; c += 4) {
		const int32_t lanes = vmcu_min(4, channels - c);

		for (int32_t r = 0; r < taps; r++) {
			int8_t *to = (int8_t *)(tile + begin * taps + r);
			const int32_t first = vmcu_min(rows[r].split, count);

			if (rows[r].x == NULL) {
				continue;
			}
			vmcu_paired_pixels(to, step, rows[r].x + c, channels, first, lanes);
			if (first < count) {
				vmcu_paired_pixels(to + first * step, step,
						   rows[r].behind + first * channels + c,
						   channels, count - first, lanes);
			}
		}
		vmcu_tile_done();
		fours(&job, &w, out + x * channels + c, lanes);
	}
}
"""
OWN = {
    **{made: strip_body(*window) for window, made in STRIP.items()},
    all_strips: ALL_STRIPS,
}
