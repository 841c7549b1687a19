/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Functions that generated kernels use besides their instruction set.
 */

#ifndef VMCU_KERNELS_SUPPORT_H_
#define VMCU_KERNELS_SUPPORT_H_

#include <stdint.h>
#include <string.h>

#include <vmcu/access.h>
#include <vmcu/kernels.h>
#include <vmcu/requant.h>

#include "../compiled.h"

/**
 * A layer's parameters, and a pointer among them. In a container pointers count from its start: the
 * parameters are copied, so that functions without the call find their data.
 */
#if defined(VMCU_CONTAINERS)
#define VMCU_OWN_PARAMS(type, p, call)                                                             \
	struct type p##_own = *(const struct type *)vmcu_params(call);                             \
	const struct type *const p = &p##_own
#define VMCU_OWN_POINTER(call, p, member)                                                          \
	(p##_own.member =                                                                          \
		 (p->member == NULL) ? NULL : vmcu_constants(call, (const void *)p->member))
#else
#define VMCU_OWN_PARAMS(type, p, call)    const struct type *const p = vmcu_params(call)
#define VMCU_OWN_POINTER(call, p, member) ((void)(p))
#endif

/** Copies four bytes, whatever their addresses. */
VMCU_INLINE void vmcu_copy_word(void *to, const void *from)
{
#if (defined(__arm__) && !defined(__ARM_FEATURE_UNALIGNED)) || defined(__riscv)
	/* Compilers would call memcpy. */
	if ((((uintptr_t)to | (uintptr_t)from) & 3U) != 0U) {
		uint8_t *dst = to;
		const uint8_t *src = from;
		const uint8_t bytes[] = {src[0], src[1], src[2], src[3]};

		dst[0] = bytes[0];
		dst[1] = bytes[1];
		dst[2] = bytes[2];
		dst[3] = bytes[3];
		return;
	}
	to = __builtin_assume_aligned(to, 4);
	from = __builtin_assume_aligned(from, 4);
#endif
	__builtin_memcpy(to, from, 4);
}

/* The constant that callers of vmcu_saturate_less() subtract, with others. */
#if defined(__ARM_FEATURE_SAT)
#define VMCU_LESS 0
#else
#define VMCU_LESS INT8_MAX
#endif

/** Returns x + VMCU_LESS, limited to int8; @a x is from -2^31 to 2^30. */
VMCU_INLINE int8_t vmcu_saturate_less(int32_t x)
{
#if defined(__ARM_FEATURE_SAT)
	__asm__("ssat %0, #8, %1" : "=r"(x) : "r"(x));
	return (int8_t)x;
#else
	x = (x & vmcu_sign(x)) + (INT8_MAX - INT8_MIN);
	return (int8_t)((x & ~vmcu_sign(x)) + INT8_MIN);
#endif
}

/** x, from -2^30 to 2^30, within int8. */
VMCU_INLINE int8_t vmcu_saturate8(int32_t x)
{
	return vmcu_saturate_less(x - VMCU_LESS);
}

/** scale * x / 2^shift, rounded down; @a shift is at most 23. */
VMCU_INLINE int32_t vmcu_scaled_byte(int32_t scale, int8_t x, int32_t shift)
{
#if VMCU_LONG_MULTIPLY
	return (int32_t)(((int64_t)scale * x) >> shift);
#else
	const int32_t rest = scale & (((int32_t)1 << shift) - 1);

	return (scale >> shift) * x + ((rest * x) >> shift);
#endif
}

/** x / 2, rounded down, within int8. */
VMCU_INLINE int8_t vmcu_half8(int32_t x)
{
#if defined(__ARM_FEATURE_SAT)
	__asm__("ssat %0, #8, %1, asr #1" : "=r"(x) : "r"(x));
	return (int8_t)x;
#else
	return vmcu_saturate8(x >> 1);
#endif
}

/** a * b / 2^32 to nearest, ties upwards. */
VMCU_INLINE int32_t vmcu_high_round(int32_t a, int32_t b)
{
#if defined(__ARM_FEATURE_DSP)
	__asm__("smmulr %0, %0, %1" : "+r"(a) : "r"(b));
	return a;
#else
	return (int32_t)((vmcu_product(a, b) + ((int64_t)1 << 31)) >> 32);
#endif
}

/** Twice an output's zero point and a half: the fast requantiser adds it before its shift. */
VMCU_INLINE int32_t vmcu_half(const struct vmcu_mac_params *p)
{
	return 2 * p->output_zero + 1;
}

