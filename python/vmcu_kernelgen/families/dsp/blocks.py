# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels in assembly, from bias to store.

A word of weights has two taps of two channels, two words of a pixel's tile have four taps. Loads
stand together as far as registers allow, since each run of them takes one cycle more than it has
loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vmcu_tools.kernels.language.packing import packed_shifts
from vmcu_tools.kernels.targets.portable.shapes import NARROW, WIDE, Shape

from ...assembly import (
    SAVED,
    WORD,
    Function,
    leave,
    note,
    release,
    repeat,
    reserve,
    save,
)
from .. import thumb
from ..thumb import (
    END,
    OUT,
    STREAM,
    Registers,
    T,
    after_turn,
    biases,
    copies,
    separated,
    tile_end,
)

# Fours of taps in a turn of the loop.
UNROLL = {"4x2": 4, "2x4": 4, "2x2": 2, "1x4": 2, "1x2": 1}
INSTRUCTION = 4
# On the stack: END, OUT and the others, then the registers that the function saves, then its
# arguments.
LOCALS = ("r2", "r3", "r4", "r5", "r6")
ABOVE = len(LOCALS) + len(SAVED)
SLOTS = dict(thumb.SLOTS)
SLOTS |= {WORD * (2 + i): name for i, name in enumerate(("LAST", "ENTRY", "TILE"))}
SLOTS |= {
    WORD * (ABOVE + i): name for i, name in enumerate(("CHANNELS", "HALF", "PITCH", "PIXELS"))
}
_, _, LAST, ENTRY, TILE, CHANNELS, HALF, PITCH, PIXELS = (f"[sp, #{at}]" for at in SLOTS)
# The arguments where a layer has one factor.
FACTOR = {WORD * (ABOVE + 1 + i): name for i, name in enumerate(("BIAS", "MULTIPLIER", "SHIFT"))}
# Registers that are free beside eight sums.
OTHERS = Registers.of(Shape(4, True)).free


def smlad(acc: str, tap: str, word: str, start: str = "") -> str:
    """Two taps more. `start`: the addend, if it is not the sum itself."""
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
    """Two taps of four pixels and two channels, which their word has joined; see pair_of()."""
    v, u = OTHERS[:2]
    return pair_of(f"ldr.w {v}, [{STREAM}], #4", [f"sxtb16 {u}, {v}"], start, last)


def pair_of(load: str, widened: Sequence[str], start: bool, last: bool) -> list[str]:
    """Two taps of four pixels and two channels, whose weights `load` loads to v and `widened` has
    in u and v. `start`: only the sums of the first pixel hold their biases, and those of the others
    begin there. `last`: of a turn, so the flags say whether that was the last one."""
    a, (v, u, x, y) = Registers.of(Shape(4, True)).sums, OTHERS
    code = [load]
    for pixels in ((1, 2), (3, 0)) if start else ((0, 1), (2, 3)):
        for tap, pixel in zip((x, y), pixels, strict=True):
            place = "], #16" if pixel == 0 else f", #{4 * pixel - (0 if start else 16)}]"
            code.append(f"ldr.w {tap}, [{T}{place}")
        if 1 in pixels:
            # Where the tile ends is one load more of the run.
            code += [f"ldr.w {u}, {END}", f"cmp.w {T}, {u}"] * last
            code += widened
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


def size_of(code: Sequence[str]) -> int:
    """Bytes of code without 16-bit instructions."""
    return INSTRUCTION * sum(not line.startswith("/*") for line in code)


