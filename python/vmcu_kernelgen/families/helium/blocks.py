# SPDX-License-Identifier: Apache-2.0
"""Blocks of four output channels with MVE.

VMLADAVA adds sixteen products to a register with an even number. Four pixels times two channels
use all eight of them, so a block of four pixels reads its taps twice. Then a vector has four
channels of a pixel, and all of their constants are vectors.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from vmcu_tools.kernels.targets.portable.blocks_all import BLOCKS_NARROW, BLOCKS_WIDE

from ...assembly import SAVED, WORD, Function, leave, note, push, release, save
from ..thumb import prototypes

CHANNELS = 4
EVEN = (*(f"r{number}" for number in range(0, 13, 2)), "lr")
TILE, STREAM, OUT, BIAS, COUNT, PITCH = "r1", "r3", "r5", "r7", "r9", "r11"
VECTORS = ["vpush {d8-d15}", ".cfi_adjust_cfa_offset 64"]
NO_VECTORS = ["vpop {d8-d15}", ".cfi_adjust_cfa_offset -64"]
# On the stack: where four pixels go on; three arguments; vectors and registers of the caller; the
# other arguments.
LOCALS = ("r0", TILE, "r2", OUT)
ABOVE = WORD * (len(LOCALS) + len(SAVED)) + 64
SLOTS = {WORD * i: name for i, name in enumerate(("NEXT", "TILE", "STEPS", "END"))}
SLOTS |= {ABOVE + WORD * i: name for i, name in enumerate(("LEFT", "HALF", "PITCH", "PIXELS"))}
NEXT, TILE_AT, STEPS, END, LEFT, HALF, PITCH_AT, PIXELS = (f"[sp, #{at}]" for at in SLOTS)


@dataclass(frozen=True)
class Weights:
    """The format of sixteen taps of a block's channels in a stream: 64 bytes, or 32 if they have 4
    bits. Then channels 0 and 2 are the upper and lower halves of a vector, 1 and 3 those of the
    next."""

    nibbles: bool = False

    @property
    def size(self) -> int:
        """Bytes of sixteen taps."""
        return 32 if self.nibbles else 64

    @property
    def channels(self) -> tuple[int, ...]:
        """All of a block, as they are loaded two by two."""
        return (0, 2, 1, 3) if self.nibbles else (0, 1, 2, 3)

    def at(self, channel: int) -> int:
        """Returns the offset of a channel's vector."""
        return 16 * (channel % 2 if self.nibbles else channel)

    def load(self, pair: tuple[int, ...], load: Callable[[str, int], str]) -> list[str]:
        """Sixteen taps of two channels to Q4 and Q5. load: an instruction for a register and the
        place of a vector."""
        if not self.nibbles:
            return [load(f"q{4 + i}", self.at(channel)) for i, channel in enumerate(pair)]
        return [load("q5", self.at(pair[0])), *halves("q4", "q5")]


def halves(upper: str, lower: str) -> list[str]:
    """The upper halves of bytes in `lower` to `upper`, then the lower ones, both as int8."""
    return [
        f"vshr.s8 {upper}, {lower}, #4",
        f"vshl.i8 {lower}, {lower}, #4",
        f"vshr.s8 {lower}, {lower}, #4",
    ]


def vector(q: str, pointer: str, at: int, size: int) -> str:
    """Loads sixteen of the next `size` bytes; the first of these loads moves the pointer."""
    place = f"], #{size}" if at == 0 else f", #{at - size}]"
    return f"vldrb.8 {q}, [{pointer}{place}"


