# SPDX-License-Identifier: Apache-2.0
"""Depthwise strips in assembly, four pixels of a channel at a time; the sums are in R8 to R11.

A word of the tile has two taps of two channels, see targets/portable/depthwise.py. Of 3 x 3 taps at
a stride of one, six weights are in registers, and there is code for the first and for the second
channel of a word. Of 5 x 5 taps at a stride of one, two rows are a turn of a loop. Other windows
are computed row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vmcu_tools.kernels.language.packing import PAIRS
from vmcu_tools.kernels.targets.portable.depthwise import BIAS, SQUARE_TAPS, TAPS
from vmcu_tools.kernels.targets.portable.strips import meetings

from ...assembly import WORD, Function, note, release, reserve
from .blocks import byte
from .frame import HIGH, leave, save
from .requant import constant, multiplier_halves, stored

PIXELS = PAIRS.pixels
FIELDS = (
    *("stream", "x", "last", "patch", "left", "plane", "half", "count", "size", "taps", "row"),
    *("odd", "even", "sums"),
)
AT = {name: WORD * number for number, name in enumerate(FIELDS)}
# From here on words are those of the last row.
LAST = 1000
LOW = ("r4", "r5", "r6", "r7")
NAMES = ("JOB", "ROW", "NEXT_ROW", "ROWS")
JOB, ROW, NEXT_ROW, ROWS = (f"[sp, #{WORD * at}]" for at in range(len(NAMES)))
# Of the weights of two rows.
WEIGHTS = (*LOW, "r12", "lr")


def field(to: str, name: str, job: str = "r0") -> str:
    return f"ldr {to}, [{job}, #{AT[name]}]"


def products() -> dict[int, list[list[tuple[int, int]]]]:
    """Lists the products of 3 x 3 taps, by word, first those of the upper rows, then of the last
    one, and by tap of a word: each pixel that meets it, and the weight's place."""
    met = meetings(PAIRS, SQUARE_TAPS, 1, 0, LAST, PIXELS)
    words: dict[int, list[list[tuple[int, int]]]] = {}
    for pixel in range(PIXELS):
        for place, word, half in zip(met.bytes, met.words[pixel], met.halves[pixel], strict=True):
            words.setdefault(int(word), [[], []])[int(half)].append((pixel, int(place)))
    return dict(sorted(words.items()))


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


