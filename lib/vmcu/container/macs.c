/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks of the generated kernels with weights, but for depthwise ones.
 */

#include "walk.h"

/** Blocks of channels. */
struct blocks {
	uint32_t size;    /**< channels of a block */
	uint32_t weights; /**< bytes of a channel's */
	uint32_t fast;    /**< bits of a head that count the fast blocks */
};

/** Blocks without a tile, of @a weights bytes a channel. */
static struct blocks blocks_of(uint32_t size, uint32_t weights)
{
	return (struct blocks){.size = size, .weights = weights, .fast = 0xffffU};
}

/** @a taps taps of a run, filled up to whole lanes. */
static uint32_t pad_taps(const struct vmcu_packing *packing, uint32_t taps)
{
	return (taps + packing->lanes - 1U) / packing->lanes * packing->lanes;
}

/** Blocks of a head. */
static bool walk_blocks(const struct vmcu_mac_params *p, struct vmcu_walk *w, uint32_t head,
			const struct blocks *blocks)
{
	const uint32_t size = blocks->size;
	const uint32_t fast = vmcu_requant_is_float(false) ? 0U : (head & blocks->fast);
	const uint32_t exact = (uint32_t)vmcu_segment_exact(head);
	/* A bias, taps and a multiplier for each channel, then a shift. */
	const uint64_t taps = (uint64_t)size * blocks->weights * w->packing->bits / 8U;
	const uint32_t packed = (size + 3U) / 4U * 4U;
	const uint64_t common = 8ULL * size + taps;

	for (uint32_t i = 0; i < fast; i++) {
		const uint8_t *shift = w->at + common;

		if (!vmcu_walk_skip(w, common + packed) || !vmcu_walk_fast(w, shift, size)) {
			return false;
		}
	}
	for (uint32_t i = 0; i < exact; i++) {
		const uint8_t *words = w->at + common;

		if (!vmcu_walk_skip(w, common + 4ULL * size) || !vmcu_walk_shifts(p, words, size)) {
			return false;
		}
	}
	return true;
}

/** True if vmcu_exact_block() would store all channels of the block that ends here. */
static bool stores_all(const struct vmcu_mac_params *p, const struct vmcu_walk *w, uint32_t size)
{
	const int32_t *word = (const int32_t *)(const void *)w->at - size;
	int32_t words = ~0;

	for (uint32_t i = 0; i < size; i++) {
		words &= word[i];
	}
	return vmcu_are_lines(p, words);
}

/**
 * A group's blocks, which must be @a channels channels in all: a kernel stores as many as the heads
 * say.
 */
static bool walk_group(const struct vmcu_mac_params *p, struct vmcu_walk *w, uint32_t channels,
		       const struct blocks *of)
{
	const uint32_t size = of->size;
	uint32_t stored = 0;
	uint32_t head;

	do {
		const uint8_t *at = w->at;
		uint32_t blocks;
		uint32_t last;

		if (!vmcu_walk_skip(w, sizeof(head))) {
			return false;
		}
		head = *(const uint32_t *)(const void *)at;
		blocks = (head & of->fast) + (uint32_t)vmcu_segment_exact(head);
		last = vmcu_segment_more(head) ? size : (head >> 28 & 7U);
		if (blocks == 0U || blocks > channels || last == 0U || last > size ||
		    ((head & of->fast) != 0U && vmcu_requant_is_float(p->is_float != 0U)) ||
		    !walk_blocks(p, w, head, of)) {
			return false;
		}
		if (last < size && vmcu_segment_exact(head) != 0 && stores_all(p, w, size)) {
			return false;
		}
		stored += (blocks - 1U) * size + last;
		if (stored > channels) {
			return false;
		}
	} while (vmcu_segment_more(head));
	return stored == channels;
}

/** The stream of a kernel with such blocks. */
static bool walk_stream(const struct vmcu_check *c, const struct vmcu_packing *packing,
			const struct blocks *of)
{
	const struct vmcu_mac_params *p = c->params;
	const uint32_t channels = vmcu_check_output(c)->channels / p->groups;
	struct vmcu_walk w;

	if (!vmcu_walk_begin(c, packing, &w)) {
		return false;
	}
	for (uint32_t g = 0; g < p->groups; g++) {
		if (!walk_group(p, &w, channels, of)) {
			return false;
		}
	}
	return true;
}

/** True if inputs and outputs fall into groups. */
static bool has_groups(const struct vmcu_check *c, const struct vmcu_mac_params *p)
{
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);

	return p->groups != 0U && p->depth != 0U && p->run != 0U && p->run % p->depth == 0U &&
	       (uint32_t)p->groups * p->depth == in->channels &&
	       vmcu_check_output(c)->channels % p->groups == 0U;
}

/** True if a tile has as many steps as a window of @a runs runs takes. */
static bool steps_are(const struct vmcu_mac_params *p, const struct vmcu_packing *packing,
		      uint32_t runs)
{
	uint32_t taps = pad_taps(packing, p->run) * runs;

	if (p->packed != 0U) {
		taps = p->run * runs;
		if (taps > packing->packed) {
			return false;
		}
	}
	return (taps + packing->step - 1U) / packing->step == p->steps;
}

static bool check_tiled(const struct vmcu_check *c, const struct vmcu_packing *packing,
			uint32_t pixels, uint32_t size)
{
	const struct vmcu_mac_params *p = c->params;
	const uint32_t taps = (uint32_t)p->steps * packing->step;
	struct blocks blocks = blocks_of(size, taps);
	const uint32_t width = vmcu_check_output(c)->width;
	const uint32_t wide = (width < pixels) ? width : pixels;

	if (packing->paired) {
		/* The upper ones are the code. */
		blocks.fast = 0x3fffU;
	}
	return vmcu_check_scratch(c, wide * taps * packing->tap) &&
	       walk_stream(c, packing, &blocks);
}

