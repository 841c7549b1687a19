# SPDX-License-Identifier: Apache-2.0
"""Depthwise strips of 3 x 3 taps at a stride of one in assembly, four pixels at a time.

The sums are in R8 to R11. Of the weights those of two rows are in registers, then those of the last
row. A word of the tile has two taps of two channels, see targets/portable/depthwise.py: there is
code for the first and for the second one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ...language.assembly import WORD, Function, note, release, reserve
from ...language.packing import PAIRS
from ..portable.depthwise import BIAS, SQUARE_TAPS, channel_bytes
from ..portable.strips import JOB_C, meetings, store_whole_c
from .blocks import HIGH, beyond, byte, leave, save, stored

PIXELS, SIZE = PAIRS.pixels, channel_bytes(SQUARE_TAPS, 1)
FIELDS = ("stream", "x", "last", "patch", "plane", "half", "count", "left", "sums")
AT = {name: WORD * number for number, name in enumerate(FIELDS)}
STRUCT = f"""
/* What a block of pixels needs; the function moves it from two channels to the next two. */
struct vmcu_square {{
	const uint8_t *stream;
	const uint32_t *x;    /* the first word of two rows */
	const uint32_t *last; /* and of the last row */
	int8_t *patch;
	int32_t plane; /* bytes of the tile for two channels */
	int32_t half;
	int32_t count; /* pixels that are stored */
	int32_t left;  /* channels, up to an even number */
	int32_t sums[{PIXELS}];
}};

/*
 * Channels until one that is not for the fast requantiser: its number of the two and one, and its
 * sums, or zero if there is none. `from`: what was returned before, or zero.
 */
int32_t vmcu_square_words(struct vmcu_square *square, int32_t from);
"""
# From here on words are those of the last row.
LAST = 1000
LOW, JOB = ("r4", "r5", "r6", "r7"), "[sp, #0]"
# Of the weights of two rows.
WEIGHTS = (*LOW, "r12", "lr")


def products() -> list[list[list[tuple[int, int]]]]:
    """By word, first those of two rows, then of the last one, and by tap of a word: each pixel that
    meets it, and the weight's place."""
    met = meetings(PAIRS, SQUARE_TAPS, 1, 0, LAST, PIXELS)
    words: dict[int, list[list[tuple[int, int]]]] = {}
    for pixel in range(PIXELS):
        for place, word, half in zip(met.bytes, met.words[pixel], met.halves[pixel], strict=True):
            words.setdefault(int(word), [[], []])[int(half)].append((pixel, int(place)))
    return [words[word] for word in sorted(words)]


def weight(to: str, word: str, place: int) -> list[str]:
    """A weight of the word that has it, by way of R4 if it is to be above R7."""
    if to in LOW:
        return byte(to, word, place % WORD)
    return [*byte("r4", word, place % WORD), f"mov {to}, r4"]


def multiplied(taps: Sequence[tuple[int, int]], x: str, weights: Mapping[int, str]) -> list[str]:
    """A tap times its weights; the last product takes the tap's place if that has one below."""
    low = [one for one in taps if weights[one[1]] in LOW]
    last = low[-1] if low else None
    code = []
    for pixel, place in [one for one in taps if one != last]:
        code += [f"mov r3, {weights[place]}", f"muls r3, {x}, r3", f"add {HIGH[pixel]}, r3"]
    if last is not None:
        code += [f"muls {x}, {weights[last[1]]}, {x}", f"add {HIGH[last[0]]}, {x}"]
    return code


def words(rows: Sequence[Sequence], odd: int, weights: Mapping[int, str]) -> list[str]:
    code = []
    for first, second in rows:
        code += ["ldm r0!, {r1}", *byte("r2", "r1", 2 + odd), *byte("r1", "r1", odd)]
        code += [*multiplied(first, "r1", weights), *multiplied(second, "r2", weights)]
    return code


