# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions in portable C99: the bytes of the tile, one at a time."""

from __future__ import annotations

from .depthwise_instructions import (
    BIAS,
    LINE,
    PAIR,
    SQUARE,
    SQUARE_TAPS,
    STORE,
    line_order,
    pair_bytes,
)

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


def bias(pixels: int, size: str = "4 + gap") -> str:
    lines = ["const int32_t b = *(const int32_t *)*w;", "", f"*w += {size};"]
    return "\n".join([*lines, *(f"acc[{i}] = b;" for i in range(pixels))])


def mac(pixel: int, tap: str, weight: str) -> str:
    return f"acc[{pixel}] = vmcu_mac(acc[{pixel}], {tap}, {weight});"


HEAD = [
    "const int8_t *x = (const int8_t *)tile + 4 * at + odd;",
    "const int8_t *v = (const int8_t *)*w;",
    "",
]


def pairs(places: list[tuple[int, int]], pixels: int) -> list[str]:
    """Words times pairs of weights, whose bytes are at `places` in the stream."""
    return [
        mac(pixel, f"x[{4 * (number + pixel) + 2 * half}]", f"v[{place}]")
        for number, couple in enumerate(places)
        for half, place in enumerate(couple)
        for pixel in range(pixels)
    ]


def row(taps: int, places: list[tuple[int, int]], pixels: int) -> list[str]:
    """The last row of a window."""
    place: dict[int, int] = {}
    for weights, couple in zip(line_order(taps), places, strict=True):
        place |= dict(zip(weights, couple, strict=True))
    return [
        mac(pixel, f"x[{2 * (tap + pixel)}]", f"v[{place[tap]}]")
        for tap in range(taps)
        for pixel in range(pixels)
    ]


def pair(count: int, pixels: int) -> str:
    return "\n".join([*HEAD, *pairs(pair_bytes(count), pixels), f"*w += {2 * count};"])


def line(taps: int, pixels: int) -> str:
    return "\n".join([*HEAD, *row(taps, pair_bytes(taps), pixels), f"*w += {2 * taps};"])


def square(pixels: int) -> str:
    places = pair_bytes(2 * SQUARE_TAPS)
    lines = [bias(pixels, "4"), *HEAD[:2]]
    lines += pairs(places[:SQUARE_TAPS], pixels)
    lines += ["x = (const int8_t *)tile + 4 * last + odd;"]
    lines += row(SQUARE_TAPS, places[SQUARE_TAPS:], pixels)
    return "\n".join([*lines, f"*w += {4 * SQUARE_TAPS};"])


def store(pixels: int) -> str:
    places = ["o[0]", "o[pitch]", *(f"o[{i} * pitch]" for i in range(2, pixels))]
    values = [f"vmcu_fixed(acc[{i}], c[0], c[1], c[2]);" for i in range(pixels)]
    stores = [f"{place} = {value}" for place, value in zip(places, values, strict=False)]
    return "\n".join(
        [
            "const int32_t *c = (const int32_t *)*w;",
            "int8_t *o = *out;",
            "",
            "*w += 12;",
            "*out = o + 1;",
            *store_any(pixels, "c[2]"),
            *stores,
            *["(void)pitch;"] * (pixels == 1),
        ]
    )


def store_any(pixels: int, shift: str) -> list[str]:
    """What is not for the fast requantiser, among it channels that do not exist."""
    return [
        f"if ({shift} < 0) {{",
        f"\t{sums(pixels)}",
        "",
        f"\tvmcu_store_any(p, sums, 1, {pixels}, *w - 12, o, pitch, lanes);",
        "\treturn;",
        "}",
    ]


def sums(pixels: int) -> str:
    """A copy of the accumulators: their own address must not escape from registers."""
    return f"const int32_t sums[] = {{{', '.join(f'acc[{i}]' for i in range(pixels))}}};"


DOT_TAPS = """
uint32_t sums[4];

__builtin_memcpy(sums, acc, sizeof(sums));
*w = vmcu_tap_row(sums, in, row, pixel, channel, lanes, spread, *w);
__builtin_memcpy(acc, sums, sizeof(sums));
"""

STAGE = """
(void)row;
vmcu_stage_band((uint32_t *)tile, in, pixel, channel, call, wide, lanes);
vmcu_tile_done();
"""

BODIES = (
    {made.name: bias(pixels) for pixels, made in BIAS.items()}
    | {made.name: pair(*key) for key, made in PAIR.items()}
    | {made.name: line(*key) for key, made in LINE.items()}
    | {made.name: square(pixels) for pixels, made in SQUARE.items()}
    | {made.name: store(pixels) for pixels, made in STORE.items()}
    | {"stage": STAGE, "dot_taps": DOT_TAPS}
)
