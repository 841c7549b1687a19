# SPDX-License-Identifier: Apache-2.0
"""Depthwise strips of 3 x 3 and 5 x 5 taps at a stride of one in assembly, four pixels at a time.

The sums are in R8 to R11. The weights of two rows of three taps or of one of five are in registers.
A word of the tile has two taps of two channels, see targets/portable/depthwise.py: there is
code for the first and for the second one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ...language.assembly import WORD, Function, note, release, reserve
from ...language.packing import PAIRS
from ..portable.depthwise import BIAS, SQUARE_TAPS, channel_bytes
from ..portable.strips import JOB_C, meetings, store_whole_c
from .blocks import HIGH, beyond, byte, constant, leave, multiplier_halves, save, stored

PIXELS = PAIRS.pixels
FIELDS = ("stream", "x", "last", "patch", "plane", "half", "count", "left", "row", "sums")
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
	int32_t row;   /* bytes of the tile for two rows */
	int32_t sums[{PIXELS}];
}};

/*
 * Channels until one that is not for the fast requantiser: its number of the two and one, and its
 * sums, or zero if there is none. `from`: what was returned before, or zero.
 */
int32_t vmcu_square_words_3(struct vmcu_square *square, int32_t from);
int32_t vmcu_square_words_5(struct vmcu_square *square, int32_t from);
"""
# Where all addresses are those of words, none is asked for.
INTERLEAVE = """
/* Words of two taps, see targets/portable/depthwise.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	const uintptr_t any = (uintptr_t)*a | (uintptr_t)*b | (uintptr_t)(pitch_a | pitch_b);

	for (; (any & 3U) == 0U && words > 0; words--, *a += pitch_a, *b += pitch_b) {
		uint32_t x, y;

		__builtin_memcpy(&x, __builtin_assume_aligned(*a, 4), 4);
		__builtin_memcpy(&y, __builtin_assume_aligned(*b, 4), 4);
		*(*u)++ = (x & 0xffffU) | y << 16;
		*(*v)++ = x >> 16 | y >> 16 << 16;
	}
	for (; words > 0; words--, *a += pitch_a, *b += pitch_b) {
		uint32_t x, y;

		vmcu_copy_word(&x, *a);
		vmcu_copy_word(&y, *b);
		*(*u)++ = (x & 0xffffU) | y << 16;
		*(*v)++ = x >> 16 | y >> 16 << 16;
	}
}
"""
# From here on words are those of the last row.
LAST = 1000
LOW, JOB = ("r4", "r5", "r6", "r7"), "[sp, #0]"
# Of the weights of two rows.
WEIGHTS = (*LOW, "r12", "lr")


def products(taps: int) -> dict[int, list[list[tuple[int, int]]]]:
    """By word, first those of the upper rows two at a time, then of the last one, and by tap of a
    word: each pixel that meets it, and the weight's place."""
    met = meetings(PAIRS, taps, 1, 0, LAST, PIXELS)
    words: dict[int, list[list[tuple[int, int]]]] = {}
    for pixel in range(PIXELS):
        for place, word, half in zip(met.bytes, met.words[pixel], met.halves[pixel], strict=True):
            words.setdefault(int(word), [[], []])[int(half)].append((pixel, int(place)))
    return dict(sorted(words.items()))