/** Calls vmcu_fixed_scale(), where a copy of its code is not worth the bytes. */
int32_t vmcu_scaled(int32_t x, int32_t multiplier, int32_t shift);

/** The sum of bytes @a a and @a b before the clamp. */
int32_t vmcu_float_sum_exact(const struct vmcu_float_sum *s, int32_t a, int32_t b);

/** True if a sum of struct vmcu_float_sum may be rounded either way. */
VMCU_INLINE bool vmcu_near_half(int32_t sum, int32_t fraction)
{
	return ((uint32_t)sum & (uint32_t)fraction) == 0U;
}

/** vmcu_float_sum_exact(), in integers where they do. */
VMCU_INLINE int32_t vmcu_float_sum_of(const struct vmcu_float_sum *s, int32_t a, int32_t b)
{
	const int32_t sum = a * s->a_scale + b * s->b_scale + s->bias;

	return vmcu_near_half(sum, s->fraction) ? vmcu_float_sum_exact(s, a, b) : sum >> s->shift;
}

/** The int8 output of a pooling window whose taps sum up to @a sum. */
int8_t vmcu_mean(const struct vmcu_average_pool_params *p, int32_t sum, int32_t count);

/** An input seen through a window. */
struct vmcu_source {
	const struct vmcu_pool *pool;
	const struct vmcu_tensor *tensor;
	const struct vmcu_window *window;
	int32_t run;   /**< taps that are contiguous in the input */
	int32_t depth; /**< channels of a pixel that take part */
	int32_t zero;  /**< byte of padding */
	bool packed;   /**< all taps lie side by side, see struct vmcu_mac_params */
	/** column 0 of the first row that an output row needs; NULL if one of these rows is padding
	 * or they do not lie in memory as they do in the tensor. For kernels without a tile: a copy
	 * of all rows, which are one run then, if packed, or of a row of padding; NULL if there is
	 * none
	 */
	const int8_t *rows;
};

static inline struct vmcu_source vmcu_mac_source(const struct vmcu_call *call,
						 const struct vmcu_mac_params *p)
{
	return (struct vmcu_source){
		.pool = call->pool,
		.tensor = vmcu_call_input(call, 0),
		.window = &p->window,
		.run = p->run,
		.depth = p->depth,
		.zero = p->input_zero,
		.packed = p->packed != 0U,
	};
}

/** vmcu_mac_source() with the rows that the call's output row needs. */
struct vmcu_source vmcu_conv_source(const struct vmcu_call *call, const struct vmcu_mac_params *p);

/** Whether a kernel without a tile copies a window of rows of @a run taps: on the stack only. */
static inline bool vmcu_rows_are_copied(const struct vmcu_window *window, int32_t run)
{
	return window->kernel_h > 1U && run * window->kernel_h <= VMCU_STACK_SCRATCH;
}

/**
 * Calls vmcu_mac_source() for a kernel without a tile. The call's scratch has the bytes that it
 * reads of a window of several rows: a copy of them if that is small, or of the padding if it sees
 * some. The only window of a call is packed if it is a row.
 */
struct vmcu_source vmcu_dense_source(const struct vmcu_call *call, const struct vmcu_mac_params *p);

/**
 * A run of words of a depthwise tile that hold more than padding, each made from input pixels a and
 * b: first maybe one whose a is padding, then those with both inside the image, then maybe one
 * whose b is padding.
 */
struct vmcu_piece {
	uint32_t *u;
	const int8_t *a; /**< the first a inside, of channel 0 */
	const int8_t *b;
	int32_t pitch_a; /**< from a word's a to the next word's; 0: a is padding in all of them */
	int32_t pitch_b;
	int32_t count; /**< four times words with both, and VMCU_PIECE_HEAD and _TAIL */
};

#define VMCU_PIECE_HEAD  1
#define VMCU_PIECE_TAIL  2
#define VMCU_PIECE_WORDS 2 /**< bits below */

/** a + b; sums wrap, in whatever order they are taken. */
static inline int32_t vmcu_sum(int32_t a, int32_t b)
{
	return (int32_t)((uint32_t)a + (uint32_t)b);
}

/** The int16 at any address. */
static inline int32_t vmcu_int16(const int8_t *src)
{
	int16_t value;

	__builtin_memcpy(&value, src, sizeof(value));
	return value;
}

