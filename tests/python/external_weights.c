/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs a model with readers that are late or fail at each chunk in turn.
 *
 * MODEL_HEADER and MODEL are the model's header, in quotes, and its tables. The only argument is
 * the weights file. A thread reads it, so that a kernel which runs too early computes another
 * answer.
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
#include MODEL_HEADER

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
	FAULT_OTHER_FILE,
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
	if (faulty && device.fault == FAULT_OTHER_FILE) {
		oldest->to[oldest->bytes - 1U] ^= 1U;
	}
	return (int)oldest->bytes;
}

static const struct vmcu_reader reader = {.start = start, .wait = wait, .user = &device};
static uint8_t pool[VMCU_MODEL_POOL_BYTES(net)] __attribute__((aligned(VMCU_POOL_ALIGN)));

/** One inference on always the same input. */
static int infer(struct vmcu_context *ctx, enum fault fault, unsigned int at, bool late)
{
	unsigned int seed = 7U;
	int err;

	pthread_mutex_lock(&device.lock);
	device.started = device.done = device.waited = 0U;
	pthread_mutex_unlock(&device.lock);
	device.fault = fault;
	device.at = at;
	device.late = late;
	device.ctx = ctx;
	memset(pool, 0xa5, sizeof(pool));
	for (size_t i = 0; i < vmcu_input_size(ctx, 0); i++) {
		vmcu_input(ctx, 0)[i] = (int8_t)rand_r(&seed);
	}
	err = vmcu_invoke(ctx);
	/* No read runs when vmcu_invoke() has returned. */
	CHECK(device.waited == device.started);
	/* A cancelled inference starts no further read. */
	CHECK(fault != FAULT_CANCEL || device.started <= at + VMCU_MOST_READS);
	return err;
}

int main(int argc, char **argv)
{
	static const int codes[] = {
		[FAULT_START] = -ENODEV,     [FAULT_POSITIVE] = -EIO, [FAULT_WAIT] = -ETIMEDOUT,
		[FAULT_SHORT] = -EIO,        [FAULT_LONG] = -EIO,     [FAULT_OTHER_FILE] = -EBADMSG,
		[FAULT_CANCEL] = -ECANCELED,
	};
	static uint8_t file[VMCU_MODEL_NET_WEIGHTS_BYTES + 1];
	static uint8_t answer[VMCU_MODEL_NET_OUTPUT0_BYTES];
	const struct vmcu_reader incomplete = {.start = start};
	struct vmcu_context ctx;
	pthread_t thread;
	FILE *weights = fopen(argv[argc - 1], "rb");

	CHECK(weights != NULL);
	CHECK(fread(file, 1, sizeof(file), weights) == VMCU_MODEL_NET_WEIGHTS_BYTES);
	device.file = file;
	CHECK(pthread_create(&thread, NULL, read_in_turn, NULL) == 0);
	CHECK(vmcu_init(&ctx, &net_model, pool, sizeof(pool)) == 0);
	CHECK(vmcu_invoke(&ctx) == -EINVAL);
	CHECK(vmcu_set_reader(&ctx, NULL) == -EINVAL);
	CHECK(vmcu_set_reader(NULL, &reader) == -EINVAL);
	CHECK(vmcu_set_reader(&ctx, &incomplete) == -EINVAL);
	CHECK(vmcu_set_reader(&ctx, &reader) == 0);
	CHECK(infer(&ctx, FAULT_NONE, 0U, false) == 0);
	memcpy(answer, vmcu_output(&ctx, 0), sizeof(answer));
	for (unsigned int at = 0; at < net_model.chunk_count; at++) {
		for (enum fault fault = FAULT_START; fault <= FAULT_CANCEL; fault++) {
			CHECK(infer(&ctx, fault, at, false) == codes[fault]);
			CHECK(infer(&ctx, FAULT_NONE, 0U, at % 4U == 0U) == 0);
			CHECK(memcmp(answer, vmcu_output(&ctx, 0), sizeof(answer)) == 0);
		}
	}
	printf("%u chunks, %u reads queued\n", (unsigned int)net_model.chunk_count, device.most);
	(void)fwrite(answer, 1, sizeof(answer), stderr);
	return 0;
}
