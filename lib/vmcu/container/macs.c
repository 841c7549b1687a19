/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of the generated kernels with weights: streams are walked as the kernels walk them.
 */

#include "check.h"

#include "../compiled.h"
#include "../kernels/support.h"

/** Taps of a window that may be packed, see struct vmcu_mac_params. */
#define PACKED         32U
/** Bytes of four taps in a tile, as the core with the widest has them, and in a stream. */
#define TILE_BYTES     8U
/** The fast requantiser's largest shift, less one. */
#define FAST_SHIFT_MAX 22

/** A stream that is being walked: what is left of the container. */
struct walk {
	const uint8_t *at;
	uint32_t left;
};

/** Skips bytes; false if there are not as many. */
static bool skip(struct walk *w, uint64_t bytes)
{
	if (bytes > w->left) {
		return false;
	}
	w->at += bytes;
	w->left -= (uint32_t)bytes;
	return true;
}

static bool begin(const struct vmcu_check *c, const struct vmcu_mac_params *p, struct walk *w)
{
	if (!vmcu_check_array(c, p->stream, 1U, sizeof(uint32_t))) {
		return false;
	}
	w->at = vmcu_check_at(c, p->stream);
	w->left = c->size - (uint32_t)(uintptr_t)p->stream;
	return true;
}

/** True if exact blocks of so many channels shift as the requantiser can. */
static bool shifts(const struct vmcu_mac_params *p, const uint8_t *words, uint32_t channels)
{
	const int32_t *word = (const int32_t *)(const void *)words;

	for (uint32_t i = 0; i < channels; i++) {
		if (p->is_float == 0U && !vmcu_check_shift(word[i])) {
			return false;
		}
		if (p->is_float != 0U && !vmcu_check_line(word[i])) {
			return false;
		}
	}
	return true;
}

/** True if shifts are for the fast requantiser, see FAST_SHIFTS of kernels/pack.py: one less. */
static bool fast_shifts(const uint8_t *shift, uint32_t channels)
{
	for (uint32_t i = 0; i < channels; i++) {
		if (shift[i] > FAST_SHIFT_MAX) {
			return false;
		}
	}
	return true;
}

/** Blocks of a head: of @a weights bytes a channel, @a size channels each. */
static bool walk_blocks(const struct vmcu_mac_params *p, struct walk *w, uint32_t head,
			uint32_t size, uint32_t weights)
{
	const uint32_t fast = vmcu_requant_is_float(false) ? 0U : (head & 0xffffU);
	const uint32_t exact = (uint32_t)vmcu_segment_exact(head);
	/* A bias, taps and a multiplier for each channel, then a shift. */
	const uint32_t each = 4U + weights + 4U;
	const uint32_t packed = (size + 3U) / 4U * 4U;
	const uint64_t common = (uint64_t)size * each;

	for (uint32_t i = 0; i < fast; i++) {
		const uint8_t *shift = w->at + common;

		if (!skip(w, common + packed) || !fast_shifts(shift, size)) {
			return false;
		}
	}
	for (uint32_t i = 0; i < exact; i++) {
		const uint8_t *words = w->at + common;

		if (!skip(w, common + 4ULL * size) || !shifts(p, words, size)) {
			return false;
		}
	}
	return true;
}

/**
 * A group's blocks of @a size channels, which must be @a channels in all: a kernel stores as many
 * as the heads say.
 */
static bool walk_group(const struct vmcu_mac_params *p, struct walk *w, uint32_t channels,
		       uint32_t size, uint32_t weights)
{
	uint32_t stored = 0;
	uint32_t head;

	do {
		const uint8_t *at = w->at;
		uint32_t blocks;
		uint32_t last;

		if (!skip(w, sizeof(head))) {
			return false;
		}
		head = *(const uint32_t *)(const void *)at;
		blocks = (head & 0xffffU) + (uint32_t)vmcu_segment_exact(head);
		last = vmcu_segment_more(head) ? size : (head >> 28 & 7U);
		if (blocks == 0U || blocks > channels || last == 0U || last > size ||
		    ((head & 0xffffU) != 0U && vmcu_requant_is_float(p->is_float != 0U)) ||
		    !walk_blocks(p, w, head, size, weights)) {
			return false;
		}
		stored += (blocks - 1U) * size + last;
		if (stored > channels) {
			return false;
		}
	} while (vmcu_segment_more(head));
	return stored == channels;
}

