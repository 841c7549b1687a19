/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The weights file of a container that has one, read from memory, and its digests mended.
 */

#ifndef FUZZ_WEIGHTS_H_
#define FUZZ_WEIGHTS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <vmcu/container.h>

#if defined(VMCU_EXTERNAL_WEIGHTS)
/* As the container has it. */
struct told {
	uint32_t chunks;
	uint32_t count;
	uint32_t buffer;
	uint8_t digest[VMCU_DIGEST_BYTES];
};

static struct {
	uint8_t *data;
	size_t size;
	size_t told;
	size_t reads[VMCU_MOST_READS];
	unsigned int started, ended;
} weights;

static int start_read(void *user, uint32_t offset, void *to, size_t bytes)
{
	(void)user;
	if (weights.started - weights.ended == VMCU_MOST_READS || offset > weights.size ||
	    bytes > weights.size - offset) {
		return -1;
	}
	memcpy(to, weights.data + offset, bytes);
	weights.reads[weights.started++ % VMCU_MOST_READS] = bytes;
	return 0;
}

static int wait_read(void *user)
{
	(void)user;
	return (int)weights.reads[weights.ended++ % VMCU_MOST_READS];
}

static const struct vmcu_reader reader = {.start = start_read, .wait = wait_read};

static uint32_t rotated(uint32_t x, unsigned int bits)
{
	return x << bits | x >> (32U - bits);
}

/** MurmurHash3_x86_32 of whole words. */
static uint32_t digest_of(const uint8_t *data, uint32_t bytes)
{
	uint32_t h = 0;

	for (uint32_t i = 0; i + 4U <= bytes; i += 4U) {
		uint32_t k;

		memcpy(&k, data + i, sizeof(k));
		h = rotated(h ^ rotated(k * 0xcc9e2d51U, 15) * 0x1b873593U, 13) * 5U + 0xe6546b64U;
	}
	h ^= bytes;
	h = (h ^ h >> 16) * 0x85ebca6bU;
	h = (h ^ h >> 13) * 0xc2b2ae35U;
	return h ^ h >> 16;
}

/** Mends the digests of chunks that are in the weights file, and the one of all of them. */
static void mend_chunks(uint8_t *data, size_t size)
{
	uint8_t digest[VMCU_DIGEST_BYTES] = {0};
	struct told told;

	if (weights.told == 0U || weights.told + sizeof(told) > size) {
		return;
	}
	memcpy(&told, data + weights.told, sizeof(told));
	for (uint32_t i = 0; i < told.count; i++) {
		const uint64_t at = told.chunks + (uint64_t)i * sizeof(struct vmcu_chunk);
		struct vmcu_chunk chunk;

		if (at + sizeof(chunk) > size) {
			return;
		}
		memcpy(&chunk, data + at, sizeof(chunk));
		if (chunk.offset > weights.size || chunk.bytes > weights.size - chunk.offset) {
			return;
		}
		chunk.digest = digest_of(weights.data + chunk.offset, chunk.bytes);
		memcpy(data + at, &chunk, sizeof(chunk));
		vmcu_sha256(digest, sizeof(digest), weights.data + chunk.offset, chunk.bytes,
			    digest);
	}
	memcpy(data + weights.told + offsetof(struct told, digest), digest, sizeof(digest));
}

/** Gives a context its weights; true if it has some. */
static bool set_weights(struct vmcu_context *ctx)
{
	return vmcu_set_reader(ctx, &reader) == 0;
}
#else
static void mend_chunks(uint8_t *data, size_t size)
{
	(void)data;
	(void)size;
}

static bool set_weights(struct vmcu_context *ctx)
{
	(void)ctx;
	return false;
}
#endif

#endif /* FUZZ_WEIGHTS_H_ */
