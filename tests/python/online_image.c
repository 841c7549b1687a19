/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Plans a container on a board, writes the tables of the plan to a file, then runs the model. */

#include <string.h>

#include <vmcu/container.h>

#include "io.h"

extern const uint8_t image_container[];
extern const size_t image_container_bytes;

static uint8_t arena[ARENA_BYTES] __attribute__((aligned(VMCU_POOL_ALIGN)));
static struct vmcu_model model;
static struct vmcu_context ctx;

static int planned(int to)
{
	const struct vmcu_load_options options = {.planner = PLANNER, .replay = REPLAY != 0};
	struct vmcu_refusal refusal = {.what = "nothing"};
	const int result = vmcu_model_load_as(&model, image_container, image_container_bytes, arena,
					      sizeof(arena), &options, &refusal);

	if (result < 0) {
		io_print(refusal.what);
		return result;
	}
	(void)io_write(to, &result, sizeof(result));
	(void)io_write(to, &model.pool_bytes, sizeof(model.pool_bytes));
	(void)io_write(to, &model.tail, sizeof(model.tail));
	(void)io_write(to, model.tensors, model.tensor_count * sizeof(*model.tensors));
	(void)io_write(to, model.layers, model.layer_count * sizeof(*model.layers));
	return vmcu_init(&ctx, &model, arena, vmcu_arena_head(&model, sizeof(arena)));
}

int main(void)
{
	const int from = io_open("inputs.bin", false);
	const int to = io_open("outputs.bin", true);

	memset(arena, 0xa5, sizeof(arena));
	if (from < 0 || to < 0 || planned(to) != 0) {
		return 1;
	}
	for (unsigned int i = 0; i < model.input_count; i++) {
		(void)io_read(from, vmcu_input(&ctx, i), vmcu_input_size(&ctx, i));
	}
	if (vmcu_invoke(&ctx) != 0) {
		return 2;
	}
	for (unsigned int i = 0; i < model.output_count; i++) {
		(void)io_write(to, vmcu_output(&ctx, i), vmcu_output_size(&ctx, i));
	}
	io_close(from);
	io_close(to);
	return 0;
}