def square(odd: int) -> list[str]:
    """The sums of 3 x 3 taps, of the first or the second channel of a word."""
    code = []
    for number, name in enumerate(("x", "last")):
        met = [both for word, both in products().items() if word // LAST == number]
        places = sorted({place for word in met for tap in word for _, place in tap})
        # Those above R7 first: they pass through R4.
        used = dict(zip(reversed(places), reversed(WEIGHTS[: len(places)]), strict=True))
        code += [note(f"3 x 3 taps, rows from {2 * number} on.")]
        code += [f"<square_{odd}>:"] * (number == 0)
        code += [f"ldr r0, {JOB}", field("r1", "stream")] * (number > 0)
        for at in sorted({place // WORD for place in places}, reverse=True):
            code += [f"ldr r2, [r1, #{WORD + WORD * at}]"]
            for place, register in used.items():
                code += weight(register, "r2", place) if place // WORD == at else []
        code += [field("r0", name), *["subs r0, #1"] * odd, *words(met, odd, used)]
    return code


def windows() -> list[str]:
    """The sums of any window."""
    pixels = ("r4", "r5", "r6")
    return [
        note("Other windows: where rows are, of which the last one is apart."),
        "<window>:",
        "adds r1, #4",
        "subs r3, #1",
        f"str r3, {ROWS}",
        "movs r3, #2",
        f"str r3, {NEXT_ROW}",
        *(f"movs {pixel}, #{WORD * at}" for at, pixel in enumerate(pixels, 1)),
        "<row>:",
        f"str r2, {ROW}",
        field("r7", "odd"),
        field("r3", "even"),
        "cmp r3, r7",
        "bgt <straight_4>",
        "<taps>:",
        "mov r12, r3",
        field("r3", "taps"),
        "adds r3, r3, r1",
        "mov lr, r3",
        "mov r0, r2",
        note("A tap times its weight."),
        "<tap>:",
        "movs r2, #0",
        "ldrsb r2, [r1, r2]",
        "adds r1, #1",
        "movs r3, #0",
        "ldrsb r3, [r0, r3]",
        "muls r3, r2, r3",
        f"add {HIGH[0]}, r3",
        *(
            line
            for acc, pixel in zip(HIGH[1:], pixels, strict=True)
            for line in (f"ldrsb r3, [r0, {pixel}]", "muls r3, r2, r3", f"add {acc}, r3")
        ),
        "adds r0, r0, r7",
        "mov r3, r12",
        "subs r7, r3, r7",
        "cmp r1, lr",
        "bne <tap>",
        note("The next row."),
        "<row_end>:",
        f"ldr r0, {JOB}",
        f"ldr r2, {ROW}",
        f"ldr r3, {NEXT_ROW}",
        "adds r2, r2, r3",
        field("r7", "row"),
        "subs r3, r7, r3",
        f"str r3, {NEXT_ROW}",
        f"ldr r3, {ROWS}",
        "subs r3, #1",
        f"str r3, {ROWS}",
        "bgt <row>",
        "bmi <rows_done>",
        field("r2", "last"),
        field("r3", "even"),
        "movs r7, #2",
        "subs r3, #4",
        "beq <by_two>",
        "b <straight_2>",
        "<by_two>:",
        "movs r3, #4",
        "b <taps>",
        "<rows_done>:",
        "b <finish>",
        *straight(4),
        *straight(2),
    ]


def taps_of(count: int, pitch: int, start: int = 0, weight: int = 0) -> list[str]:
    """Taps of a row at a stride of one from R0 and weights from R1 on. pitch: bytes from a pixel to
    the next; start: the first one's place; weight: the first weight's."""
    ring = LOW
    # R0 moves on before this column: offsets are below 32.
    far = next((c for c in range(count + PIXELS) if start + pitch * c >= 32), count + PIXELS)
    code = []

    def load(column: int) -> list[str]:
        at, byte = start + pitch * (column - (far if column >= far else 0)), ring[column % PIXELS]
        move = [f"adds r0, #{pitch * far}"] * (column == far)
        return [*move, f"ldrb {byte}, [r0, #{at}]", f"sxtb {byte}, {byte}"]

    for column in range(PIXELS - 1):
        code += load(column)
    for tap in range(count):
        code += [*load(tap + PIXELS - 1), f"ldrb r2, [r1, #{weight + tap}]", "sxtb r2, r2"]
        for pixel, acc in enumerate(HIGH):
            byte = ring[(tap + pixel) % PIXELS]
            if pixel < PIXELS - 1:
                code += [f"mov r3, {byte}", "muls r3, r2, r3", f"add {acc}, r3"]
            else:
                code += [f"muls r2, {byte}, r2", f"add {acc}, r2"]
    return code


def straight(pitch: int) -> list[str]:
    """A row of seven taps at a stride of one."""
    largest = TAPS[-1]
    return [
        note(f"A row at a stride of one, pixels {pitch} bytes apart: bytes stay in registers."),
        f"<straight_{pitch}>:",
        "mov r0, r2",
        *taps_of(largest, pitch),
        f"adds r1, #{largest}",
        "b <row_end>",
    ]


def five() -> list[str]:
    """The sums of 5 x 5 taps at a stride of one."""
    taps = TAPS[-2]
    return [
        note("5 x 5 taps: two rows, whose pixels are words, twice."),
        "<five>:",
        f"adds r1, #{WORD}",
        field("r3", "row"),
        "mov r12, r3",
        "lsls r3, r3, #1",
        "adds r3, r3, r2",
        "mov lr, r3",
        "mov r0, r2",
        "<two_rows>:",
        *taps_of(taps, WORD),
        *taps_of(taps, WORD, WORD // 2, taps),
        f"adds r1, #{2 * taps}",
        "add r0, r12",
        "cmp r0, lr",
        "beq <last_row>",
        "b <two_rows>",
        "<last_row>:",
        f"ldr r0, {JOB}",
        field("r0", "last"),
        *taps_of(taps, WORD // 2),
        "b <finish>",
    ]


def finish() -> list[str]:
    """The bytes of a channel."""
    code = [
        note("Requantise and store."),
        "<finish>:",
        f"ldr r0, {JOB}",
        field("r3", "stream"),
        "ldr r7, [r3]",
        "lsls r4, r7, #24",
        "bpl <fast>",
        f"adds r0, #{AT['sums']}",
        *(f"mov {low}, {acc}" for low, acc in zip(LOW, HIGH, strict=True)),
        "stm r0!, {r4, r5, r6, r7}",
        "movs r0, #1",
        "b <end>",
        "<fast>:",
        "lsls r7, r7, #27",
        "lsrs r7, r7, #27",
        field("r2", "size"),
        "adds r3, r3, r2",
        f"subs r3, #{WORD}",
        "ldr r2, [r3]",
        *multiplier_halves(),
        field("r5", "half"),
        *constant(),
        field("r1", "patch"),
    ]
    for pixel, acc in enumerate(HIGH):
        code += [f"mov r4, {acc}", *stored(WORD * pixel)]
        if pixel == 0:
            code += [field("r4", "count"), "cmp r4, #1", "beq <next>"]
    return code


def advance() -> list[str]:
    """To the next channel."""
    return [
        note("The next channel."),
        "<next>:",
        f"ldr r0, {JOB}",
        field("r6", "size"),
        "ldm r0!, {r1, r2, r3, r4, r5}",
        "adds r1, r1, r6",
        "movs r6, #1",
        "lsls r7, r2, #31",
        "beq <moved>",
        "ldr r6, [r0]",
        "<moved>:",
        "adds r2, r2, r6",
        "adds r3, r3, r6",
        "adds r4, #1",
        f"subs r0, #{AT['plane']}",
        "subs r5, #1",
        "stm r0!, {r1, r2, r3, r4, r5}",
        "beq <none>",
        f"subs r0, #{AT['plane']}",
        "b <channel>",
        "<none>:",
        "movs r0, #0",
        "<end>:",
        *release(len(NAMES)),
        *leave(),
    ]


def strip() -> Function:
    return Function(
        "vmcu_strip_words",
        "Channels of a block of four pixels, from bias to store, see struct vmcu_strip_block.",
        [
            *save(),
            *reserve(len(NAMES)),
            f"str r0, {JOB}",
            "cmp r1, #0",
            "bne <resume>",
            "b <first>",
            "<resume>:",
            "b <again>",
            *five(),
            *windows(),
            "<again>:",
            "b <next>",
            note("Windows other than 3 x 3 taps at a stride of one."),
            "<larger>:",
            "bpl <any>",
            "b <five>",
            "<any>:",
            "b <window>",
            "<first>:",
            field("r1", "stream"),
            field("r2", "x"),
            note("A channel: its sums start at the bias."),
            "<channel>:",
            "ldr r4, [r1]",
            f"asrs r4, r4, #{BIAS}",
            *(f"mov {acc}, r4" for acc in HIGH),
            field("r3", "taps"),
            "cmp r3, #0",
            "bne <larger>",
            "lsls r2, r2, #31",
            "beq <square_0>",
            "b <square_1>",
            *square(0),
            "b <finish>",
            *square(1),
            "b <finish>",
            *finish(),
            *advance(),
        ],
        {WORD * at: name for at, name in enumerate(NAMES)},
    )


FUNCTIONS = [strip()]