def products(of: Weights, pixels: int, channels: tuple[int, ...], start: bool) -> list[str]:
    """Sixteen taps of each pixel times those of some channels, of which the first ones stand where
    the stream does; into EVEN, pixel by pixel."""

    def load(q: str, at: int) -> str:
        return vector(q, STREAM, at - of.at(channels[0]), of.size)

    mnemonic = "vmladav.s8" if start else "vmladava.s8"
    taps, code = ("q6", "q7"), []
    for first in range(0, len(channels), 2):
        # Two vectors of weights at a time; taps of two pixels stay for the next two.
        pair = channels[first : first + 2]
        code += of.load(pair, load)
        for pixel in range(pixels):
            x = taps[pixel % 2]
            if first == 0 or pixels > 2:
                code.append(vector(x, TILE, 16 * pixel, 16 * pixels))
            for i in range(len(pair)):
                acc = EVEN[pixel * len(channels) + first + i]
                code.append(f"{mnemonic} {acc}, q{4 + i}, {x}")
    return code


def sums(of: Weights, pixels: int, channels: tuple[int, ...], name: str) -> list[str]:
    """All taps; the sums of every two channels are lanes n and n + 2 of Q0, Q1 ... by pixel."""
    code = [f"ldr {TILE}, {TILE_AT}", f"ldr {COUNT}, {STEPS}", f"subs {COUNT}, #1"]
    code += products(of, pixels, channels, True)
    code += [f"beq <{name}_done>", f"<{name}>:", *products(of, pixels, channels, False)]
    code += [f"subs {COUNT}, #1", f"bne <{name}>", f"<{name}_done>:"]
    return code + lanes(pixels, channels)


def few_steps(of: Weights, steps: int) -> list[str]:
    """The sums, without biases, of a block of four pixels with so few steps that no pointer needs
    to move."""
    code: list[str] = []
    held: dict[str, tuple[int, int]] = {}
    pixels = 4
    for channels in ((0, 2), (1, 3)):
        turns = [(step, pixel) for step in range(steps) for pixel in range(pixels)]
        # The second time, the last taps are there already.
        turns = sorted(turns, key=lambda turn: (turn not in held.values(), turn))
        weights, begun = None, set()
        for step, pixel in turns:
            if step != weights:
                weights, base = step, 16 + of.size * step
                code += of.load(channels, functools.partial(loaded, base))
            x = f"q{6 + pixel % 2}"
            if held.get(x) != (step, pixel):
                code.append(f"vldrw.32 {x}, [{TILE}, #{16 * (pixels * step + pixel)}]")
                held[x] = step, pixel
            mnemonic = "vmladava.s8" if pixel in begun else "vmladav.s8"
            begun.add(pixel)
            for i in range(2):
                code.append(f"{mnemonic} {EVEN[2 * pixel + i]}, q{4 + i}, {x}")
        code += lanes(pixels, channels)
    return code


def loaded(base: int, q: str, at: int) -> str:
    """Loads a vector of the stream, which does not move."""
    return f"vldrw.32 {q}, [{STREAM}, #{base + at}]"


