/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of depthwise convolutions.
 */

#include "walk.h"

/** Bytes of a tile for strips of p->steps pixels, see tile_bytes() of programs/depthwise.py. */
static uint32_t strip_bytes(const struct vmcu_mac_params *p, const struct vmcu_packing *packing,
			    uint32_t taps, uint32_t stride)
{
	const bool wider = taps == 3U && stride == 2U && !packing->paired;
	const uint32_t pixels = packing->pixels + (wider ? 2U : 0U);
	const uint32_t wide = p->steps;
	const uint32_t phase = wide - 1U + (taps + stride - 1U) / stride;
	const uint32_t row = (stride == 1U) ? phase : phase + wide - 1U + taps / 2U;
	const uint32_t plane = row * (taps / 2U) + (wide * stride + taps + 1U - stride) / 2U;
	/* Behind the last plane, those of the last row under pixels that do not exist. */
	const uint32_t over = (pixels - wide % pixels) % pixels * stride / 2U;
	uint32_t words = 2U * plane + over;

	if (packing->paired) {
		/* A core may have a word for each column and row under blocks of pixels. */
		const uint32_t block = (taps == 3U) ? 2U : pixels;
		const uint32_t last = (wide + block - 1U) / block * block - 1U;
		const uint32_t columns = (last * stride + taps) * taps;

		words = (columns > words) ? columns : words;
	}
	return words * 4U;
}