def passes(taps: int) -> list[tuple[int, list[list[list[tuple[int, int]]]]]]:
    """What is computed at once: the number of two rows, and for each of their words its taps. Of
    windows of 3 x 3 these are both rows, of larger ones one."""
    rows = [
        [met for word, met in products(taps).items() if word // LAST == number]
        for number in range(taps // 2 + 1)
    ]
    found = []
    for number, words in enumerate(rows):
        if taps == SQUARE_TAPS or number == taps // 2:
            found.append((number, words))
        else:
            found.append((number, [[first, []] for first, _ in words]))
            found.append((number, [[[], second] for _, second in words]))
    return found


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


def words(
    rows: Sequence[Sequence[Sequence[tuple[int, int]]]], odd: int, weights: Mapping[int, str]
) -> list[str]:
    code = []
    for first, second in rows:
        code += ["ldm r0!, {r1}"]
        code += byte("r2", "r1", 2 + odd) if second else []
        code += byte("r1", "r1", odd) if first else []
        code += [*multiplied(first, "r1", weights), *multiplied(second, "r2", weights)]
    return code


def sums(taps: int, odd: int) -> list[str]:
    """Of the first or the second channel of a word."""
    start = odd * channel_bytes(taps, 1)
    code = [
        note("The sums at their bias."),
        f"<channel_{odd}>:",
        f"ldr r0, {JOB}",
        f"ldr r1, [r0, #{AT['stream']}]",
        f"ldr r2, [r1, #{start}]",
        f"asrs r2, r2, #{BIAS}",
        *(f"mov {acc}, r2" for acc in HIGH),
    ]
    for count, (number, met) in enumerate(passes(taps)):
        places = sorted({place for word in met for tap in word for _, place in tap})
        # Those above R7 first: they pass through R4.
        used = dict(zip(reversed(places), reversed(WEIGHTS[: len(places)]), strict=True))
        code += [note(f"Rows from {2 * number} on.")]
        code += [f"ldr r0, {JOB}", f"ldr r1, [r0, #{AT['stream']}]"] * (count > 0)
        for at in sorted({place // WORD for place in places}, reverse=True):
            code += [f"ldr r2, [r1, #{start + WORD + WORD * at}]"]
            for place, register in used.items():
                code += weight(register, "r2", place) if place // WORD == at else []
        last = number == taps // 2
        code += [f"ldr r1, [r0, #{AT['row']}]"] * (number > 0 and not last)
        code += [f"ldr r0, [r0, #{AT['last' if last else 'x']}]"]
        code += ["adds r0, r0, r1"] * (0 if last else number)
        code += words(met, odd, used)
    return code


def finish(odd: int, size: int) -> list[str]:
    """The bytes of a channel."""
    code = [
        note("Requantise and store."),
        f"ldr r0, {JOB}",
        f"ldr r3, [r0, #{AT['stream']}]",
        f"ldr r7, [r3, #{odd * size}]",
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
        f"ldr r2, [r3, #{(odd + 1) * size - WORD}]",
        *multiplier_halves(),
        f"ldr r5, [r0, #{AT['half']}]",
        *constant(),
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


def advance(size: int) -> list[str]:
    """To the next two channels."""
    return [
        note("The next two channels."),
        "<next>:",
        f"ldr r0, {JOB}",
        "ldm r0!, {r1, r2, r3, r4, r5}",
        f"adds r1, #{2 * size}",
        "adds r2, r2, r5",
        "adds r3, r3, r5",
        "adds r4, #2",
        f"subs r0, #{AT['plane'] + WORD}",
        "stm r0!, {r1, r2, r3, r4}",
        f"ldr r1, [r0, #{AT['left'] - AT['plane']}]",
        "subs r1, #2",
        f"str r1, [r0, #{AT['left'] - AT['plane']}]",
        "ble <done>",
        "bl <channel_0>",
        "<done>:",
        "movs r0, #0",
        "<end>:",
        *release(1),
        *leave(),
    ]


def square(taps: int) -> Function:
    size = channel_bytes(taps, 1)
    return Function(
        f"vmcu_square_words_{taps}",
        f"Channels of a block of four pixels of {taps} x {taps} taps, from bias to store, see "
        "struct vmcu_square.",
        [
            *save(),
            *reserve(1),
            f"str r0, {JOB}",
            "cmp r1, #1",
            "blo <channel_0>",
            "beq <second>",
            # BL reaches further than B, and LR is free.
            "bl <next>",
            "<second>:",
            "b <channel_1>",
            *sums(taps, 0),
            *finish(0, size),
            *sums(taps, 1),
            *finish(1, size),
            *advance(size),
        ],
        {0: "SQUARE"},
    )


FUNCTIONS = {taps: square(taps) for taps in (3, 5)}


def strip_c(taps: int) -> str:
    size = channel_bytes(taps, 1)
    return f"""
{JOB_C}
struct vmcu_square square;

(void)phase;
square.plane = 4 * plane;
square.half = vmcu_half(p);
square.row = 4 * row;
for (int32_t at = 0; at < wide; at += {PIXELS}, out += {PIXELS} * pitch) {{
	int32_t patch[{PIXELS}];
	int32_t found = 0;

	square.stream = *w;
	square.x = tile + at;
	square.last = tile + {taps // 2} * row + at / 2;
	square.patch = (int8_t *)patch;
	square.count = wide - at;
	square.left = lanes;
	while ((found = vmcu_square_words_{taps}(&square, found)) != 0) {{
		const int32_t *of = (const int32_t *)&square.stream[(found - 1) * {size}];

		vmcu_finish_any(p, square.sums, {PIXELS}, of[0], of[{size // WORD - 1}],
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


STRIPS = {taps: strip_c(taps) for taps in FUNCTIONS}
