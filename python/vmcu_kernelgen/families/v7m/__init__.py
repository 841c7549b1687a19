# SPDX-License-Identifier: Apache-2.0
"""ARMv7-M and ARMv8-M without the DSP extension: the portable tile, read by assembly.

A product of two pixels and two channels takes two loads of each and four MLA a tap, nothing else:
compilers move registers around and advance the pointers one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from vmcu_tools.kernels.language.packing import NIBBLES, WORDS
from vmcu_tools.kernels.language.target import Target
from vmcu_tools.kernels.targets.families import V7M as TARGET
from vmcu_tools.kernels.targets.portable.blocks import SUMS
from vmcu_tools.kernels.targets.portable.shapes import Shape

from ...family import Family, int4_of
from ..thumb import STREAM, Registers, T, prototypes, sums_functions

Four = Callable[[Shape], list[str]]


def four(shape: Shape) -> list[str]:
    """Four taps of each pixel. Both pointers advance with their first load, the others look
    back. As many weights and taps are loaded together as registers allow."""
    registers, channels = Registers.of(shape), shape.channels()
    a, free = registers.sums, registers.free
    places = {place: at for at, place in enumerate(WORDS.weave(channels, WORDS.lanes))}
    pixels, code = shape.pixels, []
    for tap in range(WORDS.lanes):
        held: dict[int, str] = {}
        for first in range(0, channels, 2):
            weights = list(zip((first, first + 1), free[:2], strict=True))
            # The second of two joined channels has the first one's byte in its half of a word.
            at = places[first, tap]
            code += [load(v, STREAM, at, len(places), "bh"[n % 2]) for n, v in weights]
            for begin in range(0, pixels, 2):
                taps = list(zip(range(begin, min(begin + 2, pixels)), free[2:4], strict=False))
                if held != dict(taps):
                    at = WORDS.lanes * begin + tap
                    code += [
                        load(x, T, at + WORDS.lanes * i, WORDS.lanes * pixels)
                        for i, (_, x) in enumerate(taps)
                    ]
                    held = dict(taps)
                for n, v in weights:
                    for pixel, x in taps:
                        acc = a[pixels * n + pixel]
                        code.append(f"mla {acc}, {x}, {v}, {acc}")
    return code


def load(register: str, pointer: str, at: int, size: int, kind: str = "b") -> str:
    """A byte, or a half of a word, of the next `size` bytes."""
    moves = at == 0 and kind == "b"
    place = f"], #{size}" if moves else f", #{at - size}]"
    return f"ldrs{kind} {register}, [{pointer}{place}"


def four_of_nibbles(shape: Shape) -> list[str]:
    """The same where a word has four taps of two channels of 4 bits. It stays in a register, which
    leaves one for taps."""
    registers, channels = Registers.of(shape), shape.channels()
    a, (word, *weights, x) = registers.sums, registers.free[:4]
    pixels, places = shape.pixels, NIBBLES.weave(channels, NIBBLES.lanes)
    code = []
    for first in range(0, channels, 2):
        code.append(f"ldr {word}, [{STREAM}], #4")
        for tap in range(NIBBLES.lanes):
            for n, weight in zip((first, first + 1), weights, strict=True):
                byte, bit = upper_first(places.index((n, tap)), len(places) // 2)
                code.append(f"sbfx {weight}, {word}, #{8 * (byte % 4) + bit}, #4")
            for pixel in range(pixels):
                code.append(f"ldrsb {x}, [{T}, #{NIBBLES.lanes * pixel + tap}]")
                for n, weight in zip((first, first + 1), weights, strict=True):
                    acc = a[pixels * n + pixel]
                    code.append(f"mla {acc}, {x}, {weight}, {acc}")
    return [*code, f"add {T}, {T}, #{NIBBLES.lanes * pixels}"]


def upper_first(place: int, half: int) -> tuple[int, int]:
    """The byte, and the bit of it, at which one of twice `half` weights of 4 bits begins."""
    return place % half, 4 if place < half else 0


def summed(target: Target, code: Four) -> Family:
    """Returns the family of a packing whose blocks add up four taps by `code`."""
    packing = target.packing
    functions = sums_functions(code, packing.lanes, packing)
    declared = prototypes(
        functions,
        "const uint8_t *",
        "const uint8_t *stream, const int8_t *tile, int32_t steps, int32_t *acc",
    )
    return Family(
        target,
        {
            made: f"*w = vmcu_sums_words_{shape.name}{packing.suffix}(*w, tile, steps, acc);"
            for shape, made in SUMS.items()
        },
        {"sums": f"/* The sums of a block; return where the flash stream goes on. */\n{declared}"},
        {"blocks": functions},
    )


V7M, INT4 = summed(TARGET, four), summed(int4_of(TARGET), four_of_nibbles)
