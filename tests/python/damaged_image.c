/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Loads containers of a file on a board, one after the other, and runs those that are accepted,
 * each in a pool of its size between bytes that it must not change. Writes a word for each: 1 if it
 * was accepted. Ends with 3 if anything outside of the pool was changed.
 */

#include <string.h>

#include <vmcu/container.h>

#include "io.h"

#define FILE_BYTES  (64U * 1024U)
#define ARENA_BYTES (32U * 1024U)
#define GUARD_BYTES 1024U
#define GUARD       0x5a

static uint8_t file[FILE_BYTES] __attribute__((aligned(VMCU_CONTAINER_ALIGN)));
static uint8_t copy[FILE_BYTES];
static uint8_t arena[ARENA_BYTES] __attribute__((aligned(VMCU_POOL_ALIGN)));
static uint8_t memory[GUARD_BYTES + ARENA_BYTES + GUARD_BYTES]
	__attribute__((aligned(VMCU_POOL_ALIGN)));
static struct vmcu_model model;
static struct vmcu_context ctx;

static bool is_guarded(const uint8_t *at, const uint8_t *end)
{
	while (at < end && *at == GUARD) {
		at++;
	}
	return at == end;
}

static bool is_same(const uint8_t *a, const uint8_t *b, size_t size)
{
	while (size > 0U && *a == *b) {
		a++;
		b++;
		size--;
	}
	return size == 0U;
}

/* True if the model changes nothing but its pool. */
static bool is_within(size_t size)
{
	uint8_t *const pool = &memory[GUARD_BYTES];

	memset(memory, GUARD, sizeof(memory));
	memcpy(copy, file, size);
	if (vmcu_init(&ctx, &model, pool, model.pool_bytes) != 0) {
		return false;
	}
	for (unsigned int i = 0; i < model.input_count; i++) {
		memset(vmcu_input(&ctx, i), 0x33, vmcu_input_size(&ctx, i));
	}
	(void)vmcu_invoke(&ctx);
	return is_guarded(memory, pool) &&
	       is_guarded(&pool[model.pool_bytes], &memory[sizeof(memory)]) &&
	       is_same(copy, file, size);
}

int main(void)
{
	const int from = io_open("inputs.bin", false);
	const int to = io_open("outputs.bin", true);
	uint32_t size;

	if (from < 0 || to < 0) {
		return 1;
	}
	while (io_read(from, &size, sizeof(size)) == sizeof(size)) {
		uint32_t taken;

		if (size > sizeof(file) || io_read(from, file, size) != size) {
			return 2;
		}
		taken = vmcu_model_load(&model, file, size, arena, sizeof(arena)) == 0 ? 1U : 0U;
		if (taken != 0U && model.pool_bytes <= ARENA_BYTES && !is_within(size)) {
			return 3;
		}
		(void)io_write(to, &taken, sizeof(taken));
	}
	io_close(from);
	io_close(to);
	return 0;
}
