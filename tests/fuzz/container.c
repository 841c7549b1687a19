/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Damages a container in many ways, each with its digest mended, loads and runs what is
 * left.
 *
 *     container FILE MUTANTS SEED [WEIGHTS WEIGHTS_AT]
 *
 * WEIGHTS is the weights file of a container that has one, WEIGHTS_AT the place where the container
 * tells of it. It is damaged, too, and its digests are mended.
 *
 * Meant to be compiled with the address sanitizer: the container, the pool and rows are blocks of
 * their own, so that a byte touched outside of them ends the program. With -fsanitize=fuzzer and
 * -DFUZZER the same function is LLVM's: what it makes is taken as a container as it is, and once
 * more with its digest mended.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vmcu/container.h>

#include "weights.h"

#define DIGEST_AT   16U
#define MODEL_AT    112U
#define ARENA       ((size_t)1 << 20)
/* More than any input has rows. */
#define ROWS        (UINT32_C(1) << 16)
/* Of one that keeps rows. */
#define STREAM_ROWS 300U

static void *block(size_t size)
{
	void *made = aligned_alloc(VMCU_CONTAINER_ALIGN, (size + 15U) / 16U * 16U);

	if (made == NULL) {
		abort();
	}
	return made;
}

#if defined(VMCU_STREAMS)
/** Rows of a stream, which goes on in a pool of its own. */
static void go_on(struct vmcu_context *ctx, int8_t *row, bool reads)
{
	const size_t size = vmcu_state_size(ctx);
	/* Damaged ones may have rows of any length. */
	const unsigned int rows = (vmcu_row_size(ctx, 0) < 4096U) ? STREAM_ROWS : 8U;
	uint8_t *state = malloc(size);

	for (unsigned int y = 0; y < rows; y++) {
		row[0] = (int8_t)y;
		if (vmcu_push_row(ctx, row) < 0 && !reads) {
			abort();
		}
		if (y % 64U == 5U && vmcu_state_save(ctx, state, size) != 0) {
			abort();
		}
		if (y % 64U == 63U && vmcu_state_restore(ctx, state, size) != 0) {
			abort();
		}
	}
	(void)vmcu_reset(ctx);
	(void)vmcu_push_row(ctx, row);
	free(state);
}
#endif

static void run(const struct vmcu_model *model)
{
	/* Exactly the pool: malloc() aligns to more than VMCU_POOL_ALIGN. */
	int8_t *pool = malloc(model->pool_bytes);
	struct vmcu_context ctx;
	uint32_t sum = 0;
	bool reads;

	if (pool == NULL || vmcu_init(&ctx, model, pool, model->pool_bytes) != 0) {
		abort();
	}
	reads = set_weights(&ctx);
	memset(pool, 0x5a, model->pool_bytes);
	if (model->streamed) {
		int8_t *row = calloc(1, vmcu_row_size(&ctx, 0));

#if defined(VMCU_STREAMS)
		if (model->stream != NULL) {
			go_on(&ctx, row, reads);
		} else
#endif
			for (uint32_t y = 0; y < ROWS && vmcu_push_row(&ctx, row) == 1; y++) {
			}
		free(row);
	} else {
		for (unsigned int i = 0; i < model->input_count; i++) {
			memset(vmcu_input(&ctx, i), 0x33, vmcu_input_size(&ctx, i));
		}
		(void)vmcu_invoke(&ctx);
	}
	for (unsigned int i = 0; i < model->output_count; i++) {
		const int8_t *output = vmcu_output(&ctx, i);

		for (size_t k = 0; k < vmcu_output_size(&ctx, i); k++) {
			sum += (uint8_t)output[k];
		}
	}
	if (sum == UINT32_MAX) {
		puts("");
	}
	free(pool);
}

/** True if what is at @a data is taken for a container; it is run then, by any plan. */
static bool is_taken(const uint8_t *data, size_t size)
{
	static const enum vmcu_planner planners[] = {
		VMCU_PLAN_BUILT,
#if defined(VMCU_ONLINE_PLANNER)
		VMCU_PLAN_GREEDY,
		VMCU_PLAN_SEGMENTS,
#endif
	};
	uint8_t *exact = block(size);
	bool taken = false;

	memcpy(exact, data, size);
	for (size_t i = 0; i < sizeof(planners) / sizeof(planners[0]); i++) {
		const struct vmcu_load_options options = {
#if defined(VMCU_EXTERNAL_WEIGHTS)
			.reader = &reader,
#endif
			.planner = planners[i],
		};
		int8_t *arena = block(ARENA);
		struct vmcu_model model;

		if (vmcu_model_load_as(&model, exact, size, arena, ARENA, &options, NULL) >= 0) {
			const struct vmcu_load_options with = {
#if defined(VMCU_EXTERNAL_WEIGHTS)
				.reader = &reader,
#endif
				.planner = planners[i],
				.replay = true,
			};

			taken = true;
			run(&model);
			(void)vmcu_model_load_as(&model, exact, size, arena, ARENA, &with, NULL);
		}
		free(arena);
	}
	free(exact);
	return taken;
}