/** The stream of a kernel with blocks of @a size channels. */
static bool walk_stream(const struct vmcu_check *c, const struct vmcu_mac_params *p, uint32_t size,
			uint32_t weights)
{
	const uint32_t channels = vmcu_check_output(c)->channels / p->groups;
	struct walk w;

	if (!begin(c, p, &w)) {
		return false;
	}
	for (uint32_t g = 0; g < p->groups; g++) {
		if (!walk_group(p, &w, channels, size, weights)) {
			return false;
		}
	}
	return true;
}

/** True if inputs and outputs fall into groups. */
static bool grouped(const struct vmcu_check *c, const struct vmcu_mac_params *p)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);

	return p->groups != 0U && p->depth != 0U && p->run != 0U && p->run % p->depth == 0U &&
	       (uint32_t)p->groups * p->depth == in->channels &&
	       vmcu_check_output(c)->channels % p->groups == 0U;
}

/** Steps of four taps that a tile has for a window of @a runs runs. */
static bool steps_are(const struct vmcu_mac_params *p, uint32_t runs)
{
	uint32_t taps = (p->run + 3U) / 4U * 4U * runs;

	if (p->packed != 0U) {
		taps = p->run * runs;
		if (taps > PACKED) {
			return false;
		}
	}
	return (taps + 3U) / 4U == p->steps;
}

static bool tiled(const struct vmcu_check *c, const struct vmcu_mac_params *p, uint32_t pixels,
		  uint32_t size)
{
	const uint32_t width = vmcu_check_output(c)->width;
	const uint32_t wide = (width < pixels) ? width : pixels;

	return vmcu_check_scratch(c, wide * p->steps * TILE_BYTES) &&
	       walk_stream(c, p, size, 4U * p->steps);
}

static bool pointwise_of(const struct vmcu_check *c, uint32_t pixels, uint32_t size)
{
	const struct vmcu_mac_params *p = c->params;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_columns(c, 0)) {
		return false;
	}
	return grouped(c, p) && p->groups == 1U && p->run == p->depth && p->packed == 0U &&
	       steps_are(p, 1U) && tiled(c, p, pixels, size);
}

VMCU_SMALL static bool pointwise(const struct vmcu_check *c)
{
	return pointwise_of(c, 4U, 2U);
}

VMCU_SMALL static bool pointwise_narrow(const struct vmcu_check *c)
{
	return pointwise_of(c, 2U, 4U);
}

static bool conv_of(const struct vmcu_check *c, uint32_t pixels, uint32_t size)
{
	const struct vmcu_mac_params *p = c->params;
	uint32_t across;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !grouped(c, p) ||
	    !vmcu_check_window(c, &p->window)) {
		return false;
	}
	/* A run is a tap's channels, or a row of the window's where that is one stretch. */
	across = p->run / p->depth;
	if (across != 1U &&
	    (across != p->window.kernel_w || p->groups != 1U || p->window.dilation_w != 1U)) {
		return false;
	}
	return steps_are(p, (uint32_t)p->window.kernel_h * (p->window.kernel_w / across)) &&
	       tiled(c, p, pixels, size);
}

VMCU_SMALL static bool conv(const struct vmcu_check *c)
{
	return conv_of(c, 4U, 2U);
}

VMCU_SMALL static bool conv_narrow(const struct vmcu_check *c)
{
	return conv_of(c, 2U, 4U);
}