/** Writes an int16 to any address. */
static inline void vmcu_put_int16(int8_t *dst, int32_t value)
{
	const int16_t narrow = (int16_t)value;

	__builtin_memcpy(dst, &narrow, sizeof(narrow));
}

static inline int32_t vmcu_min(int32_t a, int32_t b)
{
	return (a < b) ? a : b;
}

/** Calls vmcu_pixel(), where a copy of its code is not worth the bytes. */
int8_t *vmcu_pixel_at(const struct vmcu_pool *pool, const struct vmcu_tensor *t, int32_t y,
		      int32_t x);

/** The first output pixel that the call asks for. */
int8_t *vmcu_output_start(const struct vmcu_call *call);

/** The input pixel at the place of the first output pixel that the call asks for. */
const int8_t *vmcu_input_start(const struct vmcu_call *call, uint16_t index);

/** Row @a y of input @a index. */
static inline const int8_t *vmcu_input_row(const struct vmcu_call *call, uint16_t index, int32_t y)
{
	return vmcu_row(call->pool, vmcu_call_input(call, index), (uint32_t)y);
}

/** True if row @a y of a source is not padding. */
static inline bool vmcu_source_row(const struct vmcu_source *in, int32_t y)
{
	return y >= 0 && y < in->tensor->height;
}

/** A pixel of a source, which is inside the image. */
const int8_t *vmcu_source_at(const struct vmcu_source *in, int32_t y, int32_t x);

/** The taps of a row from a pixel on, of a kernel without a tile. */
const int8_t *vmcu_source_taps(const struct vmcu_source *in, int32_t y, int32_t x);

/** How many rows they are in. */
static inline int32_t vmcu_source_rows(const struct vmcu_source *in)
{
	return in->packed ? 1 : in->window->kernel_h;
}

/** A pixel of a source, NULL in the padding. */
static inline const int8_t *vmcu_source_pixel(const struct vmcu_source *in, int32_t y, int32_t x)
{
	const bool inside = vmcu_source_row(in, y) && x >= 0 && x < in->tensor->width;

	return inside ? vmcu_source_at(in, y, x) : NULL;
}

/** Calls vmcu_unsplit() for the tensor of a source. */
int32_t vmcu_source_unsplit(const struct vmcu_source *in, int32_t y, int32_t x, int32_t pixels);

/**
 * The head of a run of channel blocks in the flash stream: bits 0 to 15 count the fast ones, bits
 * 16 to 26 the exact ones behind them, bit 27 says that channels of the latter are not joined, bits
 * 28 to 30 are the channels in the last block of all if it is one of these, bit 31 says that
 * another run follows.
 */
static inline uint32_t vmcu_segment(const uint8_t **w)
{
	uint32_t counts = *(const uint32_t *)*w;

	*w += sizeof(counts);
	return counts;
}

static inline int32_t vmcu_segment_fast(uint32_t counts)
{
	/* Fast blocks are in fixed point. */
	return vmcu_requant_is_float(false) ? 0 : (int32_t)(counts & 0xffffU);
}

static inline int32_t vmcu_segment_exact(uint32_t counts)
{
	return (int32_t)((counts >> 16) & 0x7ffU);
}

/** True if the exact blocks' channels are not joined; those of fast ones are. */
static inline bool vmcu_segment_apart(uint32_t counts)
{
	return (counts & 0x8000000U) != 0U;
}

/** Channels of the fast blocks of @a size; the last of them may be a partial one. */
static inline int32_t vmcu_segment_taken(uint32_t counts, int32_t size)
{
	const int32_t blocks = vmcu_segment_fast(counts);
	const bool partial = blocks > 0 && (counts >> 31) == 0U && vmcu_segment_exact(counts) == 0;

	return partial ? (blocks - 1) * size + (int32_t)((counts >> 28) & 7U) : blocks * size;
}

static inline bool vmcu_segment_more(uint32_t counts)
{
	return (counts >> 31) != 0U;
}

/** Bits of a word with a shift for the fast requantiser; VMCU_EXACT is none. */
#define VMCU_SHIFT 0x1f
#define VMCU_EXACT 0x80

/** True if depthwise constants are not for the fast requantiser; @a word has their shift. */
static inline bool vmcu_is_exact(int32_t word)
{
	return vmcu_requant_is_float(false) || (word & VMCU_EXACT) != 0;
}