static void mend(uint8_t *data, size_t size)
{
	mend_chunks(data, size);
	vmcu_sha256(data, DIGEST_AT, data + MODEL_AT, size - MODEL_AT, data + DIGEST_AT);
}

#if defined(FUZZER)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	(void)is_taken(data, size);
	if (size > MODEL_AT) {
		uint8_t *mended = malloc(size);

		memcpy(mended, data, size);
		memcpy(mended + 8, &(uint32_t){(uint32_t)size}, sizeof(uint32_t));
		mend(mended, size);
		(void)is_taken(mended, size);
		free(mended);
	}
	return 0;
}

#else

static uint64_t state;

static uint32_t drawn(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 11) % below;
}

/** Changes a byte, or a number a little. */
static void damage(uint8_t *at)
{
	uint16_t half;
	uint32_t word;

	switch (drawn(6)) {
	case 0:
		*at ^= (uint8_t)(1U << drawn(8));
		break;
	case 1:
		*at = (uint8_t)drawn(256);
		break;
	case 2:
		*at = (drawn(2) != 0U) ? 0xff : 0;
		break;
	case 3:
		memcpy(&half, at, sizeof(half));
		half = (uint16_t)(half + drawn(9) - 4U);
		memcpy(at, &half, sizeof(half));
		break;
	default:
		memcpy(&word, at, sizeof(word));
		word += drawn(9) - 4U;
		memcpy(at, &word, sizeof(word));
	}
}

static uint8_t *read_file(const char *name, size_t *size)
{
	FILE *file = fopen(name, "rb");
	uint8_t *data;

	if (file == NULL) {
		perror(name);
		exit(2);
	}
	(void)fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	data = block(*size);
	if (fread(data, 1, *size, file) != *size) {
		perror(name);
		exit(2);
	}
	(void)fclose(file);
	return data;
}

int main(int argc, char **argv)
{
	size_t size;
	uint8_t *data = (argc >= 4) ? read_file(argv[1], &size) : NULL;
	uint32_t taken = 0;
	uint8_t *mutant;

	if (data == NULL) {
		(void)fputs("container FILE MUTANTS SEED [WEIGHTS WEIGHTS_AT]\n", stderr);
		return 2;
	}
#if defined(VMCU_EXTERNAL_WEIGHTS)
	uint8_t *file = NULL;

	if (argc == 6) {
		file = read_file(argv[4], &weights.size);
		weights.data = block(weights.size + sizeof(uint32_t));
		weights.told = strtoul(argv[5], NULL, 10);
	}
#endif
	mutant = block(size + sizeof(uint32_t));
	state = 88172645463325252U + strtoul(argv[3], NULL, 10) * 7919U;
	for (unsigned long left = strtoul(argv[2], NULL, 10); left > 0U; left--) {
		memcpy(mutant, data, size);
		for (uint32_t n = 1U + drawn(3); n > 0U; n--) {
			/* Half of them in the tables, which stand in front of the constants. */
			const uint32_t room = (uint32_t)(size - MODEL_AT);
			const uint32_t front = (room < 900U || drawn(2) != 0U) ? room : 900U;

			damage(&mutant[MODEL_AT + drawn(front)]);
		}
#if defined(VMCU_EXTERNAL_WEIGHTS)
		if (file != NULL) {
			memcpy(weights.data, file, weights.size);
		}
		if (file != NULL && drawn(2) != 0U) {
			damage(&weights.data[drawn((uint32_t)weights.size)]);
		}
#endif
		mend(mutant, size);
		taken += is_taken(mutant, size) ? 1U : 0U;
	}
#if defined(VMCU_EXTERNAL_WEIGHTS)
	free(weights.data);
	free(file);
#endif
	free(mutant);
	free(data);
	(void)printf("%u taken\n", taken);
	return 0;
}

#endif