@dataclass(frozen=True)
class Block:
    """Code for blocks of a shape. `taps`: four of each pixel, so many times in a turn of the loop;
    they are `size` bytes of the tile. head: the first two taps of a block, if all sums begin there
    with those of the first pixel. turn: the loop's body, which compares in the end. nibbles:
    weights have 4 bits, and sums are 16 times theirs. per_tensor: all channels have the factor
    of the arguments, and the stream has none."""

    shape: Shape
    taps: Sequence[str]
    unroll: int
    size: int
    turn: Sequence[str]
    head: Sequence[str] = ()
    nibbles: bool = False
    per_tensor: bool = False

    @property
    def slots(self) -> dict[int, str]:
        """Words on the stack."""
        return SLOTS | FACTOR if self.per_tensor else SLOTS

    def label(self, name: str) -> str:
        return f"<{name}_{self.shape.pixels}>"

    def entry(self) -> list[str]:
        """Computes in R5 the start of the first turn of the loop, so that the last one ends with
        the loop. Half of four taps may have been done before. R5: minus the steps."""
        size, done = (size_of(taps) for taps in (self.taps, self.head))
        if self.unroll == 1:
            return []
        return [
            f"and r5, r5, #{self.unroll - 1}",
            f"movs r6, #{size}",
            "muls r5, r6, r5",
            # An address that PC is loaded with is odd.
            f"adr.w r6, {self.label('turn')} + {done + 1}",
            "add r5, r5, r6",
        ]

    def begin(self) -> list[str]:
        """R4: the channels."""
        return [
            note(
                "Locals. The first turn of the loop begins where the last one ends with the loop."
            ),
            *self.entry(),
            tile_end(self.size),
            *([] if self.per_tensor else ["cmp r4, #1", "sbc r2, r2, #0"]),
            "add r4, r3, r4",
            f"mov r6, {T}",
            f"stm sp, {{{', '.join(LOCALS)}}}",
        ]

    def sums(self) -> list[str]:
        """The dot product of a block."""
        shape, registers = self.shape, Registers.of(self.shape)
        first = registers.sums[:: shape.pixels] if self.nibbles else ()
        head = [f"lsls {acc}, {acc}, #4" for acc in first]
        head += self.head or copies(shape)
        head += [f"ldr {registers.end}, {END}"] if registers.end else []
        head += [f"ldr pc, {ENTRY}", ".p2align 2"] if self.unroll > 1 else []
        return [
            note("Start the sums of a block at their biases, the tile at its first taps."),
            f"{self.label('block')}:",
            *biases(shape),
            f"ldr {T}, {TILE}",
            *head,
            note(f"{4 * self.unroll} taps of each pixel and channel."),
            f"{self.label('turn')}:",
            *self.turn,
            f"blo {self.label('turn')}",
        ]

    def shrunk(self) -> list[str]:
        """Sums that are 16 times theirs to these."""
        return [f"asrs {acc}, {acc}, #4" for acc in Registers.of(self.shape).sums]

    def code(self) -> list[str]:
        """Returns the code from the biases of the first block to the bytes of the last one."""
        if self.per_tensor:
            return [
                *self.begin(),
                *self.sums(),
                *one_factor(self.shape, self.nibbles),
                *stored(self.shape),
                f"bne {self.label('block')}",
            ]
        return [
            *self.begin(),
            *self.sums(),
            f"bne {self.label('words')}",
            *requantised(self.shape, self.nibbles),
            *stored(self.shape),
            f"bne {self.label('block')}",
            "b <end>",
            note("Without channels: separate and store the sums of one block."),
            f"{self.label('words')}:",
            f"ldr {T}, {OUT}",
            *(self.shrunk() if self.nibbles else separated(self.shape)),
            f"stm {T}, {{{', '.join(Registers.of(self.shape).sums)}}}",
        ]


def fixed(
    acc: str, multiplier: str, bias: str, shift: str, scratch: str, bits: int = 0
) -> list[str]:
    """A sum to int8 in its place: fixed_fast() of targets/portable/tile.py, whose 64-bit sum is
    SMMLAR. bits: by which the sum is too far left, as those of second channels are."""
    return [
        f"add {scratch}, {bias}, {acc}, asr #31",
        f"asrs {acc}, {acc}, #{bits - 1}" if bits else f"lsls {acc}, {acc}, #1",
        f"smmlar {acc}, {acc}, {multiplier}, {scratch}",
        f"asrs {acc}, {acc}, {shift}",
        f"ssat {acc}, #8, {acc}, asr #1",
    ]


