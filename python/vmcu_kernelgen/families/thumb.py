# SPDX-License-Identifier: Apache-2.0
"""The sums of a block of channels in assembly, for cores in Thumb state.

Eight sums, of four pixels times two channels or two times four, use all fourteen registers together
with two pointers, two weights and two taps. Values that a block reads once are on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vmcu_tools.kernels.language.packing import WORDS, Packing
from vmcu_tools.kernels.targets.portable.shapes import SHAPES, Shape
from vmcu_tools.kernels.targets.portable.tile import SEVERAL

from ..assembly import WORD, Function, leave, note, push, release, save
from ..c_source import wrap

STREAM, T = "r0", "r1"
# On the stack: the end of the tile, and where the results go.
SLOTS = {0: "END", WORD: "OUT"}
END, OUT = (f"[sp, #{at}]" for at in SLOTS)
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
    """Those of the first pixel's sums."""
    size = 4 * shape.channels()
    first, *others = Registers.of(shape).sums[:: shape.pixels]
    code = [f"ldr {first}, [{STREAM}], #{size}"]
    return [*code, *(f"ldr {a}, [{STREAM}, #{4 * i - size}]" for i, a in enumerate(others, 1))]


def copies(shape: Shape) -> list[str]:
    """The same for the other pixels."""
    a, pixels = Registers.of(shape).sums, shape.pixels
    return [f"mov {a[i]}, {a[i - i % pixels]}" for i in range(len(a)) if i % pixels]


def separated(shape: Shape) -> list[str]:
    """Subtracts the sum of the first of two joined channels from that of both."""
    a, pixels = Registers.of(shape).sums, shape.pixels
    both = [i for i in range(len(a)) if i // pixels % 2]
    return [f"sub {a[i]}, {a[i]}, {a[i - pixels]}" for i in both]


def after_turn(shape: Shape) -> list[str]:
    """Compares where the tile's next taps are with its end."""
    registers = Registers.of(shape)
    at = registers.end or registers.free[-1]
    head = [] if registers.end else [f"ldr {at}, {END}"]
    return [*head, f"cmp {T}, {at}"]


def tile_end(size: int) -> str:
    """Replaces the steps in R2; each is `size` bytes of the tile, a power of two."""
    return f"add r2, {T}, r2, lsl #{size.bit_length() - 1}"


def sums_function(shape: Shape, four: Sequence[str], size: int, packing: Packing) -> Function:
    """The sums of one block; `four`: four taps of each pixel, which are `size` bytes of the tile.
    A turn is eight taps, and the first turn may be half."""
    registers = Registers.of(shape)
    ends = [f"ldr {registers.end}, {END}"] if registers.end else []
    code = [
        note("An odd number of steps: begin in the middle of a turn."),
        *save(),
        "tst r2, #1",
        tile_end(size),
        *push(("r2", "r3")),
        note("Start all sums at their biases."),
        *biases(shape),
        *ends,
        *copies(shape),
        "bne <half>",
        ".p2align 2",
        note("Eight taps of each pixel."),
        "<turn>:",
        *four,
        "<half>:",
        *four,
        *after_turn(shape),
        "bne <turn>",
        note(
            "Separate joined channels and store the sums." if packing.joined else "Store the sums."
        ),
        f"ldr {T}, {OUT}",
        *(separated(shape) if packing.joined else []),
        f"stm {T}, {{{', '.join(registers.sums)}}}",
        *release(2),
        leave(),
    ]
    return Function(
        f"vmcu_sums_words_{shape.name}{packing.suffix}",
        f"The sums of a block of {SEVERAL[shape.pixels]}; returns where the flash stream goes on.",
        code,
        SLOTS,
    )


def sums_functions(
    four: Callable[[Shape], Sequence[str]], size: int, packing: Packing = WORDS
) -> list[Function]:
    """All of them; four taps of a pixel are `size` bytes of the tile."""
    return [sums_function(shape, four(shape), size * shape.pixels, packing) for shape in SHAPES]


def prototypes(functions: Sequence[Function], result: str, parameters: str) -> str:
    """C of their declarations."""
    heads = [f"{result}{one.name}({parameters});" for one in functions]
    return "".join("\n".join(wrap(head, "", head.index("(") + 1)) + "\n" for head in heads)