def lanes(pixels: int, channels: tuple[int, ...]) -> list[str]:
    """Moves sums to vectors."""
    code = []
    for pixel in range(pixels):
        held = EVEN[pixel * len(channels) : (pixel + 1) * len(channels)]
        of = dict(zip(channels, held, strict=True))
        for lane in sorted(channels)[: len(channels) // 2]:
            pair = f"{of[lane]}, {of[lane + 2]}"
            code.append(f"vmov q{pixel}[{lane + 2}], q{pixel}[{lane}], {pair}")
    return code


def biased(pointer: str, pixels: int) -> list[str]:
    """Adds the biases to the sums."""
    code = [f"vldrw.32 q4, [{pointer}]"]
    return code + [f"vadd.i32 q{pixel}, q{pixel}, q4" for pixel in range(pixels)]


def constants(at: int = 0) -> list[str]:
    """Multipliers in Q5, shifts to the left in Q6. at: where the stream has them."""
    multipliers = f"[{STREAM}, #{at}]!" if at else f"[{STREAM}]"
    return [
        f"vldrw.32 q5, {multipliers}",
        f"vldrb.u32 q6, [{STREAM}, #16]",
        f"adds {STREAM}, #20",
        "vmvn q6, q6",
    ]


def scaled(q: str, product: str, factors: str, one: str) -> list[str]:
    """Multiplies the sums in `q` by `factors`, minus one where a sum is negative: the upper half of
    twice the sum is -1 there, else 0. `one`: a register with 1."""
    return [f"vqrdmulh.s32 {product}, {q}, {factors}", f"vqdmlah.s32 {product}, {q}, {one}"]


def requantised(pixels: int, one: str) -> list[str]:
    """fixed_fast() of targets/portable/tile.py, without its zero point. `one`: see scaled()."""
    code = []
    for q in (f"q{pixel}" for pixel in range(pixels)):
        code += [*scaled(q, "q7", "q5", one), f"vrshl.s32 {q}, q7, q6"]
    return code


def narrowed(pixels: int, zero: str) -> list[str]:
    """Adds the zero point; the bytes of even pixels are the lowest of each lane of Q0, Q2 ...,
    those of odd ones 16 bits higher."""
    code = []
    for pixel in range(0, pixels, 2):
        q = f"q{pixel}"
        code.append(f"vqmovnb.s32 {q}, {q}")
        code += [f"vqmovnt.s32 {q}, q{pixel + 1}"] * (pixel + 1 < pixels)
        code += [f"vqadd.s16 {q}, {q}, {zero}", f"vqmovnb.s16 {q}, {q}"]
    return code


def stored(pixels: int) -> list[str]:
    """Stores the bytes of a block; moves OUT to the next one."""
    pointers = (OUT, "r0", "r2", "r4")[:pixels]
    code = [f"add {b}, {a}, {PITCH}" for a, b in itertools.pairwise(pointers)]
    for pixel, pointer in enumerate(pointers):
        q = f"q{pixel - pixel % 2}"
        code += [f"vshr.u32 {q}, {q}, #16"] * (pixel % 2)
        code.append(f"vstrb.32 {q}, [{pointer}]" + ", #4" * (pixel == 0))
    return code


def as_words(pixels: int) -> list[str]:
    """Stores the sums of a block, channel by channel, and returns."""
    code = [f"mov r1, {OUT}"]
    if pixels == 1:
        code.append("vstrw.32 q0, [r1]")
    else:
        code += ["movs r0, #0", f"vidup.u32 q4, r0, #{pixels}"]
    for pixel in range(pixels if pixels > 1 else 0):
        code += ["adds r1, #4"] * (pixel > 0)
        code.append(f"vstrw.32 q{pixel}, [r1, q4, uxtw #2]")
    return code


def block(of: Weights, pixels: int) -> list[str]:
    """All blocks of a tile."""
    code = [
        note(f"A block of {pixels} pixels." if pixels > 1 else "A block of one pixel."),
        f"<of_{pixels}>:",
        f"mov {BIAS}, {STREAM}",
        f"adds {STREAM}, #16",
    ]
    if pixels == 4:
        code += sums(of, pixels, (0, 2), "first")
        code += [f"add.w {STREAM}, {BIAS}, #32"]
        code += sums(of, pixels, (1, 3), "second")
        code += [f"subs {STREAM}, #16"]
    else:
        code += sums(of, pixels, of.channels, f"turn_{pixels}")
    code += biased(BIAS, pixels)
    code += [f"ldr {COUNT}, {END}", f"cmp {OUT}, {COUNT}", f"beq <words_{pixels}>"]
    code += [*constants(), "movs r0, #1", *requantised(pixels, "r0"), f"ldr {BIAS}, {HALF}"]
    code += [*narrowed(pixels, BIAS), *stored(pixels), f"cmp {OUT}, {COUNT}"]
    code += [f"blo.w <of_{pixels}>", "b <done>", f"<words_{pixels}>:", *as_words(pixels)]
    return code if pixels == 1 else [*code, "b <done>"]


def of_few_steps(of: Weights, steps: int) -> list[str]:
    """All blocks of four pixels with so few steps. COUNT has the channels, BIAS the zero point."""
    name = f"steps_{steps}"
    return [
        note(f"Four pixels, {steps} step{'s' * (steps > 1)}."),
        f"<{name}>:",
        *few_steps(of, steps),
        *biased(STREAM, 4),
        *constants(16 + of.size * steps),
        "movs r0, #1",
        *requantised(4, "r0"),
        *narrowed(4, BIAS),
        *stored(4),
        f"subs {COUNT}, #{CHANNELS}",
        f"bne.w <{name}>",
        "b.w <done>",
    ]


def run(name: str, of: Weights) -> Function:
    code = [
        *save(),
        *VECTORS,
        f"mov {OUT}, r3",
        *push(LOCALS),
        f"mov {STREAM}, r0",
        f"ldr {COUNT}, {LEFT}",
        f"ldr {BIAS}, {HALF}",
        f"asrs {BIAS}, #1",
        f"ldr {PITCH}, {PITCH_AT}",
        f"ldr r0, {PIXELS}",
        "cmp r0, #4",
        "bne.w <any>",
        f"cmp {COUNT}, #0",
        "beq.w <any>",
        "cmp r2, #2",
        "beq.w <steps_2>",
        "bhi.w <any>",
        *of_few_steps(of, 1),
        *of_few_steps(of, 2),
        note("The end of the output, and the zero point."),
        "<any>:",
        f"add {COUNT}, {OUT}",
        f"str {COUNT}, {END}",
        f"str {BIAS}, {HALF}",
        "cmp r0, #2",
        "beq.w <of_2>",
        "bls.w <of_1>",
        *block(of, 4),
        *block(of, 2),
        *block(of, 1),
        "<done>:",
        f"mov r0, {STREAM}",
        *release(len(LOCALS)),
        *NO_VECTORS,
        leave(),
    ]
    return Function(
        name,
        "Blocks of four channels of the pixels of a tile, from bias to store; asked for none, the "
        "sums of a block, as words. Returns where the flash stream goes on.",
        code,
        SLOTS,
    )


RUN = "vmcu_run_of_vectors"
FUNCTIONS = [run(RUN, Weights())]
PARAMETERS = (
    "const uint8_t *stream, const int8_t *{}, int32_t {}, int8_t *out, int32_t channels, "
    "int32_t half"
)


def run_helpers(functions: list[Function], origin: str) -> dict[str, str]:
    """C that declares the functions for blocks of a tile, and their callers."""
    parameters = PARAMETERS.format("tile", "steps") + ", int32_t pitch, int32_t pixels"
    declared = prototypes(functions, "const uint8_t *", parameters)
    return {
        "run_of": f"""
#define VMCU_BLOCK_SUMS 16

/* {RUN}(). */
typedef const uint8_t *vmcu_run_of(const uint8_t *stream, const vmcu_lane_t *tile, int32_t steps,
				   int8_t *out, int32_t channels, int32_t half, int32_t pitch,
				   int32_t pixels);

/* In {origin}. */
{declared}
/* Whether all blocks are whole and fast ones, as in most layers, by the stream's first word. */
VMCU_INLINE bool vmcu_are_fast_fours(uint32_t counts)
{{
	return !vmcu_requant_is_float(false) && (counts >> 16) == 4U << 12;
}}

VMCU_CALLED const uint8_t *vmcu_blocks(const struct vmcu_mac_params *p, const vmcu_lane_t *tile,
				      const uint8_t *w, int8_t *out, int32_t pitch, int32_t size,
				      int32_t pixels, vmcu_run_of *run);
"""
    }


HELPERS = run_helpers(FUNCTIONS, "blocks_helium.S")
BLOCKS = """
const uint32_t counts = *(const uint32_t *)*w;

if (vmcu_are_fast_fours(counts)) {
	*w = vmcu_run_of_vectors(*w + sizeof(counts), tile, p->steps, out,
				 (int32_t)((counts & 0xffffU) * 4U), vmcu_half(p), pitch,
				 pixels);
} else {
	*w = vmcu_blocks(p, tile, *w, out, pitch, 4, pixels, vmcu_run_of_vectors);
}
"""
OWN = {BLOCKS_WIDE: BLOCKS, BLOCKS_NARROW: BLOCKS}