/** Channels of an exact block when it and those behind it are @a i. */
static inline int32_t vmcu_segment_left(uint32_t counts, int32_t i, int32_t size)
{
	return (i == 1 && !vmcu_segment_more(counts)) ? (int32_t)((counts >> 28) & 7U) : size;
}

/** Bits of a channel's second word where the factors are float32: see kernels/integer_scale.py. */
#define VMCU_LINE_SHIFT 0x7f
#define VMCU_LINE_WHOLE 0x80 /**< the bounds are those of int8 */
#define VMCU_LINE_BITS  0xff

/** A float32 factor as a line through the integers; @a half has the output's zero point, too. */
struct vmcu_line {
	int64_t adjust;
	int32_t multiplier;
	int32_t half;
	int32_t shift;
};

VMCU_INLINE struct vmcu_line vmcu_line(int32_t multiplier, int32_t word, int32_t zero)
{
	const int32_t shift = word & VMCU_LINE_SHIFT;

	return (struct vmcu_line){
		.adjust = word - (word & VMCU_LINE_BITS),
		.multiplier = multiplier,
		.half = (2 * zero + 1) * ((int32_t)1 << (shift - 1)),
		.shift = shift,
	};
}

VMCU_INLINE int32_t vmcu_on_line(struct vmcu_line line, int32_t acc)
{
#if VMCU_LONG_MULTIPLY
	const int32_t high = (int32_t)((vmcu_product(acc, line.multiplier) + line.adjust) >> 32);
#else
	/* The upper word of vmcu_product(); the halves of the adjustment are added to its parts. */
	const int32_t a_high = acc >> 16;
	const int32_t b_high = line.multiplier >> 16;
	const uint32_t a_low = (uint16_t)acc;
	const uint32_t b_low = (uint16_t)line.multiplier;
	const uint32_t low = a_low * b_low + (uint16_t)line.adjust;
	const int32_t one = (int32_t)a_low * b_high + (int32_t)(low >> 16);
	const int32_t other =
		a_high * (int32_t)b_low + (int32_t)(one & 0xffff) + (int32_t)(line.adjust >> 16);
	const int32_t high = a_high * b_high + (one >> 16) + (other >> 16);
#endif

	return (high + line.half) >> line.shift;
}

/** True if channels with these words are lines, and their bounds those of int8. */
VMCU_INLINE bool vmcu_are_lines(const struct vmcu_mac_params *p, int32_t words)
{
	return vmcu_requant_is_float(p->is_float != 0U) && (words & VMCU_LINE_WHOLE) != 0;
}

/** The byte of a sum, whatever its channel's constants: a multiplier and a word, as below. */
int8_t vmcu_any(const struct vmcu_mac_params *p, int32_t acc, int32_t multiplier, int32_t word);

/** vmcu_any() of @a count channels of a pixel. */
void vmcu_any_channels(const struct vmcu_mac_params *p, const int32_t *acc,
		       const int32_t *multiplier, const int32_t *word, int8_t *out, int32_t count);

/**
 * Requantises and stores a block of channels of @a pixels pixels, whatever its constants: two words
 * a channel, multipliers, then shifts, or, where the factors are float32, see
 * kernels/integer_scale.py. @a left: channels from the block's first to the tensor's last; the
 * others are only padding. Returns where the flash stream goes on.
 */
const uint8_t *vmcu_exact_block(const struct vmcu_mac_params *p, int32_t *acc, int32_t channels,
				int32_t pixels, const uint8_t *w, int8_t *out, int32_t pitch,
				int32_t left);

/** Where sums of products with @a count taps start, see targets/portable/products.py. */
int32_t vmcu_product_start(const int8_t *x, int32_t count, int32_t x_zero, int32_t y_zero);

/** Requantises and stores @a count sums. */
void vmcu_product_store(const struct vmcu_product *q, const int32_t *acc, int8_t *out,
			int32_t count);

/** The largest of the bytes of a pixel. */
int32_t vmcu_maximum(const int8_t *src, int32_t channels);

/** x << shift, cut to the range of int32; @a shift is 0 to 30. */
int32_t vmcu_saturating_shift(int32_t x, int32_t shift);

/**
 * 1 / (1 + fraction) in Q0.31 for a fraction from 0 to 1, as gemmlowp computes it: three Newton
 * steps in Q2.29.
 */
int32_t vmcu_reciprocal(int32_t fraction);

#endif /* VMCU_KERNELS_SUPPORT_H_ */