/** True if the constants that channels have behind the stream are in the container. */
static bool has_constants(const struct vmcu_check *c, const struct vmcu_packing *packing,
			  uint32_t channels, uint32_t bytes)
{
	const struct vmcu_mac_params *p = c->params;
	const uint8_t *stream = vmcu_check_at(c, p->stream);
	const uint32_t left = vmcu_check_left(c, p->stream);

	for (uint32_t i = 0; i < channels; i++) {
		const int32_t word = *(const int32_t *)(const void *)&stream[i * bytes];
		const int64_t at = 4LL * (word >> 8);

		if (!vmcu_is_exact(word)) {
			if ((word & VMCU_SHIFT) > packing->shift) {
				return false;
			}
			continue;
		}
		if (at < 0 || at + 8 > left || !vmcu_walk_shifts(p, &stream[at + 4], 1U)) {
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

/** True if all channels are one group, or each has a group of its own. */
static bool has_groups(const struct vmcu_check *c, const struct vmcu_mac_params *p)
{
	const uint32_t ins = vmcu_check_input(c, 0)->channels;
	const uint32_t outs = vmcu_check_output(c)->channels;

	return p->groups != 0U && outs % p->groups == 0U &&
	       ((p->run == 1U && p->groups == 1U && ins == outs) ||
		(p->run == 0U && p->groups == ins));
}

VMCU_SMALL bool vmcu_check_depthwise(const struct vmcu_check *c, const struct vmcu_packing *packing,
				     uint32_t taps, uint32_t stride, uint32_t bytes)
{
	const struct vmcu_mac_params *p = c->params;
	const struct vmcu_window *w = &p->window;
	const uint32_t channels = vmcu_check_output(c)->channels;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_window(c, w)) {
		return false;
	}
	if (w->kernel_h != taps || w->kernel_w != taps || w->stride_w != stride ||
	    w->dilation_w != 1U || !has_groups(c, p) || p->steps == 0U || !in_strip(c, p)) {
		return false;
	}
	/* Channels are computed in twos. */
	if (p->run == 0U && (packing->paired || channels / p->groups % 2U != 0U)) {
		return false;
	}
	return vmcu_check_scratch(c, strip_bytes(p, packing, taps, stride)) &&
	       vmcu_check_array(c, p->stream, (channels + 1U) / 2U * 2U, bytes) &&
	       has_constants(c, packing, channels, bytes);
}

/**
 * Four channels of any window: biases, taps, then the requantiser's constants, which are for the
 * fast one at most where all four exist.
 */
static bool walk_fours(const struct vmcu_mac_params *p, struct vmcu_walk *w, uint32_t taps,
		       bool whole)
{
	const uint8_t *words;

	if (!vmcu_walk_skip(w, 16ULL + 4ULL * taps + 16ULL)) {
		return false;
	}
	words = w->at;
	if (!vmcu_walk_skip(w, sizeof(uint32_t))) {
		return false;
	}
	for (uint32_t i = 0; i < 4U; i++) {
		if ((words[i] & VMCU_EXACT) != (words[0] & VMCU_EXACT)) {
			return false;
		}
	}
	if (!vmcu_is_exact(words[0])) {
		return whole && vmcu_walk_fast(w, words, 4U);
	}
	words = w->at;
	return vmcu_walk_skip(w, 16U) && vmcu_walk_shifts(p, words, 4U);
}

/** Bits of a vector's word, see python/vmcu_tools/kernels/targets/portable/vectors.py. */
#define ALONE 0x01U /**< of the first word of a stream */
#define LINES 0x40U /**< behind VMCU_EXACT */
#define MOST  127U  /**< the largest code */

/**
 * A vector of channels of any window, of which @a lanes exist: a word, biases, taps, then the
 * requantiser's constants. Kernels loop and jump by the word: how many taps may be added up
 * together, and a code, the same number where all channels exist and the fast requantiser applies.
 */
static bool walk_vector(const struct vmcu_mac_params *p, struct vmcu_walk *w, uint32_t taps,
			uint32_t lanes, bool is_first)
{
	const uint32_t size = w->packing->vector;
	const bool is_float = vmcu_requant_is_float(p->is_float != 0U);
	const uint8_t *word = w->at;
	const uint8_t *last;
	uint32_t several, bits;

	if (!vmcu_walk_skip(w, 4ULL + 8ULL * size + (uint64_t)size * taps)) {
		return false;
	}
	bits = is_first ? word[0] & ~ALONE : word[0];
	several = (uint32_t)word[1] + 256U * word[2];
	if (several == 0U || several > taps) {
		return false;
	}
	if (word[3] != 0U &&
	    (bits != 0U || lanes < size || word[3] != ((several < MOST) ? several : MOST))) {
		return false;
	}
	last = w->at;
	if (bits == VMCU_EXACT || (bits == (VMCU_EXACT | LINES) && is_float)) {
		return vmcu_walk_skip(w, 4ULL * size) && vmcu_walk_shifts(p, last, size);
	}
	/* Assembly is fast wherever the word says so. */
	if (bits != 0U || is_float || !vmcu_walk_skip(w, size)) {
		return false;
	}
	for (uint32_t i = 0; i < size; i++) {
		/* Here shifts are those to the left. */
		const uint8_t shift = (uint8_t)~last[i];

		if (!vmcu_walk_fast(w, &shift, 1U)) {
			return false;
		}
	}
	return true;
}

/** True if a window has taps beside the image. */
static bool sees_padding(const struct vmcu_check *c, const struct vmcu_window *w)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const int32_t below =
		(out->height - 1) * w->stride_h - w->pad_top + (w->kernel_h - 1) * w->dilation_h;
	const int32_t beside =
		(out->width - 1) * w->stride_w - w->pad_left + (w->kernel_w - 1) * w->dilation_w;

	return w->pad_top > 0 || w->pad_left > 0 || below >= in->height || beside >= in->width;
}

VMCU_SMALL bool vmcu_check_depthwise_any(const struct vmcu_check *c,
					 const struct vmcu_packing *packing)
{
	const struct vmcu_mac_params *p = c->params;
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const uint32_t taps = (uint32_t)p->window.kernel_h * p->window.kernel_w;
	const uint32_t size = (packing->vector != 0U) ? packing->vector : 4U;
	uint32_t scratch = 4U * taps;
	uint32_t per_group;
	struct vmcu_walk w;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) ||
	    !vmcu_check_window(c, &p->window) || !has_groups(c, p) || taps > INT16_MAX ||
	    !vmcu_walk_begin(c, packing, &w)) {
		return false;
	}
	if (packing->vector != 0U) {
		/* Whole vectors of addresses, those of rows, and a pixel of padding. */
		scratch = (taps + 3U) / 4U * 16U + 4U * p->window.kernel_h + p->steps;
		if (p->steps < vmcu_check_input(c, 0)->channels && sees_padding(c, &p->window)) {
			return false;
		}
	}
	if (!vmcu_check_scratch(c, scratch) || !vmcu_check_apart(c, scratch, out)) {
		return false;
	}
	per_group = out->channels / p->groups;
	for (uint32_t g = 0; g < p->groups; g++) {
		for (uint32_t n = 0; n < per_group; n += size) {
			if (packing->vector != 0U
				    ? !walk_vector(p, &w, taps, per_group - n, g + n == 0U)
				    : !walk_fours(p, &w, taps, n + 4U <= per_group)) {
				return false;
			}
		}
	}
	return true;
}
