/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A layer as a library's kernels get it, and what their loops are made of.
 *
 * The loops are those that the libraries' sources describe, written anew: which operand is read how
 * often, from where, and what stays in registers. Requantisation is that of TensorFlow Lite on both
 * sides, so that outputs can be compared.
 */

#ifndef LAYER_H_
#define LAYER_H_

#include <stdbool.h>
#include <stdint.h>

/** Weights: (out_c, in_c) of a 1x1 convolution, (k, k, out_c) of a depthwise one. */
struct layer {
	int32_t height, width, in_c;
	int32_t out_height, out_width, out_c;
	int32_t k, stride, pad;
	const int8_t *weights;
	const int32_t *bias, *multiplier, *shift;
	int32_t input_zero, output_zero;
};

/**
 * One layer, by value: its members cannot change with what is written. @a buffer has room for what
 * the library asks of its caller.
 */
void run_layer(struct layer l, const int8_t *in, int8_t *out, int16_t *buffer);

static inline uint32_t word(const void *p)
{
	uint32_t value;

	__builtin_memcpy(&value, p, sizeof(value));
	return value;
}

/* Volatile, as CMSIS has these: they stay in the order in which a library wrote them. */
static inline uint32_t sxtb16(uint32_t x)
{
	uint32_t y;

	__asm__ volatile("sxtb16 %0, %1" : "=r"(y) : "r"(x));
	return y;
}

static inline uint32_t sxtb16_ror8(uint32_t x)
{
	uint32_t y;

	__asm__ volatile("sxtb16 %0, %1, ror #8" : "=r"(y) : "r"(x));
	return y;
}

static inline int32_t smlad(uint32_t x, uint32_t y, int32_t sum)
{
	int32_t result;

	__asm__ volatile("smlad %0, %1, %2, %3" : "=r"(result) : "r"(x), "r"(y), "r"(sum));
	return result;
}

static inline uint32_t sadd16(uint32_t x, uint32_t y)
{
	uint32_t result;

	__asm__("sadd16 %0, %1, %2" : "=r"(result) : "r"(x), "r"(y));
	return result;
}

/** The low halves of both, @a x below. */
static inline uint32_t pkhbt(uint32_t x, uint32_t y)
{
	uint32_t result;

	__asm__ volatile("pkhbt %0, %1, %2, lsl #16" : "=r"(result) : "r"(x), "r"(y));
	return result;
}

/** The high halves of both, @a x below. */
static inline uint32_t pkhtb(uint32_t x, uint32_t y)
{
	uint32_t result;

	__asm__ volatile("pkhtb %0, %2, %1, asr #16" : "=r"(result) : "r"(x), "r"(y));
	return result;
}

/** Minus @a zero in both halves. */
static inline uint32_t less_zero(int32_t zero)
{
	return (uint32_t)(-zero & 0xffff) * 0x10001U;
}

/** TensorFlow Lite's MultiplyByQuantizedMultiplier(), for factors below one, and the clamp. */
static inline int8_t requantized(struct layer l, int32_t c, int32_t sum)
{
	const int64_t product = (int64_t)sum * l.multiplier[c] + (1 << 30);
	const int32_t high = (int32_t)(product >> 31);
	const int32_t right = -l.shift[c];
	const int32_t mask = (int32_t)((UINT32_C(1) << right) - 1U);
	const int32_t rest = high & mask;
	int32_t value = (high >> right) + ((rest > (mask >> 1) + (high < 0)) ? 1 : 0);

	value += l.output_zero;
	value = (value < INT8_MIN) ? INT8_MIN : value;
	return (int8_t)((value > INT8_MAX) ? INT8_MAX : value);
}

#endif /* LAYER_H_ */
