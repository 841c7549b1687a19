/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Stacks that move in a heap of their own, counted: the paper's allocator ("Improving NVM Lifetime
 * Using Task Stack Migration on Low-End MCU-Based Devices", IEEE Access 2022) and the walk that
 * vmcu puts in its place. Only addresses are modelled: writes follow from where jobs ran.
 */

#include <stdint.h>
#include <string.h>

enum policy { STAY, CIRCULAR, WALK };
enum fit { FIRST_FIT, LARGEST };
enum state { FREE, FREED, LIVE };

#define MAX_BLOCKS 2048
#define MAX_TASKS  16
/* A header and a word. */
#define LEAST_BLOCK 12
/* What FreeRTOS's heap_4 leaves in one piece: two headers. */
#define LEAST_SPLIT 16

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

struct block {
	int32_t start, size, state;
	int64_t stamp;
};

struct heap {
	const struct setting *set;
	struct block blocks[MAX_BLOCKS];
	int32_t count;
	int64_t clock;
	uint64_t random;
	int32_t *headers;
};

static uint64_t draw(struct heap *heap)
{
	uint64_t x = heap->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	heap->random = x;
	return (x * 2685821657736338717ULL) >> 33;
}

static int32_t room(const struct setting *set, int32_t bytes)
{
	return (bytes + set->header + set->align - 1) / set->align * set->align;
}

static void insert(struct heap *heap, int32_t at, struct block block)
{
	memmove(&heap->blocks[at + 1], &heap->blocks[at],
		(size_t)(heap->count - at) * sizeof(struct block));
	heap->blocks[at] = block;
	heap->count++;
}

static void erase(struct heap *heap, int32_t at)
{
	heap->count--;
	memmove(&heap->blocks[at], &heap->blocks[at + 1],
		(size_t)(heap->count - at) * sizeof(struct block));
}

/* Index of the free block that the search policy takes for `size` bytes, or -1. */
static int32_t search(const struct heap *heap, int32_t size)
{
	int32_t found = -1;

	for (int32_t i = 0; i < heap->count; i++) {
		const struct block *block = &heap->blocks[i];

		if (block->state != FREE || block->size < size) {
			continue;
		}
		if (heap->set->fit == FIRST_FIT) {
			return i;
		}
		if (found < 0 || block->size > heap->blocks[found].size) {
			found = i;
		}
	}
	return found;
}

/* Takes `size` bytes from the low end of a free block. Returns their address. */
static int32_t take(struct heap *heap, int32_t at, int32_t size)
{
	struct block *block = &heap->blocks[at];
	struct block rest = *block;
	int32_t start = block->start;

	if (block->size - size >= LEAST_SPLIT) {
		block->size = size;
		rest.start += size;
		rest.size -= size;
		heap->headers[rest.start / 4]++;
		insert(heap, at + 1, rest);
	}
	heap->blocks[at].state = LIVE;
	heap->headers[start / 4]++;
	return start;
}

/* Joins block `at` with neighbours of its state; the lowest header stays. Returns its index. */
static int32_t join(struct heap *heap, int32_t at)
{
	struct block *blocks = heap->blocks;

	if (at + 1 < heap->count && blocks[at + 1].state == blocks[at].state) {
		blocks[at].size += blocks[at + 1].size;
		erase(heap, at + 1);
	}
	if (at > 0 && blocks[at - 1].state == blocks[at].state) {
		blocks[at - 1].size += blocks[at].size;
		erase(heap, at);
		at--;
	}
	return at;
}

/* A live block becomes a freed one, the last in the queue unless it joins one below it. */
static void release(struct heap *heap, int32_t at, int32_t merge)
{
	heap->blocks[at].state = FREED;
	heap->blocks[at].stamp = heap->clock++;
	if (merge != 0) {
		at = join(heap, at);
	}
	heap->headers[heap->blocks[at].start / 4]++;
}

static int32_t index_of(const struct heap *heap, int32_t start)
{
	int32_t at = 0;

	while (heap->blocks[at].start != start) {
		at++;
	}
	return at;
}

/* The oldest freed block becomes free, joined with free neighbours. */
static void convert(struct heap *heap)
{
	int32_t oldest = -1;

	for (int32_t i = 0; i < heap->count; i++) {
		if (heap->blocks[i].state == FREED &&
		    (oldest < 0 || heap->blocks[i].stamp < heap->blocks[oldest].stamp)) {
			oldest = i;
		}
	}
	if (oldest >= 0) {
		heap->blocks[oldest].state = FREE;
		oldest = join(heap, oldest);
		heap->headers[heap->blocks[oldest].start / 4]++;
	}
}

static int32_t stride_room(struct heap *heap)
{
	uint64_t limit = (uint64_t)heap->set->stride_size;

	return room(heap->set, 1 + (int32_t)(draw(heap) % limit));
}

/* Searches and converts up to `depth` times. Returns a free block's index or -1. */
static int32_t obtain(struct heap *heap, int32_t *size, int32_t depth, int32_t redraw,
		      struct tally *tally)
{
	const struct setting *set = heap->set;

	for (int32_t turn = 0; turn < depth; turn++) {
		int32_t at;

		if (turn > 0 && redraw != 0) {
			*size = stride_room(heap);
			tally->cycles += set->random;
		}
		at = search(heap, *size);
		tally->cycles += turn == 0 ? set->first : set->search;
		if (at >= 0) {
			return at;
		}
		convert(heap);
		tally->conversions++;
		tally->cycles += set->convert;
	}
	return -1;
}

