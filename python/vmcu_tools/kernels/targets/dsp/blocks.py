# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels in assembly, from bias to store.

A word of weights has two taps of two channels, two words of a pixel's tile have four taps. Loads
stand together as far as registers allow, since each run of them takes one cycle more than it has
loads.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from ...language.packing import packed_shifts
from ..portable.blocks import NARROW, SHAPES, WIDE, Shape, of_pixels
from ..portable.tile import SEVERAL
from ..thumb import (
    CLOBBERED,
    END,
    ENTRY,
    HALF,
    LAST,
    OUT,
    PITCH,
    STREAM,
    Registers,
    T,
    after_turn,
    asm,
    biases,
    copies,
    prototype,
    seconds,
)

# Fours of taps in a turn of the loop.
UNROLL = {"4x2": 4, "2x4": 4, "2x2": 2, "1x4": 2, "1x2": 1}
INSTRUCTION = 4
SAVED = ("r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8")
# What eight sums leave free.
OTHERS = Registers.of(Shape(4, True)).free


def smlad(acc: str, tap: str, word: str, start: str = "") -> str:
    """Two taps more. `start`: what they are added to, if not to the sum itself."""
    return f"smlad {acc}, {tap}, {word}, {start or acc}"


def joined(word: str, taps: list[tuple[str, str, str]]) -> list[str]:
    """Two taps of some pixels, each with its sums of two joined channels: a word of weights as it
    is for the second one, widened for the first one."""
    return [
        *(smlad(both, tap, word) for tap, _, both in taps),
        f"sxtb16 {word}, {word}",
        *(smlad(first, tap, word) for tap, first, _ in taps),
    ]


def pair_4x2(start: bool, last: bool = False) -> list[str]:
    """Two taps of four pixels and two channels. `start`: only the sums of the first pixel hold
    their biases, and those of the others begin there. `last`: of a turn, so the flags say whether
    that was the last one."""
    a, (v, u, x, y) = Registers.of(Shape(4, True)).sums, OTHERS
    code = [f"ldr.w {v}, [{STREAM}], #4"]
    for pixels in ((1, 2), (3, 0)) if start else ((0, 1), (2, 3)):
        for tap, pixel in zip((x, y), pixels, strict=True):
            place = "], #16" if pixel == 0 else f", #{4 * pixel - (0 if start else 16)}]"
            code.append(f"ldr.w {tap}, [{T}{place}")
        if 1 in pixels:
            # Where the tile ends is one load more of the run.
            code += [f"ldr.w {u}, {END}", f"cmp.w {T}, {u}"] * last
            code.append(f"sxtb16 {u}, {v}")
        for tap, pixel in zip((x, y), pixels, strict=True):
            for weights, first in ((u, 0), (v, 4)):
                code.append(smlad(a[first + pixel], tap, weights, a[first] if start else ""))
    return code


def pair_2x4(start: bool, last: bool = False) -> list[str]:
    """Two taps of two pixels and four channels, the others likewise."""
    a, (v, u, x, y) = Registers.of(Shape(2, False)).sums, OTHERS
    code = [f"ldr.w {v}, [{STREAM}], #8", f"ldr.w {u}, [{STREAM}, #-4]"]
    code += [f"ldr.w {x}, [{T}], #8", f"ldr.w {y}, [{T}, #-4]"]
    for word, channels in ((v, (1, 0)), (u, (3, 2))):
        for channel in channels:
            code += [f"sxtb16 {word}, {word}"] * (channel % 2 == 0)
            first = 2 * channel
            for tap, pixel in ((y, 1), (x, 0)):
                code.append(smlad(a[first + pixel], tap, word, a[first] if start else ""))
    return [*code, *after_turn(Shape(2, False))] if last else code


PAIRS = {Shape(4, True): pair_4x2, Shape(2, False): pair_2x4}


