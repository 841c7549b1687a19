/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Places tensor by tensor, each against its dying input, another one or an end of the pool.
 *
 * A depth-first search over the few bases at which a tensor touches something, and over the
 * directions in which its layer may run, in a pool that has the bytes without which the worst layer
 * cannot run. Its result is the best for layers one by one in their order. Chains swing between the
 * ends of the pool. It is the search of python/vmcu_tools/planner/places/walk.py.
 */

#include "online.h"

#include "../compiled.h"

#if defined(VMCU_ONLINE_PLANNER)

/** The most tensors that may be alive beside the one that is placed, and the most dead ends. */
#define MOST_LIVE  16U
#define MOST_TURNS 300U

/** A tensor that is alive while another is written, and the distance that the two must keep. */
struct live {
	int32_t base;
	int32_t size;
	struct vmcu_container_distance apart;
};

/** A tensor that is being placed. */
struct piece {
	struct live live[MOST_LIVE];
	uint32_t count;
	uint32_t ways; /**< directions */
	int32_t size;
	uint32_t layer; /**< UINT32_MAX: none, an input */
};

static bool is_at(const struct vmcu_online *o, const struct vmcu_layer *layer, uint32_t tensor,
		  uint32_t *index)
{
	const uint16_t *inputs = vmcu_at(o->model->base, layer->inputs);

	for (uint32_t i = 0; i < layer->input_count; i++) {
		if (inputs[i] == tensor) {
			*index = i;
			return true;
		}
	}
	return false;
}

/**
 * The distance that a tensor of @a size bytes keeps from another: all of both, or less of a dying
 * input.
 */
static struct vmcu_container_distance distance_to(const struct vmcu_online *o, uint32_t layer,
						  uint32_t other, int32_t size)
{
	const struct vmcu_buffer *held = &o->buffers[other];
	uint32_t index = 0U;

	if (layer != UINT32_MAX && held->last == layer + 1U &&
	    is_at(o, &o->layers[layer], other, &index)) {
		return o->distances[o->steps[layer].distance + index];
	}
	return (struct vmcu_container_distance){
		.below = {size, size},
		.above = {-held->size, -held->size},
	};
}

/** Finds the tensors that are alive beside another; false if there are too many. */
static bool begin_piece(const struct vmcu_online *o, uint32_t depth, struct piece *p)
{
	const uint32_t inputs = o->model->input_count;
	const uint32_t step = (depth < inputs) ? 0U : depth - inputs + 1U;

	p->layer = step - 1U;
	p->count = 0U;
	p->ways = (step != 0U && o->steps[p->layer].descends != 0U) ? 2U : 1U;
	p->size = o->buffers[o->order[depth]].size;
	for (uint32_t i = 0; i < depth; i++) {
		const struct vmcu_buffer *held = &o->buffers[o->order[i]];

		if (held->last < step) {
			continue;
		}
		if (p->count == MOST_LIVE) {
			return false;
		}
		p->live[p->count].base = held->base;
		p->live[p->count].size = held->size;
		p->live[p->count].apart = distance_to(o, p->layer, o->order[i], p->size);
		p->count++;
	}
	return true;
}

/** Bytes that two tensors share at their closest. */
static int32_t count_shared(const struct live *live, int32_t size, uint32_t way)
{
	const int32_t below = vmcu_online_larger(live->apart.below[way], 0);
	const int32_t above = vmcu_online_larger(-live->apart.above[way], 0);
	const int32_t lower = vmcu_online_larger(below + live->size, size);
	const int32_t upper = vmcu_online_larger(live->size, size + above);

	return live->size + size - ((lower < upper) ? lower : upper);
}

/** Bytes without which a tensor cannot be written in a direction. */
static int32_t lower_bound(const struct vmcu_online *o, const struct piece *p, uint32_t way)
{
	int32_t alive = 0;
	int32_t together = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		alive += p->live[i].size;
		together += count_shared(&p->live[i], p->size, way);
	}
	alive += vmcu_online_larger(p->size - together, 0);
	return alive + ((p->layer == UINT32_MAX) ? 0 : (int32_t)o->steps[p->layer].scratch);
}

