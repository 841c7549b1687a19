/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs a model with readers that are late or fail at each chunk in turn.
 *
 * MODEL_HEADER is the model's header, in quotes. The last argument is
 * the weights file, the first one the model's container in a build that loads it; FLIPS bits of it
 * are flipped, one after the other. A thread reads it, so that a kernel which runs too early
 * computes another answer. A model that takes rows gets them one by one, and one that keeps state
 * for some hops.
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vmcu/vmcu.h>
#if defined(VMCU_CONTAINERS)
#include <vmcu/container.h>
#endif
#include MODEL_HEADER

/* Answers of a model that keeps state. */
#define HOPS 3

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum fault {
	FAULT_NONE,
	FAULT_START,
	FAULT_POSITIVE,
	FAULT_WAIT,
	FAULT_SHORT,
	FAULT_LONG,
	FAULT_BIT,
	FAULT_CANCEL,
};

struct request {
	uint32_t offset;
	uint8_t *to;
	size_t bytes;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const uint8_t *file;
	struct request requests[VMCU_MOST_READS];
	unsigned int started, done, waited;
	unsigned int most; /**< reads that were queued at the same time */
	bool late;
	enum fault fault;
	unsigned int at; /**< the read with the fault */
	unsigned int seed;
	struct vmcu_context *ctx;
} device = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *read_in_turn(void *unused)
{
	unsigned int seed = 1U;

	(void)unused;
	for (;;) {
		struct request next;

		pthread_mutex_lock(&device.lock);
		while (device.done == device.started) {
			pthread_cond_wait(&device.changed, &device.lock);
		}
		next = device.requests[device.done % VMCU_MOST_READS];
		pthread_mutex_unlock(&device.lock);
		memset(next.to, 0x5a, next.bytes);
		if (device.late) {
			const struct timespec pause = {.tv_nsec = rand_r(&seed) % 1000000};

			nanosleep(&pause, NULL);
		}
		memcpy(next.to, device.file + next.offset, next.bytes);
		pthread_mutex_lock(&device.lock);
		device.done++;
		pthread_cond_broadcast(&device.changed);
		pthread_mutex_unlock(&device.lock);
	}
	return NULL;
}

static int start(void *user, uint32_t offset, void *to, size_t bytes)
{
	CHECK(user == &device);
	if (device.fault == FAULT_START && device.started == device.at) {
		return -ENODEV;
	}
	if (device.fault == FAULT_POSITIVE && device.started == device.at) {
		return 1;
	}
	pthread_mutex_lock(&device.lock);
	CHECK(device.started - device.waited < VMCU_MOST_READS);
	device.requests[device.started++ % VMCU_MOST_READS] =
		(struct request){.offset = offset, .to = to, .bytes = bytes};
	if (device.started - device.waited > device.most) {
		device.most = device.started - device.waited;
	}
	pthread_cond_broadcast(&device.changed);
	pthread_mutex_unlock(&device.lock);
	return 0;
}

static int wait(void *user)
{
	const struct request *oldest = &device.requests[device.waited % VMCU_MOST_READS];
	const bool faulty = device.waited == device.at;

	CHECK(user == &device && device.waited < device.started);
	pthread_mutex_lock(&device.lock);
	while (device.done <= device.waited) {
		pthread_cond_wait(&device.changed, &device.lock);
	}
	device.waited++;
	pthread_mutex_unlock(&device.lock);
	if (faulty && device.fault == FAULT_CANCEL) {
		CHECK(vmcu_cancel(device.ctx) == 0);
	}
	if (faulty && device.fault == FAULT_WAIT) {
		memset(oldest->to, 0x77, oldest->bytes);
		return -ETIMEDOUT;
	}
	if (faulty && (device.fault == FAULT_SHORT || device.fault == FAULT_LONG)) {
		memset(oldest->to, 0x77, oldest->bytes);
		return (int)oldest->bytes + ((device.fault == FAULT_SHORT) ? -1 : 1);
	}
	if (faulty && device.fault == FAULT_BIT) {
		oldest->to[(size_t)rand_r(&device.seed) % oldest->bytes] ^=
			(uint8_t)(1U << rand_r(&device.seed) % 8);
	}
	return (int)oldest->bytes;
}