VMCU_SMALL static bool dense(const struct vmcu_check *c)
{
	const struct vmcu_mac_params *p = c->params;
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const struct vmcu_window *w = &p->window;
	const uint32_t runs = p->window.kernel_h;
	/* Where a row of the input is one pixel to it, it has one column of output. */
	const bool flat = out->width == 1U;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_rows(c, 0) ||
	    !vmcu_check_window(c, w) || p->groups != 1U || p->packed != 0U || p->run == 0U) {
		return false;
	}
	if (w->pad_top != 0 || w->pad_left != 0 ||
	    (out->height - 1U) * w->stride_h + (runs - 1U) * w->dilation_h >= in->height) {
		return false;
	}
	if (flat ? (p->run > (uint32_t)in->width * in->channels)
		 : (p->run != in->channels || out->width > in->width)) {
		return false;
	}
	return walk_stream(c, p, 4U, (p->run + 3U) / 4U * 4U * runs);
}

/** Bytes of a channel in the stream of a square window, of 3, 5 and 7 taps, by stride. */
static const uint8_t channel_bytes[3][2] = {{20, 20}, {44, 40}, {72, 64}};

/** Bytes of a tile for strips of p->steps pixels. */
static uint32_t strip_bytes(const struct vmcu_mac_params *p, uint32_t taps, uint32_t stride)
{
	const uint32_t wide = p->steps;
	const uint32_t phase = wide - 1U + (taps + stride - 1U) / stride;
	const uint32_t row = (stride == 1U) ? phase : phase + wide - 1U + taps / 2U;
	const uint32_t plane = row * (taps / 2U) + (wide * stride + taps + 1U - stride) / 2U;
	/* Behind the last plane, those of the last row. */
	const uint32_t over = (stride == 1U) ? (4U - wide % 4U) % 4U / 2U : 0U;

	return (2U * plane + over) * 4U;
}

/** True if the constants that channels have behind the stream are in the container. */
static bool rests(const struct vmcu_check *c, const struct vmcu_mac_params *p, uint32_t channels,
		  uint32_t bytes)
{
	const uint8_t *stream = vmcu_check_at(c, p->stream);
	const uint32_t left = c->size - (uint32_t)(uintptr_t)p->stream;

	for (uint32_t i = 0; i < channels; i++) {
		const int32_t word = *(const int32_t *)(const void *)&stream[i * bytes];
		const int64_t at = 4LL * (word >> 8);

		if (!vmcu_is_exact(word)) {
			if ((word & VMCU_SHIFT) > FAST_SHIFT_MAX) {
				return false;
			}
			continue;
		}
		if (at < 0 || at + 8 > left || !shifts(p, &stream[at + 4], 1U)) {
			return false;
		}
	}
	return true;
}

/** True if at most one row under a strip is split, and no window lies beside the image. */
static bool in_strip(const struct vmcu_check *c, const struct vmcu_mac_params *p)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_window *w = &p->window;
	const uint32_t pixels = (p->steps < c->layer->columns) ? p->steps : c->layer->columns;
	const uint32_t columns = (pixels - 1U) * w->stride_w + w->kernel_w;
	const uint32_t wide = (columns < in->width) ? columns : in->width;
	const uint64_t seen =
		((uint64_t)(w->kernel_h - 1U) * w->dilation_h * in->width + wide) * in->channels;
	const int32_t last = (c->layer->width - 1) * w->stride_w - w->pad_left;

	return (seen <= in->ring || vmcu_check_bytes(in) <= in->ring) &&
	       w->pad_left < w->kernel_w && last < in->width;
}

