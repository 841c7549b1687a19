# SPDX-License-Identifier: Apache-2.0
"""Portable C99: a tile of bytes, one multiplication at a time.

Cores without SIMD instructions widen a byte as they load it. Tiles hold four taps of one pixel
after four of the next, so that they are filled by words.
"""

from __future__ import annotations

from ..language.instruction import Target
from . import portable_depthwise, portable_pool, portable_products
from .instructions import LANES, STEP

PRELUDE = r"""
typedef int8_t vmcu_lane_t;

/*
 * Accumulators wrap, as they do on every other target. That makes sums associative, and compilers
 * would rather add up products in pairs than use the multiply-accumulate that is there.
 */
VMCU_INLINE int32_t vmcu_mac(int32_t acc, int32_t x, int32_t y)
{
	acc = (int32_t)((uint32_t)acc + (uint32_t)(x * y));
	__asm__("" : "+r"(acc));
	return acc;
}

/* What has been written to a tile is in memory before assembly reads it. */
VMCU_INLINE void vmcu_tile_done(void)
{
	__asm__ volatile("" ::: "memory");
}

/* Where tap k of pixel `lane` is in a tile of `pixels`. */
VMCU_INLINE int32_t vmcu_lane_at(int32_t pixels, int32_t lane, int32_t k)
{
	return ((k & ~3) * pixels) + 4 * lane + (k & 3);
}

VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	t[vmcu_lane_at(pixels, lane, k)] = (int8_t)value;
}

/* Taps k .. k + count - 1 of pixel `lane`; k and count are multiples of four. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	t += vmcu_lane_at(pixels, lane, k);
	for (; count > 0; count -= 4, t += 4 * pixels, x += 4) {
		__builtin_memcpy(t, x, 4);
	}
}

/* All of the fours that have any of `count` taps, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	const uint32_t word = (uint8_t)value * 0x01010101U;

	t += vmcu_lane_at(pixels, lane, k);
	for (; count > 0; count -= 4, t += 4 * pixels) {
		__builtin_memcpy(t, &word, 4);
	}
}

/* See fixed_fast() in isa/instructions.py. */
VMCU_INLINE int8_t vmcu_fixed(int32_t acc, int32_t multiplier, int32_t bias, int32_t shift)
{
	const uint32_t high = (uint32_t)(bias + (acc >> 31));
	const uint64_t sum = ((uint64_t)high << 32) | 0x80000000U;
	const int64_t doubled = (int32_t)((uint32_t)acc << 1);

	return vmcu_saturate8((int32_t)((sum + (uint64_t)(doubled * multiplier)) >> 32) >> shift);
}
"""


WIDEN_1 = """
for (; depth >= 4; depth -= 4, x += 4, t += 4) {
	__builtin_memcpy(t, x, 4);
}
for (int32_t k = 0; k < depth; k++) {
	t[k] = x[k];
}
vmcu_tile_done();
"""

WIDEN_2 = """
const int8_t *y = x + depth;

for (; depth >= 4; depth -= 4, x += 4, y += 4, t += 8) {
	__builtin_memcpy(t, x, 4);
	__builtin_memcpy(t + 4, y, 4);
}
for (int32_t k = 0; k < depth; k++) {
	t[k] = x[k];
	t[k + 4] = y[k];
}
vmcu_tile_done();
"""


def bias(pixels: int) -> str:
    lines = ["const int32_t *b = (const int32_t *)*w;", ""]
    lines += [f"acc[{i}] = b[{i // pixels}];" for i in range(2 * pixels)]
    return "\n".join([*lines, "*w += 2 * sizeof(int32_t);"])


def dot(pixels: int) -> str:
    lines = ["const int8_t *v = (const int8_t *)*w;", "const vmcu_lane_t *x = *t;", ""]
    for tap in range(STEP):
        for i in range(2 * pixels):
            lane = f"x[{LANES * (tap // LANES * pixels + i % pixels) + tap % LANES}]"
            weight = f"v[{8 * (tap // LANES) + LANES * (i // pixels) + tap % LANES}]"
            lines.append(f"acc[{i}] = vmcu_mac(acc[{i}], {lane}, {weight});")
    return "\n".join([*lines, f"*t = x + {STEP * pixels};", f"*w += {2 * STEP};"])