static const struct vmcu_reader reader = {.start = start, .wait = wait, .user = &device};
#if defined(VMCU_CONTAINERS)
#define FILE_BYTES  ((size_t)1 << 18)
#define ARENA_BYTES ((size_t)1 << 20)

/* The tables are those of the container. */
#define MODEL loaded
static struct vmcu_model loaded;
static uint8_t container[FILE_BYTES] __attribute__((aligned(VMCU_CONTAINER_ALIGN)));
static VMCU_POOL_DEFINE(pool, ARENA_BYTES);
#else
#define MODEL net_model
#if defined(VMCU_SEVERAL_POOLS)
VMCU_POOLS_DEFINE(pools, net);
#else
static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(net));
#endif
#endif
static uint8_t answers[HOPS][VMCU_MODEL_NET_OUTPUT0_BYTES];

static bool keeps_state(void)
{
#if defined(VMCU_STREAMS)
	return MODEL.stream != NULL;
#else
	return false;
#endif
}

/** The next row, or the whole input. */
static int feed(struct vmcu_context *ctx, unsigned int *seed)
{
	static int8_t row[VMCU_MODEL_NET_INPUT0_BYTES];
	const unsigned int rows = VMCU_MODEL_NET_INPUT0_BYTES / vmcu_row_size(ctx, 0);
	int err;

	for (unsigned int y = 0; y < (MODEL.streamed ? 1 : rows); y++) {
		for (size_t i = 0; i < vmcu_row_size(ctx, 0); i++) {
			row[i] = (int8_t)rand_r(seed);
		}
		if (!MODEL.streamed) {
			memcpy(vmcu_row_of_input(ctx, 0, y), row, vmcu_row_size(ctx, 0));
		}
	}
	err = MODEL.streamed ? vmcu_push_row(ctx, row) : vmcu_invoke(ctx);
	/* No read runs when it has returned. */
	CHECK(device.waited == device.started);
	return err;
}

/** Begins anew, with a fault in read @a at. */
static void set_fault(enum fault fault, unsigned int at)
{
	pthread_mutex_lock(&device.lock);
	device.started = device.done = device.waited = 0U;
	pthread_mutex_unlock(&device.lock);
	device.fault = fault;
	device.at = at;
}

/** One inference on always the same input, or hops. */
static int infer(struct vmcu_context *ctx, enum fault fault, unsigned int at, bool late)
{
	unsigned int seed = 7U;
	int err;

	set_fault(fault, at);
	device.late = late;
	device.ctx = ctx;
	/* It has read nothing yet, so that weights are read which stay in the buffer. */
	CHECK(vmcu_set_reader(ctx, &reader) == 0);
	for (unsigned int hop = 0; hop < (keeps_state() ? HOPS : 1); hop++) {
		do {
			err = feed(ctx, &seed);
		} while (err == 1);
		if (err != 0) {
			break;
		}
		memcpy(answers[hop], vmcu_output(ctx, 0), sizeof(answers[hop]));
	}
#if defined(VMCU_STREAMS)
	if (err == 0 || fault == FAULT_CANCEL) {
		CHECK(vmcu_reset(ctx) == 0);
	}
#endif
	/* A cancelled inference starts no further read. */
	CHECK(fault != FAULT_CANCEL || device.started <= at + VMCU_MOST_READS);
	return err;
}

static size_t read_file(const char *name, uint8_t *to, size_t most)
{
	FILE *file = fopen(name, "rb");
	size_t size;

	CHECK(file != NULL);
	size = fread(to, 1, most, file);
	(void)fclose(file);
	return size;
}

#if defined(VMCU_CONTAINERS)
static struct vmcu_refusal refusal;

static int load(size_t size, size_t arena, bool replay)
{
	const struct vmcu_load_options options = {.reader = &reader, .replay = replay};

	return vmcu_model_load_as(&MODEL, container, size, pool, arena, &options, &refusal);
}