def four(shape: Shape) -> list[str]:
    """Four taps of each pixel."""
    if shape in PAIRS:
        return [*PAIRS[shape](False), *PAIRS[shape](False)]
    pixels, words = shape.pixels, shape.channels()
    a, free = Registers.of(shape).sums, Registers.of(shape).free
    weights, taps = free[:words], free[words : words + 2 * pixels]
    code = [f"ldr.w {weights[0]}, [{STREAM}], #{4 * words}"]
    code += [f"ldr.w {weights[i]}, [{STREAM}, #{4 * (i - words)}]" for i in range(1, words)]
    code.append(f"ldr.w {taps[0]}, [{T}], #{8 * pixels}")
    code += [f"ldr.w {taps[i]}, [{T}, #{4 * i - 8 * pixels}]" for i in range(1, 2 * pixels)]
    for number, word in enumerate(weights):
        odd, pair = divmod(number, words // 2)
        held, first = taps[pixels * odd : pixels * (odd + 1)], 2 * pixels * pair
        both = first + pixels
        code += joined(word, list(zip(held, a[first:both], a[both : both + pixels], strict=True)))
    return code


def skipped(shape: Shape, instructions: int, unroll: int) -> str:
    """C: bytes of the loop in front of where its first turn begins, so that the last one ends with
    the loop. Half of four taps, which are so many instructions, may have been done before."""
    size = INSTRUCTION * instructions
    done = f" + {size // 2}U" if shape in PAIRS else ""
    return f"((0U - (uint32_t)steps) & {unroll - 1}U) * {size}U{done}"


def sums(shape: Shape, taps: list[str], unroll: int) -> list[str]:
    """The dot product of a block; `taps`: four of each pixel, so many times in a turn."""
    registers = Registers.of(shape)
    head = PAIRS[shape](True) if shape in PAIRS else copies(shape)
    head += [f"ldr {registers.end}, {END}"] if registers.end else []
    loop = [*taps * unroll, *after_turn(shape)]
    if shape in PAIRS:
        # The last pair of a turn compares.
        loop = [*taps * (unroll - 1), *PAIRS[shape](False), *PAIRS[shape](False, True)]
    return [
        *biases(shape),
        *head,
        f"ldr pc, {ENTRY}",
        ".p2align 2",
        "1:",
        *loop,
        "blo 1b",
    ]


def fixed(
    acc: str, multiplier: str, bias: str, shift: str, scratch: str, second: bool = False
) -> list[str]:
    """A sum to int8 in its place: fixed_fast() of targets/portable/tile.py, whose 64-bit sum is
    SMMLAR. `second`: of a second channel, 256 times its sum."""
    return [
        f"add {scratch}, {bias}, {acc}, asr #31",
        f"asrs {acc}, {acc}, #7" if second else f"lsls {acc}, {acc}, #1",
        f"smmlar {acc}, {acc}, {multiplier}, {scratch}",
        f"asrs {acc}, {acc}, {shift}",
        f"ssat {acc}, #8, {acc}, asr #1",
    ]


def requantised(shape: Shape) -> list[str]:
    """A block's sums to int8. All shifts are in one word; its lowest byte is the next one."""
    sums, (shifts, half, bias, *others) = Registers.of(shape).sums, Registers.of(shape).free
    count = shape.channels()
    size = 4 * count + packed_shifts(count)
    assert packed_shifts(count) == 4
    # All at once if there are registers for them.
    multipliers = others[:count] if len(others) >= count else others[:1] * count
    loads = [f"ldr {m}, [{STREAM}, #{4 * i - size}]" for i, m in enumerate(multipliers)]
    loads[0] = f"ldr {multipliers[0]}, [{STREAM}], #{size}"
    code = [f"sub {both}, {both}, {first}" for both, first in seconds(shape)]
    code += [f"ldr {half}, {HALF}", loads[0], f"ldr {shifts}, [{STREAM}, #-4]"]
    together = len(set(multipliers)) == count
    code += loads[1:] if together else []
    for channel, multiplier in enumerate(multipliers):
        if channel > 0:
            code += [] if together else [loads[channel]]
            code.append(f"lsrs {shifts}, {shifts}, #8")
        code.append(f"lsl {bias}, {half}, {shifts}")
        for acc in sums[shape.pixels * channel : shape.pixels * (channel + 1)]:
            code += fixed(acc, multiplier, bias, shifts, T, channel % 2 == 1)
    return code


def stored(shape: Shape) -> list[str]:
    """The bytes of a block, and whether another one follows."""
    a, (last, *_, pitch) = Registers.of(shape).sums, Registers.of(shape).free
    code = [f"ldr {T}, {OUT}", f"ldr {last}, {LAST}"]
    code += [f"ldr {pitch}, {PITCH}"] * (shape.pixels > 1)
    near, next_, far = f"[{T}]", f"[{T}], #1", f"[{T}, {pitch}, lsl #1]"
    for channel in range(shape.channels()):
        ours = a[shape.pixels * channel :]
        if shape.pixels == 4:
            # The pointer is at the first pixel, then at the second, and back at the first.
            here, there = (1, 0) if channel % 2 else (0, 1)
            code += [f"strb {ours[here + 2]}, {far}", f"strb {ours[here]}, {near}"]
            code.append(f"{'sub' if channel % 2 else 'add'} {T}, {T}, {pitch}")
            code += [f"strb {ours[there + 2]}, {far}", f"strb {ours[there]}, {next_}"]
        elif shape.pixels == 2:
            code += [f"strb {ours[1]}, [{T}, {pitch}]", f"strb {ours[0]}, {next_}"]
        else:
            code.append(f"strb {ours[0]}, {next_}")
    return [*code, f"str {T}, {OUT}", f"cmp {T}, {last}", "bne 2b"]


def run(shape: Shape, taps: list[str], unroll: int) -> list[str]:
    """Blocks up to LAST; or, where END lies before the tile's, the sums of one."""
    # An address that PC is loaded with is odd.
    entry = ["adr lr, 1f", "add r6, r6, lr", "adds r6, #1"]
    code = [
        f"push {{{', '.join(SAVED)}}}",
        "2:",
        *sums(shape, taps, unroll),
        "bne 7f",
        *requantised(shape),
        *stored(shape),
        "b 8f",
        "7:",
        f"ldr {T}, {OUT}",
        *(f"sub {both}, {both}, {first}" for both, first in seconds(shape)),
        f"stm {T}, {{{', '.join(Registers.of(shape).sums)}}}",
        "8:",
        # Nobody asks for the others.
        f"add sp, sp, #{4 * SAVED.index('r7')}",
        "pop {r7, r8}",
    ]
    return [*entry, *code]


def whole_function(
    name: str, shape: Shape, taps: list[str], unroll: int, lane: str, lanes: int
) -> str:
    """C of a function for whole blocks; four `taps` of all pixels are `lanes` of type `lane`."""
    head = prototype(
        name,
        f"const uint8_t *stream, const {lane} *tile, int32_t steps, int8_t *out, int32_t pitch, "
        "int32_t channels, int32_t half",
    )
    return f"""
/*
 * Whole blocks of {SEVERAL[shape.pixels]}, or, where there are no channels, the sums of one, as
 * words; returns where the flash stream goes on.
 */
{head.replace("VMCU_APART", "VMCU_INLINE")}
{{
	register const uint8_t *w __asm__("r0") = stream;
	register const {lane} *t __asm__("r1") = tile;
	register const {lane} *end __asm__("r2") =
		tile + {lanes} * steps - ((channels == 0) ? 1 : 0);
	register int8_t *o __asm__("r3") = out;
	register int32_t width __asm__("r4") = pitch;
	register int8_t *last __asm__("r5") = out + channels;
	register uint32_t entry __asm__("r6") =
		{skipped(shape, len(taps), unroll)};
	register int32_t zero __asm__("r8") = half;

	__asm__ volatile(
		{asm(run(shape, taps, unroll))}
		: "+r"(w), "+r"(t), "+r"(end), "+r"(o), "+r"(width), "+r"(last), "+r"(entry),
		  "+r"(zero)
		:
		: {CLOBBERED});
	return w;
}}
"""


def run_function(shape: Shape) -> str:
    lanes = 2 * shape.pixels
    name = f"vmcu_run_words_{shape.name}"
    return whole_function(name, shape, four(shape), UNROLL[shape.name], "vmcu_lane_t", lanes)


def run_body(shape: Shape) -> str:
    """C of the instruction."""
    return (
        f"*w = vmcu_run_words_{shape.name}(*w, tile, p->steps, out, pitch, channels, vmcu_half(p));"
    )


def run_of(shapes: Mapping[int, Shape], member: str) -> str:
    """C of a function for the blocks of a tile."""
    call = "w = vmcu_run_words_{}(w, tile, p->steps, out, pitch, channels, vmcu_half(p));"
    body = textwrap.indent(of_pixels(shapes, call), "\t")
    head = prototype(
        f"vmcu_run_of_{member}",
        "const uint8_t *w, const vmcu_lane_t *tile, const struct vmcu_mac_params *p, int8_t *out, "
        "int32_t pitch, int32_t channels, int32_t pixels",
    )
    return f"""
/* Whole blocks of a {member} tile, or, where there are no channels, the sums of one. */
{head}
{{
{body}
	return w;
}}
"""


def blocks_body(shapes: Mapping[int, Shape], member: str) -> str:
    """C of the instruction for all blocks of a tile."""
    size = shapes[1].channels()
    return f"""
const uint32_t counts = *(const uint32_t *)*w;

if (!vmcu_requant_is_float(false) && (counts >> 16) == {size}U << 12) {{
	/* As in most layers, all blocks are whole and fast ones. */
	*w = vmcu_run_of_{member}(*w + sizeof(counts), tile, p, out, pitch,
				  (int32_t)((counts & 0xffffU) * {size}U), pixels);
}} else {{
	*w = vmcu_blocks(p, tile, *w, out, pitch, {size}, pixels, vmcu_run_of_{member});
}}
"""


def apart(pixels: int) -> str:
    """C of a loop over a pixel's two taps times two channels that are not joined, or over those of
    two pixels."""
    code = ["1:", "ldr %[word], [%[u]]", "ldr %[x], [%[t]]" + ", #4" * (pixels == 1)]
    code += ["add %[u], %[us]", "sxtb16 %[y], %[word]", "sxtb16 %[word], %[word], ror #8"]
    code += [smlad("%[a]", "%[x]", "%[y]"), smlad("%[b]", "%[x]", "%[word]")]
    if pixels == 2:
        code += ["ldr %[x], [%[t], #4]", "add %[t], %[ts]"]
        code += [smlad("%[c]", "%[x]", "%[y]"), smlad("%[d]", "%[x]", "%[word]")]
    return asm([*code, "cmp %[u], %[end]", "blo 1b"], 5)


APART = f"""
/* The sums of a block of channels that are not joined; returns where the flash stream goes on. */
VMCU_CALLED const uint8_t *vmcu_words_apart(int32_t *acc, const vmcu_lane_t *tile, int32_t steps,
					    int32_t channels, int32_t pixels, const uint8_t *w)
{{
	const uint32_t *b = (const uint32_t *)w;
	const uint8_t *v = w + 4 * channels;
	const uint8_t *const end = v + 4 * channels * steps;
	const int32_t width = (pixels > 1) ? 2 : 1;

	for (int32_t n = channels; n > 0; n -= 2, b += 2, v += 4, acc += pixels) {{
		for (int32_t pixel = 0; pixel < pixels; pixel += width, acc += width) {{
			const vmcu_lane_t *t = tile + pixel;
			const uint8_t *u = v;
			uint32_t first = b[0], second = b[1];
			uint32_t third = first, fourth = second;
			uint32_t x, y, word;

			if (pixels > 1) {{
				__asm__ volatile(
					{apart(2)}
					: [a] "+&r"(first), [b] "+&r"(second), [c] "+&r"(third),
					  [d] "+&r"(fourth), [t] "+&r"(t), [u] "+&r"(u),
					  [x] "=&r"(x), [y] "=&r"(y), [word] "=&r"(word)
					: [us] "r"(2 * channels), [ts] "r"(4 * pixels),
					  [end] "r"(end)
					: "cc", "memory");
				acc[1] = (int32_t)third;
				acc[pixels + 1] = (int32_t)fourth;
			}} else {{
				__asm__ volatile(
					{apart(1)}
					: [a] "+&r"(first), [b] "+&r"(second), [t] "+&r"(t),
					  [u] "+&r"(u), [x] "=&r"(x), [y] "=&r"(y),
					  [word] "=&r"(word)
					: [us] "r"(2 * channels), [end] "r"(end)
					: "cc", "memory");
			}}
			acc[0] = (int32_t)first;
			acc[pixels] = (int32_t)second;
		}}
	}}
	return end;
}}
"""
# called.h has it, for it is made of instructions.
BLOCKS = """
VMCU_CALLED const uint8_t *vmcu_blocks(const struct vmcu_mac_params *p, const vmcu_lane_t *tile,
				      const uint8_t *w, int8_t *out, int32_t pitch, int32_t size,
				      int32_t pixels, vmcu_run_of *run);
"""
RUN_OF = """
/* vmcu_run_of_wide() or vmcu_run_of_narrow(). */
typedef const uint8_t *vmcu_run_of(const uint8_t *w, const vmcu_lane_t *tile,
				   const struct vmcu_mac_params *p, int8_t *out, int32_t pitch,
				   int32_t channels, int32_t pixels);
"""
HELPERS = {
    "runs": "".join(run_function(shape) for shape in SHAPES),
    "words_apart": APART,
    "run_of": "".join([RUN_OF, run_of(WIDE, "wide"), run_of(NARROW, "narrow"), BLOCKS]),
}
