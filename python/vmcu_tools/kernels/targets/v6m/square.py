# SPDX-License-Identifier: Apache-2.0
"""Depthwise strips of 3 x 3 taps at a stride of one in assembly, four pixels at a time.

The sums are in R8 to R11. Of the weights those of two rows are in registers, then those of the last
row. A word of the tile has two taps of two channels, see targets/portable/depthwise.py: there is
code for the first and for the second one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...language.assembly import WORD, Function, note, release, reserve
from ...language.packing import PAIRS
from ..portable.depthwise import BIAS, SQUARE_TAPS, channel_bytes
from ..portable.strips import JOB_C, meetings, store_whole_c
from .blocks import HIGH, beyond, byte, leave, save, stored

PIXELS, SIZE = PAIRS.pixels, channel_bytes(SQUARE_TAPS, 1)
FIELDS = ("stream", "x", "last", "plane", "patch", "n", "left", "half", "count", "sums")
AT = {name: WORD * number for number, name in enumerate(FIELDS)}
STRUCT = f"""
/* What a block of pixels of up to four channels needs; the function moves it from channel to
 * channel. */
struct vmcu_square {{
	const uint8_t *stream;
	const uint32_t *x;    /* the first word of two rows */
	const uint32_t *last; /* and of the last row */
	int32_t plane;	      /* bytes to the next two channels */
	int8_t *patch;
	int32_t n;
	int32_t left; /* channels */
	int32_t half;
	int32_t count; /* pixels that are stored */
	int32_t sums[{PIXELS}];
}};

/*
 * Channels until one that is not for the fast requantiser: true if there is one, whose sums it
 * leaves.
 */
bool vmcu_square_words(struct vmcu_square *square);
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
    met = products()
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
        "ldr r2, [r1]",
        f"asrs r2, r2, #{BIAS}",
        *(f"mov {acc}, r2" for acc in HIGH),
        f"ldr r2, [r1, #{WORD}]",
        f"ldr r3, [r1, #{2 * WORD}]",
    ]
    for place, register in rows.items():
        code += weight(register, ("r2", "r3")[place // WORD], place)
    code += [f"ldr r0, [r0, #{AT['x']}]", *words(met[:line], odd, rows)]
    code += [
        note("The last row."),
        f"ldr r0, {JOB}",
        f"ldr r1, [r0, #{AT['stream']}]",
        f"ldr r2, [r1, #{2 * WORD}]",
        f"ldr r3, [r1, #{3 * WORD}]",
    ]
    for place, register in last.items():
        code += weight(register, ("r2", "r3")[place // WORD - 1], place)
    return [*code, f"ldr r0, [r0, #{AT['last']}]", *words(met[line:], odd, last)]


def finish() -> list[str]:
    code = [
        note("Move to the next channel."),
        "<sums>:",
        f"ldr r0, {JOB}",
        f"ldr r3, [r0, #{AT['stream']}]",
        "movs r4, r3",
        f"adds r4, #{SIZE}",
        f"str r4, [r0, #{AT['stream']}]",
        f"ldr r1, [r0, #{AT['patch']}]",
        "adds r4, r1, #1",
        f"str r4, [r0, #{AT['patch']}]",
        f"ldr r4, [r0, #{AT['left']}]",
        "subs r4, #1",
        f"str r4, [r0, #{AT['left']}]",
        f"ldr r4, [r0, #{AT['n']}]",
        "adds r4, #1",
        f"str r4, [r0, #{AT['n']}]",
        "lsls r4, r4, #31",
        "bne <same>",
        f"ldr r4, [r0, #{AT['plane']}]",
    ]
    for name in ("x", "last"):
        code += [f"ldr r5, [r0, #{AT[name]}]", "adds r5, r5, r4", f"str r5, [r0, #{AT[name]}]"]
    code += [
        "<same>:",
        "ldr r7, [r3]",
        "lsls r4, r7, #24",
        "bpl <fast>",
        note("The sums of a channel that is not for the fast requantiser."),
        f"adds r0, #{AT['sums']}",
        *(f"mov {low}, {acc}" for low, acc in zip(LOW, HIGH, strict=True)),
        "stm r0!, {r4, r5, r6, r7}",
        "movs r0, #1",
        "b <end>",
        note("Requantise and store."),
        "<fast>:",
        "uxtb r7, r7",
        f"ldr r2, [r3, #{SIZE - WORD}]",
        "lsrs r3, r2, #16",
        "uxth r2, r2",
        f"ldr r5, [r0, #{AT['half']}]",
        "lsls r5, r7",
        "mov r12, r5",
        "adds r7, #1",
    ]
    for pixel, acc in enumerate(HIGH):
        code += [f"mov r4, {acc}", *stored(pixel, WORD * pixel)]
        if pixel == 0:
            code += [f"ldr r4, [r0, #{AT['count']}]", "cmp r4, #1", "beq <next>"]
            code += ["b <others>", *beyond(0), *beyond(1), "<others>:"]
    return [
        *code,
        "<next>:",
        f"ldr r4, [r0, #{AT['left']}]",
        "cmp r4, #0",
        "beq <done>",
        f"ldr r4, [r0, #{AT['n']}]",
        "lsls r4, r4, #31",
        "beq <even>",
        "b <channel_1>",
        "<even>:",
        "b <channel_0>",
        "<done>:",
        "movs r0, #0",
        "b <end>",
        *beyond(2),
        *beyond(3),
        "<end>:",
        *release(1),
        *leave(),
    ]


SQUARE = Function(
    "vmcu_square_words",
    "Channels of a block of four pixels of 3 x 3 taps, from bias to store, until one that is not "
    "for the fast requantiser: true if there is one, whose sums it leaves.",
    [*save(), *reserve(1), f"str r0, {JOB}", "b <next>", *sums(0), "b <sums>", *sums(1), *finish()],
    {0: "SQUARE"},
)
STRIP = f"""
{JOB_C}
const uint8_t *s = *w;

(void)phase;
for (int32_t at = 0; at < wide; at += {PIXELS}, out += {PIXELS} * pitch) {{
	int32_t patch[{PIXELS}];
	struct vmcu_square square = {{
		.stream = s,
		.x = tile + at,
		.last = tile + row + at / 2,
		.plane = 4 * plane,
		.patch = (int8_t *)patch,
		.left = lanes,
		.half = vmcu_half(p),
		.count = vmcu_min({PIXELS}, wide - at),
	}};

	while (vmcu_square_words(&square)) {{
		const int32_t *of = (const int32_t *)(square.stream - {SIZE});

		vmcu_finish_any(p, square.sums, {PIXELS}, of[0], of[{SIZE // WORD - 1}],
				square.patch - 1);
	}}
	*w = square.stream;
	if (lanes == 4 && wide - at >= {PIXELS}) {{
{chr(10).join(f"{chr(9)}{chr(9)}{line}" for line in store_whole_c(PIXELS))}
		continue;
	}}
	vmcu_store_part(patch, out, pitch, vmcu_min({PIXELS}, wide - at), lanes);
}}
*w += (lanes & 1) * {SIZE};
"""