/** The bytes without which the worst layer cannot run, -1 if too much is alive in one. */
static int32_t find_worst(const struct vmcu_online *o, struct piece *p)
{
	int32_t most = 0;

	for (uint32_t depth = 0; depth < o->count; depth++) {
		int32_t least;

		if (!begin_piece(o, depth, p)) {
			return -1;
		}
		least = lower_bound(o, p, 0U);
		if (p->ways == 2U) {
			const int32_t other = lower_bound(o, p, 1U);

			least = (other < least) ? other : least;
		}
		most = vmcu_online_larger(most, least);
	}
	return most;
}

/** A base worth trying: overlaps first, then side by side, then the ends of the pool. */
static int32_t candidate_base(const struct vmcu_online *o, const struct piece *p, uint32_t way,
			      uint32_t number)
{
	const uint32_t n = p->count;

	if (number < 2U * n) {
		const struct live *live = &p->live[number / 2U];

		return live->base -
		       ((number % 2U == 0U) ? live->apart.below[way] : live->apart.above[way]);
	}
	if (number < 3U * n) {
		return p->live[number - 2U * n].base - p->size;
	}
	if (number < 4U * n) {
		return p->live[number - 3U * n].base + p->live[number - 3U * n].size;
	}
	return (number == 4U * n) ? o->pool - p->size : 0;
}

/** True if nothing that is alive is overwritten. */
static bool is_clear(const struct piece *p, uint32_t way, int32_t base)
{
	for (uint32_t i = 0; i < p->count; i++) {
		const int32_t distance = p->live[i].base - base;

		if (p->live[i].apart.above[way] < distance &&
		    distance < p->live[i].apart.below[way]) {
			return false;
		}
	}
	return true;
}

/** True if a base has been tried in this direction. */
static bool is_tried(const struct vmcu_online *o, const struct piece *p, uint32_t way,
		     uint32_t number, int32_t base)
{
	for (uint32_t i = 0; i < number; i++) {
		if (candidate_base(o, p, way, i) == base) {
			return true;
		}
	}
	return false;
}

/** Puts a tensor to a base, and its layer's scratch beside it; false if there is no room. */
static bool put_tensor(struct vmcu_online *o, const struct piece *p, uint32_t tensor, uint32_t way,
		       int32_t base)
{
	o->buffers[tensor].base = base;
	if (p->layer == UINT32_MAX) {
		return true;
	}
	o->layers[p->layer].descending = (uint8_t)way;
	if (o->steps[p->layer].scratch != 0U) {
		const int32_t gap = vmcu_online_gap(o, p->layer, o->pool);

		if (gap < 0) {
			return false;
		}
		o->layers[p->layer].scratch = (uint32_t)gap;
	}
	return true;
}

/** Takes the next base that a tensor fits at, from candidate @a next on; false if none is left. */
static bool put_at_next(struct vmcu_online *o, const struct piece *p, uint32_t tensor,
			uint16_t *next)
{
	const uint32_t each = 4U * p->count + 2U;

	while (*next < p->ways * each) {
		const uint32_t way = *next / each;
		const uint32_t number = *next % each;
		const int32_t base = candidate_base(o, p, way, number);

		(*next)++;
		if (base >= 0 && base <= o->pool - p->size && is_clear(p, way, base) &&
		    !is_tried(o, p, way, number, base) && put_tensor(o, p, tensor, way, base)) {
			return true;
		}
	}
	return false;
}

VMCU_SMALL bool vmcu_online_segments(struct vmcu_online *o)
{
	struct piece p;
	uint32_t turns = 0U;
	uint32_t depth = 0U;

	o->pool = find_worst(o, &p);
	if (o->pool < 0) {
		return false;
	}
	o->work[0] = 0U;
	while (depth < o->count) {
		/* Whether too much is alive is known. */
		(void)begin_piece(o, depth, &p);
		if (put_at_next(o, &p, o->order[depth], &o->work[depth])) {
			depth++;
			if (depth < o->count) {
				o->work[depth] = 0U;
			}
			continue;
		}
		turns++;
		if (depth == 0U || turns > MOST_TURNS) {
			return false;
		}
		depth--;
	}
	return true;
}

#endif /* VMCU_ONLINE_PLANNER */