static bool depthwise_of(const struct vmcu_check *c, uint32_t taps, uint32_t stride)
{
	const struct vmcu_mac_params *p = c->params;
	const struct vmcu_window *w = &p->window;
	const uint32_t channels = vmcu_check_output(c)->channels;
	const uint32_t bytes = channel_bytes[taps / 2U - 1U][stride - 1U];

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_window(c, w)) {
		return false;
	}
	if (w->kernel_h != taps || w->kernel_w != taps || w->stride_w != stride ||
	    w->dilation_w != 1U || vmcu_check_input(c, 0)->channels != channels || p->steps == 0U ||
	    !in_strip(c, p)) {
		return false;
	}
	/* Channels are computed in twos. */
	return vmcu_check_scratch(c, strip_bytes(p, taps, stride)) &&
	       vmcu_check_array(c, p->stream, (channels + 1U) / 2U * 2U, bytes) &&
	       rests(c, p, channels, bytes);
}

#define DEPTHWISE(taps, stride)                                                                    \
	VMCU_SMALL static bool depthwise_##taps##_##stride(const struct vmcu_check *c)             \
	{                                                                                          \
		return depthwise_of(c, taps, stride);                                              \
	}                                                                                          \
	VMCU_KERNEL_OF(vmcu_depthwise_##taps##_##stride, vmcu_mac_params, 1U, window,              \
		       depthwise_##taps##_##stride)

DEPTHWISE(3, 1);
DEPTHWISE(3, 2);
DEPTHWISE(5, 1);
DEPTHWISE(5, 2);
DEPTHWISE(7, 1);
DEPTHWISE(7, 2);

/**
 * Four channels of any window: biases, taps, then the requantiser's constants, which are for the
 * fast one at most where all four exist.
 */
static bool walk_fours(const struct vmcu_mac_params *p, struct walk *w, uint32_t taps, bool whole)
{
	const uint8_t *words;

	if (!skip(w, 16ULL + 4ULL * taps + 16ULL)) {
		return false;
	}
	words = w->at;
	if (!skip(w, sizeof(uint32_t))) {
		return false;
	}
	for (uint32_t i = 0; i < 4U; i++) {
		if ((words[i] & VMCU_EXACT) != (words[0] & VMCU_EXACT)) {
			return false;
		}
	}
	if (!vmcu_is_exact(words[0])) {
		return whole && fast_shifts(words, 4U);
	}
	words = w->at;
	return skip(w, 16U) && shifts(p, words, 4U);
}

VMCU_SMALL static bool depthwise_any(const struct vmcu_check *c)
{
	const struct vmcu_mac_params *p = c->params;
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const uint32_t taps = (uint32_t)p->window.kernel_h * p->window.kernel_w;
	uint32_t per_group;
	struct walk w;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) ||
	    !vmcu_check_window(c, &p->window) || p->groups == 0U ||
	    out->channels % p->groups != 0U || taps > INT16_MAX || !begin(c, p, &w)) {
		return false;
	}
	/* All channels are one group, or each has a group of its own. */
	if (!(p->run == 1U && p->groups == 1U && in->channels == out->channels) &&
	    !(p->run == 0U && p->groups == in->channels)) {
		return false;
	}
	if (!vmcu_check_scratch(c, 4U * taps) || !vmcu_check_apart(c, 4U * taps, out)) {
		return false;
	}
	per_group = out->channels / p->groups;
	for (uint32_t g = 0; g < p->groups; g++) {
		for (uint32_t n = 0; n < per_group; n += 4U) {
			if (!walk_fours(p, &w, taps, n + 4U <= per_group)) {
				return false;
			}
		}
	}
	return true;
}

VMCU_KERNEL_OF(vmcu_pointwise, vmcu_mac_params, 1U, window, pointwise);
VMCU_KERNEL_OF(vmcu_pointwise_narrow, vmcu_mac_params, 1U, window, pointwise_narrow);
VMCU_KERNEL_OF(vmcu_conv, vmcu_mac_params, 1U, window, conv);
VMCU_KERNEL_OF(vmcu_conv_narrow, vmcu_mac_params, 1U, window, conv_narrow);
VMCU_KERNEL_OF(vmcu_dense, vmcu_mac_params, 1U, window, dense);
VMCU_KERNEL_OF(vmcu_depthwise_any, vmcu_mac_params, 1U, window, depthwise_any);