VMCU_SMALL bool vmcu_check_pointwise(const struct vmcu_check *c, const struct vmcu_packing *packing,
				     uint32_t pixels, uint32_t size)
{
	const struct vmcu_mac_params *p = c->params;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_columns(c, 0)) {
		return false;
	}
	return has_groups(c, p) && p->groups == 1U && p->run == p->depth && p->packed == 0U &&
	       steps_are(p, packing, 1U) && check_tiled(c, packing, pixels, size);
}

VMCU_SMALL bool vmcu_check_conv(const struct vmcu_check *c, const struct vmcu_packing *packing,
				uint32_t pixels, uint32_t size)
{
	const struct vmcu_mac_params *p = c->params;
	uint32_t across;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !has_groups(c, p) ||
	    !vmcu_check_window(c, &p->window)) {
		return false;
	}
	/* A run is a tap's channels, or a row of the window's where that is one stretch. */
	across = p->run / p->depth;
	if (across != 1U &&
	    (across != p->window.kernel_w || p->groups != 1U || p->window.dilation_w != 1U)) {
		return false;
	}
	return steps_are(p, packing,
			 (uint32_t)p->window.kernel_h * (p->window.kernel_w / across)) &&
	       check_tiled(c, packing, pixels, size);
}

/** Bytes of scratch of a kernel without a tile: a copy of its rows, or of a row of padding. */
static uint32_t dense_scratch(const struct vmcu_check *c, const struct vmcu_mac_params *p)
{
	const struct vmcu_window *w = &p->window;
	const uint32_t last = (vmcu_check_output(c)->height - 1U) * w->stride_h;
	const uint32_t below = (w->kernel_h - 1U) * w->dilation_h;

	if (vmcu_rows_are_copied(w, p->run)) {
		return ((uint32_t)w->kernel_h * p->run + 3U) & ~3U;
	}
	if (w->pad_top == 0 && last + below < vmcu_check_input(c, 0)->height) {
		return 0;
	}
	return p->run;
}

VMCU_SMALL bool vmcu_check_dense(const struct vmcu_check *c, const struct vmcu_packing *packing)
{
	const struct vmcu_mac_params *p = c->params;
	const struct vmcu_tensor *in = vmcu_check_input(c, 0);
	const struct vmcu_tensor *out = vmcu_check_output(c);
	const struct vmcu_window *w = &p->window;
	const uint32_t runs = p->window.kernel_h;
	/* Where a row of the input is one pixel to it, it has one column of output. */
	const bool flat = out->width == 1U;
	struct blocks blocks = blocks_of(packing->dense, pad_taps(packing, p->run) * runs);

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_rows(c, 0) ||
	    !vmcu_check_window(c, w) || p->groups != 1U || p->packed != 0U || p->run == 0U) {
		return false;
	}
	if (w->pad_left != 0 || (w->pad_top != 0 && runs == 1U) ||
	    !vmcu_check_scratch(c, dense_scratch(c, p))) {
		return false;
	}
	if (flat ? (p->run > (uint32_t)in->width * in->channels)
		 : (p->run != in->channels || out->width > in->width)) {
		return false;
	}
	if (vmcu_rows_are_copied(w, p->run)) {
		/* They are one run. */
		blocks.weights = pad_taps(packing, p->run * runs);
	}
	return walk_stream(c, packing, &blocks);
}

VMCU_SMALL bool vmcu_check_grouped(const struct vmcu_check *c, const struct vmcu_packing *packing,
				   uint32_t multiplier, bool zeros)
{
	const struct vmcu_mac_params *p = c->params;
	const uint32_t channels = vmcu_check_output(c)->channels;
	const uint32_t size = packing->dense;
	const uint32_t parts = zeros && p->depth != p->run ? 2U : 1U;
	const uint64_t part =
		(uint32_t)p->run * packing->bits / 8U + (uint64_t)multiplier * p->groups;
	/* Where a sum starts, zero points, weights and multipliers; then the requantiser's. */
	const uint64_t each =
		4ULL * multiplier + (zeros ? 4ULL * p->groups : 0U) + parts * part + 4U;
	struct vmcu_walk w;

	if (!vmcu_check_inputs(c, 1U) || !vmcu_check_calls(c) || !vmcu_check_columns(c, 0) ||
	    !vmcu_check_window(c, &p->window) || p->window.kernel_h != 1U ||
	    p->window.stride_h != 1U || p->window.pad_top != 0 || p->packed != 0U ||
	    !vmcu_requant_is_float(p->is_float != 0U) ||
	    p->run != vmcu_check_input(c, 0)->channels || p->depth != parts * p->run ||
	    (uint32_t)p->groups * p->steps * packing->lanes != p->run ||
	    (uint32_t)p->steps * packing->lanes % 16U != 0U || !vmcu_walk_begin(c, packing, &w)) {
		return false;
	}
	for (uint32_t n = 0; n < channels; n += size) {
		const uint8_t *words = w.at + size * each;

		if (!vmcu_walk_skip(&w, size * (each + 4U)) || !vmcu_walk_shifts(p, words, size)) {
			return false;
		}
		if (channels - n < size && stores_all(p, &w, size)) {
			return false;
		}
	}
	return true;
}
