/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Where the taps under one output pixel are, for depthwise convolutions of any window.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_two_taps(),
 * vmcu_one_tap() and vmcu_two_offsets().
 */

#ifndef VMCU_KERNELS_PLACES_H_
#define VMCU_KERNELS_PLACES_H_

/** In place of an offset: the tap is padding. */
#define VMCU_PLACE_OUTSIDE INT32_MIN

/** Found once for each pixel, used for all of its channels. */
struct vmcu_places {
	const int8_t *start; /**< of the input's pool: offsets count from here */
	int32_t *offsets;    /**< of each tap, in reading order */
	uint32_t zeros;      /**< four times the byte of padding */
	int32_t count;
	bool is_direct; /**< no tap is padding, and every channel has an output of its own */
};

/** vmcu_places_find() where a tap is padding, or not where the window's first one has it. */
VMCU_CALLED void vmcu_places_search(const struct vmcu_places *places, const struct vmcu_call *call,
				    int32_t row, int32_t pixel)
{
	const struct vmcu_mac_params *p = vmcu_params(call);
	const struct vmcu_source in = vmcu_mac_source(call, p);
	int32_t *offset = places->offsets;

	for (int32_t r = 0; r < p->window.kernel_h; r++, row += p->window.dilation_h) {
		for (int32_t s = 0; s < p->window.kernel_w; s++) {
			const int32_t at = pixel + s * p->window.dilation_w;
			const int8_t *x = vmcu_source_pixel(&in, row, at);

			*offset++ = (x != NULL) ? (int32_t)(x - places->start) : VMCU_PLACE_OUTSIDE;
		}
	}
}

/** Places of the taps of the window whose first one is at (@a row, @a pixel). */
VMCU_APART void vmcu_places_find(struct vmcu_places *places, const struct vmcu_call *call,
				 int32_t *offset, int32_t row, int32_t pixel)
{
	const struct vmcu_mac_params *p = vmcu_params(call);
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	const int32_t below = (p->window.kernel_h - 1) * p->window.dilation_h;
	const int32_t right = (p->window.kernel_w - 1) * p->window.dilation_w;
	const bool is_inside =
		row >= 0 && row + below < t->height && pixel >= 0 && pixel + right < t->width;

	places->start = vmcu_pool_start(call->pool, t);
	places->offsets = offset;
	places->count = p->window.kernel_h * p->window.kernel_w;
	places->zeros = (uint8_t)p->input_zero * 0x01010101U;
	places->is_direct = p->run != 0U && is_inside;
	if (is_inside) {
		const int8_t *x = vmcu_pixel(call->pool, t, (uint32_t)row, (uint32_t)pixel);
		const uint32_t place = vmcu_place(t, (uint32_t)row, (uint32_t)pixel);
		const int32_t pitch = t->width * t->channels;
		const int32_t last = below * pitch + right * t->channels;
		int32_t at = (int32_t)(x - places->start);

		if (vmcu_straight(call->pool, t, place, x, (uint32_t)(last + t->channels))) {
			const int32_t step = p->window.dilation_w * t->channels;
			const int32_t back =
				p->window.dilation_h * pitch - p->window.kernel_w * step;
			const int32_t *const end = offset + places->count;

			while (offset < end) {
				for (int32_t s = p->window.kernel_w; s > 0; s--) {
					*offset++ = at;
					at += step;
				}
				at += back;
			}
			return;
		}
	}
	vmcu_places_search(places, call, row, pixel);
}

/** Biases of four channels, which are all there and inside, and all of their taps. */
VMCU_INLINE void vmcu_dot_places(int32_t *acc, const struct vmcu_places *places, int32_t channel,
				 const uint8_t **w)
{
	const int8_t *x = places->start + channel;
	const int32_t *offset = places->offsets;
	const int32_t *bias = (const int32_t *)*w;
	uint32_t a, b;

	acc[0] = bias[0];
	acc[1] = bias[1];
	acc[2] = bias[2];
	acc[3] = bias[3];
	*w += 16;
	if ((places->count & 1) != 0) {
		vmcu_copy_word(&a, x + *offset++);
		vmcu_one_tap(acc, a, w);
	}
	for (int32_t n = places->count >> 1; n > 0; n--) {
		int32_t first, second;

		vmcu_two_offsets(&offset, &first, &second);
		vmcu_copy_word(&a, x + first);
		vmcu_copy_word(&b, x + second);
		vmcu_two_taps(acc, a, b, w);
	}
}

/** A tap of up to four channels, @a spread bytes apart. */
static uint32_t vmcu_place_word(const struct vmcu_places *places, int32_t tap, int32_t channel,
				int32_t lanes, int32_t spread)
{
	uint32_t word = places->zeros;
	const int8_t *x;

	if (places->offsets[tap] == VMCU_PLACE_OUTSIDE) {
		return word;
	}
	x = places->start + places->offsets[tap] + channel;
	if (spread == 0) {
		return (uint8_t)*x * 0x01010101U;
	}
	if (lanes == 4) {
		vmcu_copy_word(&word, x);
	} else {
		__builtin_memcpy(&word, x, (size_t)lanes);
	}
	return word;
}

/** vmcu_dot_places() for up to four channels and any window; returns where the stream goes on. */
VMCU_APART const uint8_t *vmcu_dot_any(int32_t *sums, const struct vmcu_places *places,
				       int32_t channel, int32_t lanes, int32_t spread,
				       const uint8_t *w)
{
	int32_t acc[4];
	int32_t tap = places->count & 1;

	__builtin_memcpy(acc, w, sizeof(acc));
	w += sizeof(acc);
	if (tap != 0) {
		vmcu_one_tap(acc, vmcu_place_word(places, 0, channel, lanes, spread), &w);
	}
	for (; tap < places->count; tap += 2) {
		const uint32_t a = vmcu_place_word(places, tap, channel, lanes, spread);
		const uint32_t b = vmcu_place_word(places, tap + 1, channel, lanes, spread);

		vmcu_two_taps(acc, a, b, &w);
	}
	__builtin_memcpy(sums, acc, sizeof(acc));
	return w;
}

/**
 * Four channels that are not for the fast requantiser: multipliers, a word that says so, and a word
 * for each. Returns where the flash stream goes on.
 */
VMCU_APART const uint8_t *vmcu_store_places(const struct vmcu_mac_params *p, const int32_t *acc,
					    const int32_t *c, int8_t *out, int32_t lanes)
{
	vmcu_any_channels(p, acc, c, &c[5], out, lanes);
	return (const uint8_t *)&c[9];
}

#endif /* VMCU_KERNELS_PLACES_H_ */
