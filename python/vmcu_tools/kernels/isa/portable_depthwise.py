# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions in portable C99: the bytes of the tile, one at a time."""

from __future__ import annotations

from .depthwise_instructions import BLOCK, LINE, PAIR, SQUARE_TAPS, line_order, pair_bytes

PRELUDE = r"""
/* Words of two taps, see isa/depthwise_instructions.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	for (; words > 0; words--, (*u)++, (*v)++, *a += pitch_a, *b += pitch_b) {
		__builtin_memcpy(*u, *a, 2);
		__builtin_memcpy((int8_t *)*u + 2, *b, 2);
		__builtin_memcpy(*v, *a + 2, 2);
		__builtin_memcpy((int8_t *)*v + 2, *b + 2, 2);
	}
}
"""


def bias(size: str = "4 + gap") -> str:
    lines = ["const int32_t b = *(const int32_t *)*w;", "", f"*w += {size};"]
    return "\n".join([*lines, *(f"acc[{i}] = b;" for i in range(BLOCK))])


def mac(pixel: int, tap: str, weight: str) -> str:
    return f"acc[{pixel}] = vmcu_mac(acc[{pixel}], {tap}, {weight});"


HEAD = [
    "const int8_t *x = (const int8_t *)tile + 4 * at + odd;",
    "const int8_t *v = (const int8_t *)*w;",
    "",
]


def pairs(places: list[tuple[int, int]]) -> list[str]:
    """Words times pairs of weights, whose bytes are at `places` in the stream."""
    return [
        mac(pixel, f"x[{4 * (number + pixel) + 2 * half}]", f"v[{place}]")
        for number, couple in enumerate(places)
        for half, place in enumerate(couple)
        for pixel in range(BLOCK)
    ]


def row(taps: int, places: list[tuple[int, int]]) -> list[str]:
    """The last row of a window."""
    place: dict[int, int] = {}
    for weights, couple in zip(line_order(taps), places, strict=True):
        place |= dict(zip(weights, couple, strict=True))
    return [
        mac(pixel, f"x[{2 * (tap + pixel)}]", f"v[{place[tap]}]")
        for tap in range(taps)
        for pixel in range(BLOCK)
    ]


def pair(count: int) -> str:
    return "\n".join([*HEAD, *pairs(pair_bytes(count)), f"*w += {2 * count};"])


def line(taps: int) -> str:
    return "\n".join([*HEAD, *row(taps, pair_bytes(taps)), f"*w += {2 * taps};"])


def square() -> str:
    places = pair_bytes(2 * SQUARE_TAPS)
    lines = [bias("4"), *HEAD[:2]]
    lines += pairs(places[:SQUARE_TAPS])
    lines += ["x = (const int8_t *)tile + 4 * last + odd;"]
    lines += row(SQUARE_TAPS, places[SQUARE_TAPS:])
    return "\n".join([*lines, f"*w += {4 * SQUARE_TAPS};"])


def finish() -> str:
    stores = [f"o[{4 * i}] = vmcu_fixed(acc[{i}], c[0], c[1], c[2]);" for i in range(BLOCK)]
    return "\n".join(
        [
            "const int32_t *c = (const int32_t *)*w;",
            "int8_t *o = (int8_t *)patch + channel;",
            "",
            "*w += 12;",
            *finish_any("c[2]"),
            *stores,
        ]
    )


def finish_any(shift: str) -> list[str]:
    """What is not for the fast requantiser, among it channels that do not exist. The accumulators
    go as a copy: their own address must not escape from registers."""
    return [
        f"if (vmcu_is_exact({shift})) {{",
        f"\tconst int32_t sums[] = {{{', '.join(f'acc[{i}]' for i in range(BLOCK))}}};",
        "",
        "\tvmcu_finish_any(p, sums, *w - 12, o);",
        "\treturn;",
        "}",
    ]


STORE_PATCH = """
if (lanes == 4 && wide == 4) {
	__builtin_memcpy(out, &patch[0], 4);
	__builtin_memcpy(out + pitch, &patch[1], 4);
	out += 2 * pitch;
	__builtin_memcpy(out, &patch[2], 4);
	__builtin_memcpy(out + pitch, &patch[3], 4);
	return;
}
vmcu_store_part(patch, out, pitch, wide, lanes);
"""

DOT_TAPS = """
uint32_t sums[4];

__builtin_memcpy(sums, acc, sizeof(sums));
*w = vmcu_tap_row(sums, in, row, pixel, channel, lanes, spread, *w);
__builtin_memcpy(acc, sums, sizeof(sums));
"""

STAGE = """
(void)row;
if (channel == 0) {
	vmcu_band_start(in, call, (uint32_t *)tile, pixel, wide);
}
vmcu_stage_band(in, channel, lanes);
vmcu_tile_done();
"""

BODIES = (
    {"bias_depthwise": bias(), "dot_square": square(), "finish_depthwise": finish()}
    | {made.name: pair(count) for count, made in PAIR.items()}
    | {made.name: line(taps) for taps, made in LINE.items()}
    | {"stage": STAGE, "dot_taps": DOT_TAPS, "store_patch": STORE_PATCH}
)
