# SPDX-License-Identifier: Apache-2.0
"""The sums of a block of channels as functions in assembly, for cores in Thumb state.

Four pixels times two channels take all fourteen registers: eight sums, two pointers, two weights
and two taps. So registers are named here, and what a block needs once is on the stack. R7, which
may be a frame pointer, is no operand of these functions: they keep it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..language.c_source import wrap
from .portable.tile import PIXELS, SEVERAL

STREAM, T = "r0", "r1"
# What is on the stack, in the order in which it is pushed: from R1, R2 and so on.
TILE, END, OUT, PITCH, LAST, ENTRY = (f"[sp, #{4 * i}]" for i in range(6))
CLOBBERED = '"r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory"'


@dataclass(frozen=True)
class Registers:
    """sums: channel by channel, pixel by pixel; the others are free between blocks."""

    sums: tuple[str, ...]
    free: tuple[str, ...]


REGISTERS = {
    4: Registers(("r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9"), ("r10", "r11", "r12", "lr")),
    2: Registers(("r2", "r3", "r4", "r5"), ("r6", "r7", "r8", "r9", "r10", "r11", "r12", "lr")),
    1: Registers(("r2", "r3"), ("r4", "r5", "r6", "r7", "r8", "r12", "lr")),
}


def biases(pixels: int) -> list[str]:
    """Those of the first pixel's sums; the tile starts over."""
    first, second = REGISTERS[pixels].sums[::pixels]
    return [f"ldr {first}, [{STREAM}], #8", f"ldr {second}, [{STREAM}, #-4]", f"ldr {T}, {TILE}"]


def copies(pixels: int) -> list[str]:
    """The same for the other pixels."""
    a = REGISTERS[pixels].sums
    return [f"mov {a[i]}, {a[i - i % pixels]}" for i in range(2 * pixels) if i % pixels]


def until_end(pixels: int) -> list[str]:
    """Back to 1 unless the tile ends here. Of four pixels no register is left for the end."""
    at = REGISTERS[pixels].free[-1]
    head = [f"ldr {at}, {END}"] if pixels == 4 else []
    return [*head, f"cmp {T}, {at}", "bne 1b"]


def block_sums(pixels: int, four: list[str]) -> list[str]:
    """One block's sums, to memory, a word for each. `four`: four taps of each pixel."""
    *_, last = REGISTERS[pixels].free
    ends = [] if pixels == 4 else [f"ldr {last}, {END}"]
    code = ["push {r1, r2, r3, r7}", *biases(pixels), *ends, *copies(pixels)]
    code += [".p2align 2", "1:", *four, *until_end(pixels), f"ldr {T}, {OUT}"]
    kept = ", ".join(REGISTERS[pixels].sums)
    return [*code, f"stm {T}, {{{kept}}}", "pop {r1, r2, r3, r7}"]


def asm(code: list[str]) -> str:
    """The text of a block of assembly."""
    return "\n\t\t".join(f'"{line}\\n\\t"' for line in code)


def prototype(name: str, parameters: str) -> str:
    """The head of a function that returns where the flash stream goes on."""
    head = f"VMCU_APART const uint8_t *{name}({parameters})"
    return "\n".join(wrap(head, "", head.index("(") + 1))


def sums_function(pixels: int, four: list[str], lane: str, lanes: int) -> str:
    """C of a function; `lanes` of type `lane` in a tile are four taps of all pixels."""
    head = prototype(
        f"vmcu_sums_words_{pixels}",
        f"const uint8_t *stream, const {lane} *tile, int32_t steps, int32_t *acc",
    )
    return f"""
/* The sums of a block of {SEVERAL[pixels]}; returns where the flash stream goes on. */
{head}
{{
	register const uint8_t *w __asm__("r0") = stream;
	register const {lane} *t __asm__("r1") = tile;
	register const {lane} *end __asm__("r2") = tile + {lanes} * steps;
	register int32_t *o __asm__("r3") = acc;

	__asm__ volatile(
		{asm(block_sums(pixels, four))}
		: "+r"(w), "+r"(t), "+r"(end), "+r"(o)
		:
		: "r4", "r5", "r6", {CLOBBERED});
	return w;
}}
"""


def sums_body(pixels: int) -> str:
    """C of the instruction."""
    return f"*w = vmcu_sums_words_{pixels}(*w, tile, steps, acc);"


def sums_helper(four: Callable[[int], list[str]], lane: str, lanes: int) -> str:
    """All of them; four taps of a pixel are `lanes` of type `lane`."""
    return "".join(sums_function(n, four(n), lane, lanes * n) for n in PIXELS)
