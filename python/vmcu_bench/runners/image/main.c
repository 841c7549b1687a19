/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs one model on every sample of a file.
 *
 * Reads the inputs' bytes from INPUT_FILE until it ends and writes the outputs' bytes to
 * OUTPUT_FILE, sample after sample. The build passes IMAGE_HEADER, the model's header in quotes,
 * and IMAGE_NAME, its name. With IMAGE_VALUES both files hold values in the model file's own form,
 * see values.h. With VMCU_STREAMS the file is one stream of rows, and there is an answer for each
 * hop. With IMAGE_CONTAINER the model is loaded from a container.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <vmcu/vmcu.h>

#include "bound.h"
#include "io.h"
#include "team.h"
#if defined(IMAGE_VALUES)
#include "values.h"
#endif
#define INPUT_FILE  "inputs.bin"
#define OUTPUT_FILE "outputs.bin"

/** Sum of these bytes, which changes if something writes there. */
static uint32_t sum_elsewhere(void)
{
	uint32_t sum = 0U;

	for (size_t i = 0; i < sizeof(elsewhere); i++) {
		sum = sum * 31U + (uint8_t)elsewhere[i];
	}
	return sum;
}

static void lock_guards(void)
{
	for (size_t i = 0; i < AREAS; i++) {
		uint8_t *const behind = areas[i].arena + GUARD_BYTES + areas[i].size;

		memset(areas[i].arena, GUARD, GUARD_BYTES);
		memset(behind, GUARD, GUARD_BYTES);
		ASAN_POISON_MEMORY_REGION(areas[i].arena, GUARD_BYTES);
		ASAN_POISON_MEMORY_REGION(behind, GUARD_BYTES);
	}
}

static bool guards_intact(void)
{
	for (size_t i = 0; i < AREAS; i++) {
		const uint8_t *const front = areas[i].arena;
		const uint8_t *const behind = front + GUARD_BYTES + areas[i].size;

		ASAN_UNPOISON_MEMORY_REGION(front, GUARD_BYTES);
		ASAN_UNPOISON_MEMORY_REGION(behind, GUARD_BYTES);
		for (size_t k = 0; k < GUARD_BYTES; k++) {
			if (front[k] != GUARD || behind[k] != GUARD) {
				return false;
			}
		}
	}
	return true;
}

/** Delivers a sample row by row and so runs the model; 1 when the file holds no further one. */
static int push_sample(struct vmcu_context *ctx, int file)
{
	static int8_t row[ROW_BYTES];
	int wanted = 1;

	for (size_t at = 0; at < vmcu_input_size(ctx, 0); at += sizeof(row)) {
		if (io_read(file, row, sizeof(row)) != sizeof(row)) {
			return 1;
		}
		if (wanted == 1) {
			wanted = vmcu_push_row(ctx, row);
		}
	}
	return wanted;
}

/** Fills an input from the file, at once if it is in one piece. */
static bool read_input(const struct vmcu_context *ctx, unsigned int i, int file)
{
#if defined(IMAGE_VALUES)
	if (values_has_input(i)) {
		return values_read(ctx, i, file);
	}
#endif
	int8_t *whole = vmcu_input(ctx, i);
	const size_t size = (whole != NULL) ? vmcu_input_size(ctx, i) : vmcu_row_size(ctx, i);

	for (unsigned int y = 0; y < vmcu_input_size(ctx, i) / size; y++) {
		int8_t *to = (whole != NULL) ? whole : vmcu_row_of_input(ctx, i, y);

		if (io_read(file, to, size) != size) {
			return false;
		}
	}
	return true;
}

/** Fills the inputs from the file; false when it holds no further complete sample. */
static bool read_sample(const struct vmcu_context *ctx, int file)
{
	if (ctx->model->elsewhere) {
		return io_read(file, elsewhere + 1, ELSEWHERE_BYTES) == ELSEWHERE_BYTES;
	}
	for (unsigned int i = 0; i < ctx->model->input_count; i++) {
		if (!read_input(ctx, i, file)) {
			return false;
		}
	}
	return ctx->model->input_count > 0U;
}

