/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs one model on the samples of samples.h and prints the outputs' bytes in hexadecimal.
 *
 * zephyr.py writes samples.h and reads the console: a line "vmcu: " and bytes for a part of the
 * outputs, all of a sample in order; at the end "vmcu ended: " and 0 or a negative errno.
 */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <vmcu/vmcu.h>

#include "image_model.h"
#include "samples.h"

#define BYTES_A_LINE 32

VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(image_model));

static int push(struct vmcu_context *ctx, const int8_t *from)
{
	const size_t row = vmcu_row_size(ctx, 0);
	const size_t rows = vmcu_input_size(ctx, 0) / row;
	int wanted = 1;

	for (size_t y = 0; wanted == 1 && y < rows; y++) {
		wanted = vmcu_push_row(ctx, &from[y * row]);
	}
	return wanted;
}

static int infer(struct vmcu_context *ctx, const int8_t *from)
{
	if (ctx->model->streamed) {
		return push(ctx, from);
	}
	for (unsigned int i = 0; i < ctx->model->input_count; i++) {
		const size_t row = vmcu_row_size(ctx, i);

		for (size_t y = 0; y < vmcu_input_size(ctx, i) / row; y++, from += row) {
			memcpy(vmcu_row_of_input(ctx, i, (unsigned int)y), from, row);
		}
	}
	return vmcu_invoke(ctx);
}

static void print_bytes(const int8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		printk("%s%02x", (i % BYTES_A_LINE == 0U) ? "\nvmcu: " : "", (uint8_t)bytes[i]);
	}
}

static void print_outputs(const struct vmcu_context *ctx)
{
	for (unsigned int i = 0; i < ctx->model->output_count; i++) {
		const struct vmcu_tensor *t = &ctx->model->tensors[ctx->model->outputs[i].tensor];

		for (unsigned int y = 0; y < t->height; y++) {
			print_bytes(vmcu_row_of_output(ctx, i, y), (size_t)t->width * t->channels);
		}
	}
}

int main(void)
{
	struct vmcu_context ctx;
	int err = vmcu_init(&ctx, &image_model_model, pool, sizeof(pool));

	for (size_t i = 0; err == 0 && i < SAMPLES; i++) {
		err = infer(&ctx, samples[i]);
		if (err == 0) {
			print_outputs(&ctx);
		}
	}
	printk("\nvmcu ended: %d\n", err);
	return 0;
}