def store_fixed(pixels: int) -> str:
    lines = ["const int32_t *c = (const int32_t *)*w;"]
    lines.append("int32_t m0 = c[0], c0 = c[1], m1 = c[2], c1 = c[3], s0 = c[4], s1 = c[5];")
    lines += ["int8_t *o = *out;", "", "*w += 6 * sizeof(int32_t);"]
    for i in range(2 * pixels):
        channel, pixel = divmod(i, pixels)
        place = " + ".join(["pitch"] * pixel + [str(channel)] * channel) or "0"
        lines.append(f"o[{place}] = vmcu_fixed(acc[{i}], m{channel}, c{channel}, s{channel});")
    if pixels == 1:
        lines.append("(void)pitch;")
    return "\n".join([*lines, "*out = o + 2;"])


# A call, since it is rare or, without an FPU, long. The accumulators go as a copy: their own
# address must not escape from registers.
STORE_DENSE_ANY = """
const int32_t sums[] = {acc[0], acc[1], acc[2], acc[3]};

vmcu_store_four(p, sums, *w, *out, left);
*w += (vmcu_requant_is_float(p->is_float != 0U) ? 8 : 12) * sizeof(int32_t);
*out += 4;
"""


def bias_dense() -> str:
    lines = ["const int32_t *b = (const int32_t *)*w;", ""]
    lines += [f"acc[{n}] = b[{n}];" for n in range(4)]
    return "\n".join([*lines, "*w += 4 * sizeof(int32_t);"])


def dot_dense() -> str:
    lines = ["const int8_t *v = (const int8_t *)*w;", "*w += 16;"]
    lines += [f"acc[{i // 4}] = vmcu_mac(acc[{i // 4}], x[{i % 4}], v[{i}]);" for i in range(16)]
    return "\n".join([*lines[:1], "", *lines[1:]])


DOT_DENSE_TAIL = """
const int8_t *v = (const int8_t *)*w;

if (left == 0) {
	return;
}
for (int32_t i = 0; i < left; i++) {
	for (int32_t n = 0; n < 4; n++) {
		acc[n] = vmcu_mac(acc[n], x[i], v[4 * n + i]);
	}
}
*w += 16;
"""


def store_dense_fixed() -> str:
    lines = ["const int32_t *c = (const int32_t *)*w;", "int8_t *o = *out;", ""]
    lines.append("*w += 12 * sizeof(int32_t);")
    for n in range(4):
        constants = f"c[{2 * n}], c[{2 * n + 1}], c[{8 + n}]"
        lines.append(f"o[{n}] = vmcu_fixed(acc[{n}], {constants});")
    return "\n".join([*lines, "*out = o + 4;"])


BODIES = {
    f"{name}_{pixels}": text
    for pixels in (2, 1)
    for name, text in {
        "gather": f"vmcu_gather(t, {pixels}, in, row, pixel, channel, lane);\nvmcu_tile_done();",
        "bias": bias(pixels),
        "dot": dot(pixels),
        "store_fixed": store_fixed(pixels),
        "exact": (f"*w = vmcu_exact_block_{pixels}(p, t, *w, *out, pitch, left);\n*out += 2;"),
    }.items()
} | {
    "widen_2": WIDEN_2,
    "widen_1": WIDEN_1,
    "bias_dense": bias_dense(),
    "dot_dense": dot_dense(),
    "dot_dense_tail": DOT_DENSE_TAIL,
    "store_dense_fixed": store_dense_fixed(),
    "store_dense_any": STORE_DENSE_ANY,
    **portable_depthwise.BODIES,
    **portable_pool.BODIES,
    **portable_products.BODIES,
}

PRELUDES = PRELUDE + portable_depthwise.PRELUDE + portable_pool.PRELUDE
PORTABLE = Target("portable", "Portable C99", "1", PRELUDES, BODIES)