/* The paper's process: a stride of random size, freed at once, then the stack. */
static int32_t migrate(struct heap *heap, int32_t old, int32_t size, struct tally *tally)
{
	const struct setting *set = heap->set;
	int32_t at, start;

	if (set->stride_size > 0) {
		int32_t bytes = stride_room(heap);

		tally->stride_attempts++;
		tally->cycles += set->random;
		at = obtain(heap, &bytes, set->stride_depth, set->redraw, tally);
		if (at >= 0) {
			start = take(heap, at, bytes);
			/* Strides that joined each other would come back in one piece. */
			release(heap, index_of(heap, start), 0);
			tally->strides++;
			tally->cycles += set->stride;
		}
	}
	at = obtain(heap, &size, set->depth, 0, tally);
	if (at < 0) {
		return old;
	}
	start = take(heap, at, size);
	release(heap, index_of(heap, old), set->merge);
	tally->moves++;
	tally->cycles += set->move;
	return start;
}

static int apart(const int32_t *starts, const int32_t *sizes, int32_t tasks, int32_t mine,
		 int32_t start)
{
	for (int32_t other = 0; other < tasks; other++) {
		if (other != mine && start < starts[other] + sizes[other] &&
		    starts[other] < start + sizes[mine]) {
			return 0;
		}
	}
	return 1;
}

static int32_t coprime(int32_t count)
{
	/* The golden section spreads the places of any few moves in a row. */
	int32_t step = (int32_t)((double)count * 0.6180339887498949);

	for (; step > 1; step--) {
		int32_t a = count, b = step;

		while (b != 0) {
			int32_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1) {
			return step;
		}
	}
	return 1;
}

/*
 * The next place of a task's walk over all aligned places, each visited once in a lap: the first
 * that no other task's stack lies on, of at most `depth`.
 */
static int32_t walk(const struct setting *set, const int32_t *starts, const int32_t *sizes,
		    int32_t task, int64_t *turn, struct tally *tally)
{
	int32_t places = (set->heap - sizes[task]) / set->align + 1;
	int32_t step = coprime(places);

	for (int32_t try = 0; try < set->depth; try++) {
		int32_t start = (int32_t)(++*turn * step % places) * set->align;

		tally->cycles += try == 0 ? set->first : set->search;
		if (apart(starts, sizes, set->tasks, task, start)) {
			tally->moves++;
			tally->cycles += set->move;
			return start;
		}
	}
	return starts[task];
}

/* Where each task's stack is, and what the task has run since it came there. */
struct stacks {
	int32_t starts[MAX_TASKS], sizes[MAX_TASKS];
	int64_t turns[MAX_TASKS];
	double ran[MAX_TASKS];
};

/* One stack after another from the heap's low end. Returns 0, or -1 if they do not fit. */
static int settle(struct heap *heap, struct stacks *stacks, const int32_t *bytes)
{
	const struct setting *set = heap->set;
	int32_t used = 0;

	for (int32_t task = 0; task < set->tasks; task++) {
		int32_t size = set->policy == WALK ? bytes[task] : room(set, bytes[task]);

		if (used + size > set->heap) {
			return -1;
		}
		if (set->policy != WALK) {
			(void)take(heap, heap->count - 1, size);
		}
		stacks->sizes[task] = size;
		stacks->starts[task] = used;
		used += size;
	}
	return 0;
}

static void attempt(struct heap *heap, struct stacks *stacks, int32_t task, struct tally *tally)
{
	const struct setting *set = heap->set;
	int64_t before = tally->cycles;

	stacks->ran[task] = 0.0;
	tally->attempts++;
	if (set->policy == WALK) {
		stacks->starts[task] = walk(set, stacks->starts, stacks->sizes, task,
					    &stacks->turns[task], tally);
	} else {
		stacks->starts[task] =
			migrate(heap, stacks->starts[task], stacks->sizes[task], tally);
	}
	if (tally->cycles - before > tally->worst) {
		tally->worst = tally->cycles - before;
	}
}

/*
 * Runs the tasks in turn. bytes: of each stack; ticks: a job's running time, each; threshold: in
 * ticks. Adds to jobs (tasks, heap / 4) at the word where the stack began, to arrivals (likewise)
 * where it moved to, to headers (heap / 4) where a header was written. Returns 0, -1 if the heap
 * does not hold the stacks, or -2 if heap or tasks are more than this simulates.
 */
int wear_run(const struct setting *set, const int32_t *bytes, const double *ticks,
	     double threshold, int32_t *jobs, int32_t *arrivals, int32_t *headers,
	     struct tally *tally)
{
	struct heap heap = {.set = set, .count = 1, .random = set->seed, .headers = headers};
	struct stacks stacks = {.turns = {0}};
	int32_t words = set->heap / 4;
	int32_t header = set->policy == WALK ? 0 : set->header;

	heap.blocks[0] = (struct block){0, set->heap, FREE, 0};
	if (set->tasks > MAX_TASKS || set->heap > MAX_BLOCKS * LEAST_BLOCK) {
		return -2;
	}
	if (settle(&heap, &stacks, bytes) != 0) {
		return -1;
	}
	for (int32_t round = 0; round < set->rounds; round++) {
		for (int32_t task = 0; task < set->tasks; task++) {
			int64_t moves = tally->moves;
			int32_t word;

			if (set->policy != STAY && stacks.ran[task] >= threshold) {
				attempt(&heap, &stacks, task, tally);
			}
			stacks.ran[task] += ticks[task];
			word = task * words + (stacks.starts[task] + header) / 4;
			jobs[word]++;
			arrivals[word] += tally->moves != moves;
		}
	}
	return 0;
}
