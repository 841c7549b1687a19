# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels in assembly, from bias to store.

A word of weights has two taps of both channels, two words of a pixel's tile have four taps. Loads
stand together as far as registers allow, since each run of them takes one cycle more than it has
loads.
"""

from __future__ import annotations

from ..portable.tile import PIXELS, SEVERAL
from ..thumb import (
    CLOBBERED,
    END,
    ENTRY,
    LAST,
    OUT,
    PITCH,
    REGISTERS,
    STREAM,
    T,
    asm,
    biases,
    copies,
    prototype,
    sums_helper,
    until_end,
)

# Taps of one turn of the loop, in fours.
UNROLL = 4
INSTRUCTION = 4
SAVED = "{r1, r2, r3, r4, r5, r6, r7}"


def pair(start: bool) -> list[str]:
    """Two taps of four pixels. `start`: only the sums of the first pixel hold their biases, and
    those of the others begin there."""
    a, (v, u, x, y) = REGISTERS[4].sums, REGISTERS[4].free
    code = [f"ldr.w {v}, [{STREAM}], #4"]
    for pixels in ((1, 2), (3, 0)) if start else ((0, 1), (2, 3)):
        for tap, pixel in zip((x, y), pixels, strict=True):
            place = "], #16" if pixel == 0 else f", #{4 * pixel - (0 if start else 16)}]"
            code.append(f"ldr.w {tap}, [{T}{place}")
        if 1 in pixels:
            code += [f"sxtb16 {u}, {v}, ror #8", f"sxtb16 {v}, {v}"]
        for tap, pixel in zip((x, y), pixels, strict=True):
            for weights, first in ((v, 0), (u, 4)):
                acc = a[first + pixel]
                code.append(f"smlad {acc}, {tap}, {weights}, {a[first] if start else acc}")
    return code


def four(pixels: int) -> list[str]:
    """Four taps of each pixel."""
    if pixels == 4:
        return [*pair(start=False), *pair(start=False)]
    a, (even, odd, *taps) = REGISTERS[pixels].sums, REGISTERS[pixels].free
    v, size = taps[2 * pixels], 8 * pixels
    code = [f"ldr.w {even}, [{STREAM}], #8", f"ldr.w {odd}, [{STREAM}, #-4]"]
    code.append(f"ldr.w {taps[0]}, [{T}], #{size}")
    code += [f"ldr.w {taps[i]}, [{T}, #{4 * i - size}]" for i in range(1, 2 * pixels)]
    for word, ours in ((even, taps[:pixels]), (odd, taps[pixels : 2 * pixels])):
        for channel, weights, turn in ((0, v, ""), (1, word, ", ror #8")):
            code.append(f"sxtb16 {weights}, {word}{turn}")
            sums = a[pixels * channel :]
            for tap, acc in zip(ours, sums[:pixels], strict=True):
                code.append(f"smlad {acc}, {tap}, {weights}, {acc}")
    return code


def skipped(pixels: int) -> str:
    """C: bytes of the loop in front of where its first turn begins, so that the last one ends with
    the loop; two taps of four pixels are done before."""
    size = INSTRUCTION * len(four(pixels))
    done = f" + {size // 2}U" if pixels == 4 else ""
    return f"((0U - (uint32_t)steps) & {UNROLL - 1}U) * {size}U{done}"


def sums(pixels: int) -> list[str]:
    """The dot product of a block."""
    at, *_, last = REGISTERS[pixels].free
    head = [*pair(start=True)] if pixels == 4 else copies(pixels)
    head += [f"ldr {at}, {ENTRY}"] + ([] if pixels == 4 else [f"ldr {last}, {END}"])
    loop = [line for _ in range(UNROLL) for line in four(pixels)]
    return [*biases(pixels), *head, f"mov pc, {at}", ".p2align 2", "1:", *loop, *until_end(pixels)]


def requantised(pixels: int, channel: int) -> list[str]:
    """A channel's sums to int8: fixed_fast() of targets/portable/tile.py, whose 64-bit sum is
    SMMLAR."""
    m, c, s, *_, t = REGISTERS[pixels].free
    code = [
        f"ldr {m}, " + (f"[{STREAM}, #-16]" if channel else f"[{STREAM}], #24"),
        f"ldr {c}, [{STREAM}, #{8 * channel - 20}]",
        f"ldr {s}, [{STREAM}, #{4 * channel - 8}]",
    ]
    for acc in REGISTERS[pixels].sums[pixels * channel : pixels * (channel + 1)]:
        code += [
            f"add {t}, {c}, {acc}, asr #31",
            f"lsl {acc}, {acc}, #1",
            f"smmlar {acc}, {acc}, {m}, {t}",
            f"asr {acc}, {acc}, {s}",
            f"ssat {acc}, #8, {acc}",
        ]
    return code


def stored(pixels: int) -> list[str]:
    """The bytes of a block, and whether another one follows."""
    a, (last, *_, pitch) = REGISTERS[pixels].sums, REGISTERS[pixels].free
    code = [f"ldr {T}, {OUT}", f"ldr {pitch}, {PITCH}", f"ldr {last}, {LAST}"]
    near, next_, far = f"[{T}]", f"[{T}], #1", f"[{T}, {pitch}, lsl #1]"
    for channel in range(2):
        ours = a[pixels * channel : pixels * (channel + 1)]
        if pixels == 4:
            # The pointer is at the first pixel, then at the second, and back at the first.
            here, there = (0, 1) if channel == 0 else (1, 0)
            code += [f"strb {ours[here + 2]}, {far}", f"strb {ours[here]}, {near}"]
            code.append(f"{'sub' if channel else 'add'} {T}, {T}, {pitch}")
            code += [f"strb {ours[there + 2]}, {far}", f"strb {ours[there]}, {next_}"]
        elif pixels == 2:
            code += [f"strb {ours[1]}, [{T}, {pitch}]", f"strb {ours[0]}, {next_}"]
        else:
            code.append(f"strb {ours[0]}, {next_}")
    return [*code, f"str {T}, {OUT}", f"cmp {T}, {last}", "bne 2b"]


def run(pixels: int) -> list[str]:
    """Blocks up to LAST."""
    entry = ["adr lr, 1f", "add r6, r6, lr"]
    finish = [*requantised(pixels, 0), *requantised(pixels, 1), *stored(pixels)]
    return [*entry, f"push {SAVED}", "2:", *sums(pixels), *finish, f"pop {SAVED}"]


def run_function(pixels: int) -> str:
    head = prototype(
        f"vmcu_run_words_{pixels}",
        "const uint8_t *stream, const vmcu_lane_t *tile, int32_t steps, int8_t *out, "
        "int32_t pitch, int32_t blocks",
    )
    return f"""
/* Blocks of channels of {SEVERAL[pixels]}; returns where the flash stream goes on. */
{head}
{{
	register const uint8_t *w __asm__("r0") = stream;
	register const vmcu_lane_t *t __asm__("r1") = tile;
	register const vmcu_lane_t *end __asm__("r2") = tile + {2 * pixels} * steps;
	register int8_t *o __asm__("r3") = out;
	register int32_t width __asm__("r4") = pitch;
	register int8_t *last __asm__("r5") = out + 2 * blocks;
	register uint32_t entry __asm__("r6") =
		{skipped(pixels)};

	__asm__ volatile(
		{asm(run(pixels))}
		: "+r"(w), "+r"(t), "+r"(end), "+r"(o), "+r"(width), "+r"(last), "+r"(entry)
		:
		: {CLOBBERED});
	return w;
}}
"""


HELPERS = {
    "sums": sums_helper(four, "vmcu_lane_t", 2),
    "runs": "".join(run_function(pixels) for pixels in PIXELS),
}


def run_body(pixels: int) -> str:
    return f"""
if (blocks > 0) {{
	*w = vmcu_run_words_{pixels}(*w, tile, p->steps, *out, pitch, blocks);
	*out += 2 * blocks;
}}
"""
