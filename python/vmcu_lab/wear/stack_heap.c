/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Runs tasks whose stacks move in a heap, by lib/vmcu/endurance, and counts. Only addresses are
 * modelled: writes follow from where jobs ran.
 */

#include <stdint.h>

#include <vmcu/endurance.h>

enum policy {
	STAY,
	CIRCULAR,
	WALK
};
enum fit {
	FIRST_FIT,
	LARGEST
};

#define MAX_BLOCKS  2048
#define MAX_TASKS   16
/* A header and a word. */
#define LEAST_BLOCK 12

struct setting {
	/* merge: freed neighbours become one; redraw: a new random number for every search. */
	int32_t policy, fit, merge, redraw, heap, header, align;
	int32_t stride_depth, depth, stride_size;
	int32_t tasks, rounds;
	/* The cost in cycles of: a random number, the first search, another, a conversion, a
	 * stride, a stack's move. */
	int32_t random, first, search, convert, stride, move;
	uint64_t seed;
};

struct tally {
	int64_t attempts, moves, stride_attempts, strides, conversions, cycles, worst;
};

/* A heap with its tasks' stacks. */
struct bench {
	struct vmcu_stack_setting rules;
	struct vmcu_stacks heap;
	struct vmcu_stack_block blocks[MAX_BLOCKS];
	struct vmcu_stack stacks[MAX_TASKS];
	double ran[MAX_TASKS];
};

static int64_t count_cycles(const struct setting *set, const struct vmcu_stack_counts *counts)
{
	return (int64_t)counts->numbers * set->random + (int64_t)counts->firsts * set->first +
	       (int64_t)counts->searches * set->search +
	       (int64_t)counts->conversions * set->convert +
	       (int64_t)counts->strides * set->stride + (int64_t)counts->moves * set->move;
}

static int begin_bench(struct bench *bench, const struct setting *set, const int32_t *bytes,
		       uint32_t *headers)
{
	bench->rules = (struct vmcu_stack_setting){
		.bytes = (uint32_t)set->heap,
		.align = (uint32_t)set->align,
		.header = (set->policy == WALK) ? 0U : (uint32_t)set->header,
		.stride_size = (uint32_t)set->stride_size,
		.stride_depth = (uint8_t)set->stride_depth,
		.depth = (uint8_t)set->depth,
		.policy = (set->policy == WALK) ? VMCU_STACK_WALK : VMCU_STACK_CIRCULAR,
		.largest = set->fit == LARGEST,
		.merge = set->merge != 0,
		.redraw = set->redraw != 0,
	};
	if (vmcu_stacks_init(&bench->heap, &bench->rules, bench->blocks, MAX_BLOCKS, set->seed)) {
		return -1;
	}
	bench->heap.headers = headers;
	for (int32_t task = 0; task < set->tasks; task++) {
		bench->ran[task] = 0.0;
		if (vmcu_stacks_add(&bench->heap, &bench->stacks[task], (uint32_t)bytes[task])) {
			return -1;
		}
	}
	return 0;
}

static void move_stack(struct bench *bench, int32_t task, const struct setting *set,
		       struct tally *tally)
{
	struct vmcu_stack_counts *counts = &bench->heap.counts;
	int64_t took;

	/* Cycles of a long run are more than 32-bit counts hold. */
	*counts = (struct vmcu_stack_counts){0};
	(void)vmcu_stacks_move(&bench->heap, &bench->stacks[task]);
	took = count_cycles(set, counts);
	tally->attempts++;
	tally->moves += counts->moves;
	tally->stride_attempts += counts->stride_attempts;
	tally->strides += counts->strides;
	tally->conversions += counts->conversions;
	tally->cycles += took;
	if (took > tally->worst) {
		tally->worst = took;
	}
}

/*
 * Runs the tasks in turn. bytes: of each stack; ticks: a job's running time, each; threshold: in
 * ticks. Adds to jobs (tasks, heap / 4) at the word where the stack began, to arrivals (likewise)
 * where it moved to, to headers (heap / 4) where a header was written. Returns 0, -1 if the heap
 * does not hold the stacks, or -2 if heap or tasks are more than this simulates.
 */
int wear_run(const struct setting *set, const int32_t *bytes, const double *ticks, double threshold,
	     int32_t *jobs, int32_t *arrivals, uint32_t *headers, struct tally *tally)
{
	struct bench bench;
	int32_t words = set->heap / 4;

	if (set->tasks > MAX_TASKS || set->heap > MAX_BLOCKS * LEAST_BLOCK) {
		return -2;
	}
	if (begin_bench(&bench, set, bytes, headers) != 0) {
		return -1;
	}
	for (int32_t round = 0; round < set->rounds; round++) {
		for (int32_t task = 0; task < set->tasks; task++) {
			int64_t moves = tally->moves;
			uint32_t at;

			if (set->policy != STAY && bench.ran[task] >= threshold) {
				bench.ran[task] = 0.0;
				move_stack(&bench, task, set, tally);
			}
			bench.ran[task] += ticks[task];
			at = bench.stacks[task].start + bench.rules.header;
			jobs[(uint32_t)(task * words) + at / 4U]++;
			arrivals[(uint32_t)(task * words) + at / 4U] += tally->moves != moves;
		}
	}
	return 0;
}
