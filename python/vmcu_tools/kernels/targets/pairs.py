# SPDX-License-Identifier: Apache-2.0
"""What targets whose tiles have pairs of pixels share, see language/packing.py."""

from __future__ import annotations

from .portable.tile import WIDEN_ROWS


def widen_taps(pixels: int, taps: int) -> list[str]:
    """C that widens so many taps of each pixel."""
    rows = [f"x{i}" for i in range(pixels)]
    lines = []
    for tap in range(taps):
        if pixels == 1:
            lines.append(f"t[{tap}] = x0[{tap}];")
        for i in range(0, pixels - 1, 2):
            first, second = (f"{row}[{tap}]" for row in rows[i : i + 2])
            lines.append(f"u[{(pixels * tap + i) // 2}] = {first} + {second} * 65536;")
    return lines


def widen_rows(pixels: int) -> str:
    name = "t" if pixels == 1 else "u"
    rows = [f"x{i}" for i in range(pixels)]
    starts = [f"\tconst int8_t *{row} = x + {i} * pitch;" for i, row in enumerate(rows)]
    starts += [] if pixels == 1 else ["\tvmcu_pair_t *u = (vmcu_pair_t *)(void *)t;"]
    per_tap = pixels if pixels == 1 else pixels // 2

    def loop(taps: int) -> str:
        moves = [*(f"{row} += {taps}" for row in rows), f"{name} += {taps * per_tap}"]
        body = "\n".join(f"\t\t{line}" for line in widen_taps(pixels, taps))
        head = f"for (; count >= {taps}; count -= {taps}) {{"
        return f"\t{head}\n{body}\n" + "".join(f"\t\t{move};\n" for move in moves) + "\t}"

    return "\n".join(
        [
            f"/* `count` taps of each of {pixels} pixels, `pitch` bytes apart. */",
            f"VMCU_INLINE void vmcu_widen_rows_{pixels}(vmcu_lane_t *t, const int8_t *x, "
            "int32_t pitch,",
            "\t\t\t\t\t int32_t count)",
            "{",
            *starts,
            "",
            loop(4),
            loop(1),
            "\t(void)pitch;",
            "}",
            "",
        ]
    )


HELPERS = {
    "tile": r"""
typedef int16_t vmcu_lane_t;

/* Two pixels: the first one's tap and 65536 times the second one's. */
typedef int32_t __attribute__((may_alias)) vmcu_pair_t;

/* What four taps of a pixel take of a tile. */
#define VMCU_FOUR 4

/* Tap k of pixel `lane` of a tile of `pixels`, of which the ones before have been written. */
VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	t += k * pixels + lane;
	if ((lane & 1) != 0 && t[-1] < 0) {
		/* The upper half of a sum with a negative number. */
		value--;
	}
	*t = (vmcu_lane_t)value;
}

/* Taps k .. k + count - 1 of pixel `lane`; k and count are multiples of four. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	for (int32_t i = 0; i < count; i++) {
		vmcu_lane_put(t, pixels, lane, k + i, x[i]);
	}
}

/* All of the fours that have any of `count` taps, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	for (int32_t i = 0; i < ((count + 3) & ~3); i++) {
		vmcu_lane_put(t, pixels, lane, k + i, value);
	}
}
""",
    "widen_rows": "\n".join(widen_rows(pixels) for pixels in (4, 2, 1)),
    # With so many registers a call is cheaper than its code in place.
    "widen_any": WIDEN_ROWS.replace("VMCU_INLINE", "VMCU_APART"),
    "nines": r"""
/* Windows of three rows of nine bytes: there is no faster way. */
VMCU_INLINE bool vmcu_widen_nines(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				  int32_t pixel, int32_t channel)
{
	(void)t;
	(void)pixels;
	(void)in;
	(void)pixel;
	(void)channel;
	return false;
}

/*
 * Windows that are said to be in one piece, `step` bytes from row to row: taps may begin anywhere
 * in a tile.
 */
VMCU_INLINE bool vmcu_widen_straight(vmcu_lane_t *t, int32_t pixels,
				     const struct vmcu_window *window, int32_t line,
				     const int8_t *x, int32_t step, int32_t pitch)
{
	for (int32_t r = window->kernel_h; r > 0; r--, t += pixels * line, x += step) {
		vmcu_widen_rows(t, pixels, x, pitch, line);
	}
	return true;
}
""",
    "paired_add": r"""
/*
 * A sum of products of pairs of pixels that is within their halves: its first pixel's, with what is
 * of the other, and the other one's.
 */
VMCU_INLINE void vmcu_paired_add(uint32_t *low, int32_t *high, int32_t sum)
{
	*low += (uint32_t)sum;
	*high += (sum + 0x8000) >> 16;
}
""",
}
