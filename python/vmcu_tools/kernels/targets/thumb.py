# SPDX-License-Identifier: Apache-2.0
"""The sums of a block of channels as functions in assembly, for cores in Thumb state.

Eight sums, of four pixels times two channels or two times four, take all fourteen registers
together with two pointers, two weights and two taps. So registers are named here, and what a block
needs once is on the stack. R7, which may be a frame pointer, is no operand of these functions: they
keep it themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..language.c_source import wrap
from .portable.blocks import SHAPES, Shape
from .portable.tile import SEVERAL

STREAM, T = "r0", "r1"
# What is on the stack, in the order in which it is pushed: from R1, R2 and so on.
TILE, END, OUT, PITCH, LAST, ENTRY, _, HALF = (f"[sp, #{4 * i}]" for i in range(8))
CLOBBERED = '"r9", "r10", "r11", "r12", "lr", "cc", "memory"'
OTHERS = (*(f"r{number}" for number in range(2, 13)), "lr")


@dataclass(frozen=True)
class Registers:
    """sums: channel by channel, pixel by pixel; the others are free between blocks. `end`: of the
    tile, where a register is left for it."""

    sums: tuple[str, ...]
    free: tuple[str, ...]
    end: str | None

    @staticmethod
    def of(shape: Shape) -> Registers:
        """Those of a block."""
        count = shape.sums()
        return Registers(OTHERS[:count], OTHERS[count:], None if count == 8 else OTHERS[-1])


def biases(shape: Shape) -> list[str]:
    """Those of the first pixel's sums; the tile starts over."""
    size = 4 * shape.channels()
    first, *others = Registers.of(shape).sums[:: shape.pixels]
    code = [f"ldr {first}, [{STREAM}], #{size}"]
    code += [f"ldr {a}, [{STREAM}, #{4 * i - size}]" for i, a in enumerate(others, 1)]
    return [*code, f"ldr {T}, {TILE}"]


def copies(shape: Shape) -> list[str]:
    """The same for the other pixels."""
    a, pixels = Registers.of(shape).sums, shape.pixels
    return [f"mov {a[i]}, {a[i - i % pixels]}" for i in range(len(a)) if i % pixels]


def seconds(shape: Shape) -> list[tuple[str, str]]:
    """The sums of the second of each two joined channels, with those of the first."""
    a, pixels = Registers.of(shape).sums, shape.pixels
    return [(a[i], a[i - pixels]) for i in range(len(a)) if i // pixels % 2]


def after_turn(shape: Shape) -> list[str]:
    """Compares where the tile's next taps are with its end."""
    registers = Registers.of(shape)
    at = registers.end or registers.free[-1]
    head = [] if registers.end else [f"ldr {at}, {END}"]
    return [*head, f"cmp {T}, {at}"]


def block_sums(shape: Shape, four: list[str], size: int) -> list[str]:
    """One block's sums, to memory, a word for each. `four`: four taps of each pixel, which take
    `size` bytes of the tile; two of them make a turn, of which the first may be half."""
    registers = Registers.of(shape)
    ends = [f"ldr {registers.end}, {END}"] if registers.end else []
    # The tile is not needed twice: what else is on the stack is one word further down.
    odd = registers.free[0]
    code = ["push {r2, r3, r7}", f"sub {odd}, r2, {T}", f"tst {odd}, #{size}"]
    code += [*biases(shape)[:-1], *ends, *copies(shape), "bne 2f"]
    code += [".p2align 2", "1:", *four, "2:", *four, *after_turn(shape), "bne 1b"]
    code = [line.replace(END, TILE) for line in code]
    code.append(f"ldr {T}, {END}")
    code += [f"sub {both}, {both}, {first}" for both, first in seconds(shape)]
    code.append(f"stm {T}, {{{', '.join(registers.sums)}}}")
    return [*code, f"ldr r7, {OUT}", "add sp, #12"]


def asm(code: list[str], tabs: int = 2) -> str:
    """The text of a block of assembly, so far in."""
    return ("\n" + "\t" * tabs).join(f'"{line}\\n\\t"' for line in code)


def prototype(name: str, parameters: str) -> str:
    """The head of a function that returns where the flash stream goes on."""
    head = f"VMCU_APART const uint8_t *{name}({parameters})"
    return "\n".join(wrap(head, "", head.index("(") + 1))


def sums_function(shape: Shape, four: list[str], lane: str, lanes: int) -> str:
    """C of a function; `lanes` of type `lane` in a tile are four taps of all pixels."""
    head = prototype(
        f"vmcu_sums_words_{shape.name}",
        f"const uint8_t *stream, const {lane} *tile, int32_t steps, int32_t *acc",
    )
    return f"""
/* The sums of a block of {SEVERAL[shape.pixels]}; returns where the flash stream goes on. */
{head}
{{
	register const uint8_t *w __asm__("r0") = stream;
	register const {lane} *t __asm__("r1") = tile;
	register const {lane} *end __asm__("r2") = tile + {lanes} * steps;
	register int32_t *o __asm__("r3") = acc;

	__asm__ volatile(
		{asm(block_sums(shape, four, lanes))}
		: "+r"(w), "+r"(t), "+r"(end), "+r"(o)
		:
		: "r4", "r5", "r6", "r8", {CLOBBERED});
	return w;
}}
"""


def sums_body(shape: Shape) -> str:
    """C of the instruction."""
    return f"*w = vmcu_sums_words_{shape.name}(*w, tile, steps, acc);"


def sums_helper(four: Callable[[Shape], list[str]], lane: str, lanes: int) -> str:
    """All of them; four taps of a pixel are `lanes` of type `lane`."""
    return "".join(sums_function(s, four(s), lane, lanes * s.pixels) for s in SHAPES)