def sums(odd: int) -> list[str]:
    """Of the first or the second channel of a word."""
    met, first = products(), odd * SIZE
    line = len(met) - (PIXELS + SQUARE_TAPS - 1) // 2
    above = dict.fromkeys(place for taps in met[:line] for two in taps for _, place in two)
    below = dict.fromkeys(place for taps in met[line:] for two in taps for _, place in two)
    # Those above R7 first: they pass through R4.
    rows = dict(zip(sorted(above, reverse=True), reversed(WEIGHTS), strict=True))
    last = dict(zip(sorted(below), LOW, strict=False))
    code = [
        note("The sums at their bias, then two rows."),
        f"<channel_{odd}>:",
        f"ldr r0, {JOB}",
        f"ldr r1, [r0, #{AT['stream']}]",
        f"ldr r2, [r1, #{first}]",
        f"asrs r2, r2, #{BIAS}",
        *(f"mov {acc}, r2" for acc in HIGH),
        f"ldr r2, [r1, #{first + WORD}]",
        f"ldr r3, [r1, #{first + 2 * WORD}]",
    ]
    for place, register in rows.items():
        code += weight(register, ("r2", "r3")[place // WORD], place)
    code += [f"ldr r0, [r0, #{AT['x']}]", *words(met[:line], odd, rows)]
    code += [
        note("The last row."),
        f"ldr r0, {JOB}",
        f"ldr r1, [r0, #{AT['stream']}]",
        f"ldr r2, [r1, #{first + 2 * WORD}]",
        f"ldr r3, [r1, #{first + 3 * WORD}]",
    ]
    for place, register in last.items():
        code += weight(register, ("r2", "r3")[place // WORD - 1], place)
    return [*code, f"ldr r0, [r0, #{AT['last']}]", *words(met[line:], odd, last)]


def finish(odd: int) -> list[str]:
    """The bytes of a channel."""
    code = [
        note("Requantise and store."),
        f"ldr r0, {JOB}",
        f"ldr r3, [r0, #{AT['stream']}]",
        f"ldr r7, [r3, #{odd * SIZE}]",
        "lsls r4, r7, #24",
        f"bpl <fast_{odd}>",
        f"adds r0, #{AT['sums']}",
        *(f"mov {low}, {acc}" for low, acc in zip(LOW, HIGH, strict=True)),
        "stm r0!, {r4, r5, r6, r7}",
        f"movs r0, #{odd + 1}",
        "b <end>",
        f"<fast_{odd}>:",
        "lsls r7, r7, #27",
        "lsrs r7, r7, #27",
        f"ldr r2, [r3, #{(odd + 1) * SIZE - WORD}]",
        "lsrs r3, r2, #16",
        "uxth r2, r2",
        f"ldr r5, [r0, #{AT['half']}]",
        "lsls r5, r7",
        "mov r12, r5",
        "adds r7, #1",
        f"ldr r1, [r0, #{AT['patch']}]",
    ]
    first = PIXELS * odd
    for pixel, acc in enumerate(HIGH):
        code += [f"mov r4, {acc}", *stored(first + pixel, WORD * pixel + odd)]
        if pixel == 0:
            code += [f"ldr r4, [r0, #{AT['count']}]", "cmp r4, #1", f"beq <stored_{odd}>"]
        if pixel == 1:
            code += [f"b <others_{odd}>"]
            code += itertools.chain.from_iterable(beyond(first + i) for i in range(PIXELS))
            code += [f"<others_{odd}>:"]
    return [*code, f"<stored_{odd}>:"]


def advance() -> list[str]:
    """To the next two channels."""
    return [
        note("The next two channels."),
        "<next>:",
        f"ldr r0, {JOB}",
        "ldm r0!, {r1, r2, r3, r4, r5}",
        f"adds r1, #{2 * SIZE}",
        "adds r2, r2, r5",
        "adds r3, r3, r5",
        "adds r4, #2",
        f"subs r0, #{AT['plane'] + WORD}",
        "stm r0!, {r1, r2, r3, r4}",
        f"ldr r1, [r0, #{AT['left'] - AT['plane']}]",
        "subs r1, #2",
        f"str r1, [r0, #{AT['left'] - AT['plane']}]",
        "ble <done>",
        "b <channel_0>",
        "<done>:",
        "movs r0, #0",
        "<end>:",
        *release(1),
        *leave(),
    ]


SQUARE = Function(
    "vmcu_square_words",
    "Channels of a block of four pixels of 3 x 3 taps, from bias to store, see struct vmcu_square.",
    [
        *save(),
        *reserve(1),
        f"str r0, {JOB}",
        "cmp r1, #1",
        "blo <channel_0>",
        "beq <second>",
        "b <next>",
        "<second>:",
        "b <channel_1>",
        *sums(0),
        *finish(0),
        *sums(1),
        *finish(1),
        *advance(),
    ],
    {0: "SQUARE"},
)
STRIP = f"""
{JOB_C}
struct vmcu_square square;

(void)phase;
square.plane = 4 * plane;
square.half = vmcu_half(p);
for (int32_t at = 0; at < wide; at += {PIXELS}, out += {PIXELS} * pitch) {{
	int32_t patch[{PIXELS}];
	int32_t found = 0;

	square.stream = *w;
	square.x = tile + at;
	square.last = tile + row + at / 2;
	square.patch = (int8_t *)patch;
	square.count = wide - at;
	square.left = lanes;
	while ((found = vmcu_square_words(&square, found)) != 0) {{
		const int32_t *of = (const int32_t *)&square.stream[(found - 1) * {SIZE}];

		vmcu_finish_any(p, square.sums, {PIXELS}, of[0], of[{SIZE // WORD - 1}],
				square.patch + found - 1);
	}}
	if (lanes == 4 && wide - at >= {PIXELS}) {{
{chr(10).join(f"{chr(9)}{chr(9)}{line}" for line in store_whole_c(PIXELS))}
		continue;
	}}
	vmcu_store_part(patch, out, pitch, vmcu_min({PIXELS}, wide - at), lanes);
}}
*w = square.stream;
"""
