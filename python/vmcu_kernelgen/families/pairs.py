# SPDX-License-Identifier: Apache-2.0
"""Code that targets share whose tiles have pairs of pixels, see language/packing.py."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.dense import whole_dense
from vmcu_tools.kernels.targets.portable.shapes import SHAPES
from vmcu_tools.kernels.targets.portable.tile import WIDEN_ROWS

from ..c_source import wrap


def widen_rows(pixels: int) -> str:
    """C that widens taps of several pixels."""
    rows = [f"x{i}" for i in range(pixels)]
    starts = [f"\tconst int8_t *{row} = x + {i} * pitch;" for i, row in enumerate(rows)]

    def loop(taps: int) -> str:
        lines = [
            f"u[{(pixels * tap + i) // 2}] = x{i}[{tap}] + x{i + 1}[{tap}] * 65536;"
            for tap in range(taps)
            for i in range(0, pixels, 2)
        ]
        lines += [*(f"{row} += {taps};" for row in rows), f"u += {taps * pixels // 2};"]
        body = "\n".join(f"\t\t{line}" for line in lines)
        return f"\tfor (; count >= {taps}; count -= {taps}) {{\n{body}\n\t}}"

    return "\n".join(
        [
            f"/* `count` taps of each of {pixels} pixels, `pitch` bytes apart. */",
            f"VMCU_INLINE void vmcu_widen_rows_{pixels}(vmcu_lane_t *t, const int8_t *x, "
            "int32_t pitch,",
            "\t\t\t\t\t int32_t count)",
            "{",
            *starts,
            "\tvmcu_pair_t *u = (vmcu_pair_t *)(void *)t;",
            "",
            loop(4),
            loop(1),
            "}",
            "",
        ]
    )


ONE_ROW = """
/* `count` bytes of a pixel. */
VMCU_INLINE void vmcu_widen_rows_1(vmcu_lane_t *t, const int8_t *x, int32_t pitch, int32_t count)
{
	int8_t *to = (int8_t *)t;

	(void)pitch;
	for (; count >= 4; count -= 4, x += 4, to += 4) {
		vmcu_copy_word(to, x);
	}
	for (; count > 0; count--) {
		*to++ = *x++;
	}
}
"""


def paired_runs(suffix: str = "") -> str:
    """C that declares the functions for blocks, which have a suffix."""
    names = ", ".join(f"vmcu_paired_{shape.name}{suffix}" for shape in SHAPES)
    text = "\n".join(wrap(f"vmcu_paired_run {names};", "", len("vmcu_paired_run ")))
    return f"""
/*
 * Whole blocks of pixels and channels as their names say, from bias to store; where there are no
 * channels, the sums of one, as words. They return where the flash stream goes on. Assembly.
 */
typedef const uint8_t *vmcu_paired_run(const uint8_t *stream, const void *tile, int32_t steps,
				       int8_t *out, int32_t channels, int32_t half, int32_t pitch,
				       int32_t code);
{text}
#define VMCU_PAIRED(shape) vmcu_paired_##shape{"##" + suffix if suffix else ""}
"""


HELPERS = {
    "tile": r"""
typedef int16_t vmcu_lane_t;

/* Two pixels: the first one's tap and 65536 times the second one's. */
typedef int32_t __attribute__((may_alias)) vmcu_pair_t;

/* What four taps of a pixel take of a tile of `pixels`: that of a single pixel has bytes. */
#define VMCU_FOUR ((pixels == 1) ? 2 : 4)

/* Tap k of pixel `lane` of a tile of `pixels`, of which the ones before have been written. */
VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	if (pixels == 1) {
		((int8_t *)t)[k] = (int8_t)value;
		return;
	}
	t += k * pixels + lane;
	if ((lane & 1) != 0 && t[-1] < 0) {
		/* The upper half of a sum with a negative number. */
		value--;
	}
	*t = (vmcu_lane_t)value;
}

/* `count` taps of pixel `lane` from k on, of bytes that are `step` apart. */
VMCU_APART void vmcu_lane_run(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
			      const int8_t *x, int32_t step, int32_t count)
{
	if (pixels == 1) {
		int8_t *to = (int8_t *)t + k;

		for (; count > 0; count--, x += step) {
			*to++ = *x;
		}
		return;
	}
	t += k * pixels + lane;
	if ((lane & 1) == 0) {
		for (; count > 0; count--, x += step, t += pixels) {
			*t = *x;
		}
		return;
	}
	for (; count > 0; count--, x += step, t += pixels) {
		*t = (vmcu_lane_t)(*x + (t[-1] >> 15));
	}
}

/* Taps k .. k + count - 1 of pixel `lane`; k and count are multiples of four. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	vmcu_lane_run(t, pixels, lane, k, x, 1, count);
}

/* All of the fours that have any of `count` taps, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	const int8_t byte = (int8_t)value;

	vmcu_lane_run(t, pixels, lane, k, &byte, 0, (count + 3) & ~3);
}
""",
    "widen_rows": "\n".join([widen_rows(4), widen_rows(2), ONE_ROW]),
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
	int8_t *to = (int8_t *)t;

	for (int32_t r = window->kernel_h; r > 0; r--, x += step) {
		vmcu_widen_rows((vmcu_lane_t *)(void *)to, pixels, x, pitch, line);
		to += VMCU_FOUR * pixels * line / 2;
	}
	return true;
}
""",
    "paired_runs": paired_runs(),
    "dense_whole": whole_dense("vmcu_paired_1x4", ", 0, 0"),
}