/** Every read fails in every way while the model is loaded; then it is. */
static void load_model(const char *name, const int *codes)
{
	const size_t size = read_file(name, container, FILE_BYTES);
	size_t needed;

	CHECK(vmcu_model_load(&MODEL, container, size, pool, ARENA_BYTES) == -EINVAL);
	set_fault(FAULT_NONE, 0U);
	/* What it asks for is enough. */
	CHECK(load(size, 8U, false) == -ENOMEM);
	needed = (refusal.index + 7U) / 8U * 8U;
	CHECK(load(size, needed - 8U, false) == -ENOMEM);
	set_fault(FAULT_NONE, 0U);
	CHECK(load(size, needed, false) == 0);
	for (unsigned int at = device.waited; at-- > 0U;) {
		for (enum fault fault = FAULT_START; fault <= FAULT_BIT; fault++) {
			set_fault(fault, at);
			CHECK(load(size, ARENA_BYTES, false) == codes[fault]);
		}
	}
	set_fault(FAULT_NONE, 0U);
	CHECK(load(size, ARENA_BYTES, true) == 0);
}
#endif

int main(int argc, char **argv)
{
	static const int codes[] = {
		[FAULT_START] = -ENODEV,     [FAULT_POSITIVE] = -EIO, [FAULT_WAIT] = -ETIMEDOUT,
		[FAULT_SHORT] = -EIO,        [FAULT_LONG] = -EIO,     [FAULT_BIT] = -EBADMSG,
		[FAULT_CANCEL] = -ECANCELED,
	};
	static uint8_t file[VMCU_MODEL_NET_WEIGHTS_BYTES + 1];
	static uint8_t wanted[sizeof(answers)];
	unsigned int reads;
	const struct vmcu_reader incomplete = {.start = start};
	struct vmcu_context ctx;
	pthread_t thread;

	CHECK(read_file(argv[argc - 1], file, sizeof(file)) == VMCU_MODEL_NET_WEIGHTS_BYTES);
	device.file = file;
	CHECK(pthread_create(&thread, NULL, read_in_turn, NULL) == 0);
#if defined(VMCU_CONTAINERS)
	load_model(argv[1], codes);
	CHECK(vmcu_init(&ctx, &MODEL, pool, vmcu_arena_head(&MODEL, ARENA_BYTES)) == 0);
#elif defined(VMCU_SEVERAL_POOLS)
	CHECK(vmcu_init_pools(&ctx, &MODEL, pools, VMCU_MODEL_NET_POOLS) == 0);
#else
	CHECK(vmcu_init(&ctx, &MODEL, pool, sizeof(pool)) == 0);
#endif
	CHECK(feed(&ctx, &device.seed) == -EINVAL);
	CHECK(vmcu_set_reader(&ctx, NULL) == -EINVAL);
	CHECK(vmcu_set_reader(NULL, &reader) == -EINVAL);
	CHECK(vmcu_set_reader(&ctx, &incomplete) == -EINVAL);
	CHECK(infer(&ctx, FAULT_NONE, 0U, false) == 0);
	memcpy(wanted, answers, sizeof(wanted));
	reads = device.waited;
	for (unsigned int at = 0; at < reads; at++) {
		for (enum fault fault = FAULT_START; fault <= FAULT_CANCEL; fault++) {
			CHECK(infer(&ctx, fault, at, false) == codes[fault]);
			CHECK(infer(&ctx, FAULT_NONE, 0U, at % 4U == 0U) == 0);
			CHECK(memcmp(wanted, answers, sizeof(wanted)) == 0);
		}
	}
	for (unsigned int flip = 0; flip < FLIPS; flip++) {
		CHECK(infer(&ctx, FAULT_BIT, flip % reads, false) == -EBADMSG);
	}
	printf("%u chunks, %u reads, %u queued\n", (unsigned int)MODEL.chunk_count, reads,
	       device.most);
	return 0;
}