static bool write_output(const struct vmcu_context *ctx, unsigned int i, int file)
{
#if defined(IMAGE_VALUES)
	if (values_has_output(ctx->model, i)) {
		return values_write(ctx, i, file);
	}
#endif
	const int8_t *whole = vmcu_output(ctx, i);
	const struct vmcu_tensor *t = &ctx->model->tensors[ctx->model->outputs[i].tensor];
	const size_t row = (size_t)t->width * t->channels;
	const size_t size = vmcu_output_size(ctx, i);

	if (whole != NULL) {
		return io_write(file, whole, size) == size;
	}
	for (unsigned int y = 0; y < t->height; y++) {
		if (io_write(file, vmcu_row_of_output(ctx, i, y), row) != row) {
			return false;
		}
	}
	return true;
}

static bool write_outputs(const struct vmcu_context *ctx, int file)
{
	for (unsigned int i = 0; i < ctx->model->output_count; i++) {
		if (!write_output(ctx, i, file)) {
			return false;
		}
	}
	return true;
}

/** One sample through the model: 0 done, 1 no further one, else negative. */
static int run_sample(struct vmcu_context *ctx, int from)
{
	uint32_t before;
	int err;

	if (ctx->model->streamed) {
		lock_guards();
		return push_sample(ctx, from);
	}
	if (!read_sample(ctx, from)) {
		return 1;
	}
	lock_guards();
	before = sum_elsewhere();
	err = invoke(ctx);
	return (err == 0 && sum_elsewhere() != before) ? -1 : err;
}

static enum exit_code run_samples(struct vmcu_context *ctx, int from, int to)
{
	for (;;) {
		int err;

		fill_pools();
		err = run_sample(ctx, from);
		if (err > 0) {
			return EXIT_DONE;
		}
		if (err < 0) {
			io_print("the model failed\n");
			return EXIT_INVOKE;
		}
		if (!guards_intact()) {
			io_print("a kernel wrote outside the pool\n");
			return EXIT_GUARD;
		}
		if (!write_outputs(ctx, to)) {
			io_print("cannot write " OUTPUT_FILE "\n");
			return EXIT_FILES;
		}
	}
}

#if defined(VMCU_STREAMS)
/** Rows without end, as long as the file has some; an answer for each hop. */
static enum exit_code run_stream(struct vmcu_context *ctx, int from, int to)
{
	static int8_t row[ROW_BYTES];

	lock_guards();
	while (io_read(from, row, sizeof(row)) == sizeof(row)) {
		const int wanted = vmcu_push_row(ctx, row);

		if (wanted < 0) {
			io_print("the model failed\n");
			return EXIT_INVOKE;
		}
		if (wanted == 0 && !write_outputs(ctx, to)) {
			io_print("cannot write " OUTPUT_FILE "\n");
			return EXIT_FILES;
		}
	}
	if (!guards_intact()) {
		io_print("a kernel wrote outside the pool\n");
		return EXIT_GUARD;
	}
	return EXIT_DONE;
}
#endif

static enum exit_code run_inferences(struct vmcu_context *ctx, int from, int to)
{
#if defined(VMCU_STREAMS)
	if (ctx->model->stream != NULL) {
		return run_stream(ctx, from, to);
	}
#endif
	return run_samples(ctx, from, to);
}

int main(void)
{
	const int from = io_open(INPUT_FILE, false);
	const int to = io_open(OUTPUT_FILE, true);
	enum exit_code code;

	if (from < 0 || to < 0) {
		io_print("cannot open " INPUT_FILE " or " OUTPUT_FILE "\n");
		return EXIT_FILES;
	}
	fill_pools();
	if (bind_context(&context) != 0 || bind_team(&context) != 0) {
		io_print("vmcu_init failed\n");
		return EXIT_INIT;
	}
	if (context.model->elsewhere && vmcu_set_input(&context, elsewhere + 1) != 0) {
		io_print("vmcu_set_input failed\n");
		return EXIT_INIT;
	}
#if defined(VMCU_EXTERNAL_WEIGHTS)
	if (vmcu_set_reader(&context, &reader) != 0) {
		io_print("vmcu_set_reader failed\n");
		return EXIT_INIT;
	}
#endif
#if defined(IMAGE_VALUES)
	if (!values_open(context.model, from)) {
		io_print("cannot read " INPUT_FILE "\n");
		return EXIT_FILES;
	}
#endif
	code = run_inferences(&context, from, to);
	io_close(from);
	io_close(to);
	return (int)code;
}