def requantised(shape: Shape, nibbles: bool = False) -> list[str]:
    """A block's sums, or 16 times these, to int8. All shifts are in one word; its lowest byte is
    the next one."""
    sums, (shifts, half, bias, *others) = Registers.of(shape).sums, Registers.of(shape).free
    count = shape.channels()
    size = 4 * count + packed_shifts(count)
    assert packed_shifts(count) == 4
    # All at once if there are registers for them.
    multipliers = others[:count] if len(others) >= count else others[:1] * count
    loads = [f"ldr {m}, [{STREAM}, #{4 * i - size}]" for i, m in enumerate(multipliers)]
    loads[0] = f"ldr {multipliers[0]}, [{STREAM}], #{size}"
    code = [note("Separate joined channels, then requantise."), *separated(shape)]
    code = [note("Requantise.")] if nibbles else code
    code += [f"ldr {half}, {HALF}", loads[0], f"ldr {shifts}, [{STREAM}, #-4]"]
    together = len(set(multipliers)) == count
    code += loads[1:] if together else []
    for channel, multiplier in enumerate(multipliers):
        if channel > 0:
            code += [] if together else [loads[channel]]
            code.append(f"lsrs {shifts}, {shifts}, #8")
        code.append(f"lsl {bias}, {half}, {shifts}")
        for acc in sums[shape.pixels * channel : shape.pixels * (channel + 1)]:
            bits = 4 if nibbles else 8 * (channel % 2)
            code += fixed(acc, multiplier, bias, shifts, T, bits)
    return code


def one_factor(shape: Shape, nibbles: bool = False) -> list[str]:
    """A block's sums, or 16 times these, to int8 with the factor of the arguments."""
    sums, (multiplier, bias, shift, *_) = Registers.of(shape).sums, Registers.of(shape).free
    code = [note("Requantise.")] + ([] if nibbles else separated(shape))
    loads = zip((multiplier, bias, shift), (PITCH, HALF, PIXELS), strict=True)
    code += [f"ldr {register}, {place}" for register, place in loads]
    for number, acc in enumerate(sums):
        bits = 4 if nibbles else 8 * (number // shape.pixels % 2)
        code += fixed(acc, multiplier, bias, shift, T, bits)
    return code


def stored(shape: Shape) -> list[str]:
    """The bytes of a block, and whether another one follows."""
    a, (last, *_, pitch) = Registers.of(shape).sums, Registers.of(shape).free
    code = [note("Store the bytes; go on with the next block, if any.")]
    code += [f"ldr {T}, {OUT}", f"ldr {last}, {LAST}"]
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
    return [*code, f"str {T}, {OUT}", f"cmp {T}, {last}"]


def run_function(name: str, blocks: Sequence[Block], what: str) -> Function:
    """Whole blocks of as many pixels as the caller says."""
    first, *others = blocks
    code = [
        *save(),
        *reserve(len(LOCALS)),
        f"ldr r4, {CHANNELS}",
        "rsbs r5, r2, #0",
    ]
    if others:
        code += [note("Choose the code by the number of pixels."), f"ldr r6, {PIXELS}"]
        for block in others:
            code += [f"cmp r6, #{block.shape.pixels}", f"beq {block.label('pixels')}"]
    code += first.code()
    for block in others:
        code += ["b <end>", f"{block.label('pixels')}:", *block.code()]
    words = (
        "" if first.per_tensor else ", or, where there are no channels, the sums of one, as words"
    )
    summary = f"Whole blocks of {what}{words}; returns where the flash stream goes on."
    return Function(name, summary, [*code, "<end>:", *release(len(LOCALS)), leave()], first.slots)


def block_of(shape: Shape) -> Block:
    """Returns the block of a tile."""
    taps, unroll, head = four(shape), UNROLL[shape.name], []
    turn = [*repeat(unroll, taps), *after_turn(shape)]
    if shape in PAIRS:
        head, pair = PAIRS[shape](True), PAIRS[shape]
        # The last pair of a turn compares.
        turn = [*repeat(2 * unroll - 1, pair(False)), *pair(False, True)]
    return Block(shape, taps, unroll, 8 * shape.pixels, turn, head)


def run_of(shapes: Mapping[int, Shape], member: str) -> Function:
    blocks = [block_of(shape) for shape in shapes.values()]
    return run_function(f"vmcu_run_of_{member}", blocks, f"a {member} tile")


RUNS = [run_of(WIDE, "wide"), run_of(NARROW, "narrow")]
