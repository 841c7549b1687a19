/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs one model on the samples of samples.h and prints the outputs' bytes in hexadecimal.
 * Where the model keeps its state from call to call, samples are the rows of a stream.
 *
 * zephyr.py writes samples.h and reads the console: a line "vmcu: " and bytes for a part of the
 * outputs, all of a sample in order; at the end "vmcu ended: " and 0 or a negative errno. With
 * CONFIG_VMCU_PROFILE, before that, a line "vmcu layer: " for each layer's calls and cycles, and
 * one "vmcu inference: " with the cycles of a whole one, in which no layer is timed, and the
 * counter's Hz. With CONFIG_VMCU_CONTAINERS the model is loaded from a container.
 */

#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <vmcu/vmcu.h>

#if defined(CONFIG_VMCU_PROFILE)
#include <zephyr/timing/timing.h>

#include <vmcu/profile.h>
#endif

#if defined(CONFIG_VMCU_CONTAINERS)
#include <vmcu/container.h>
#endif

#include "image_model.h"
#include "samples.h"

#define BYTES_A_LINE 32

#if defined(CONFIG_VMCU_SEVERAL_POOLS)
VMCU_POOLS_DEFINE(pools, image_model);
#elif defined(CONFIG_VMCU_CONTAINERS)
/* Behind the pool, the state of a loaded model: pointers to kernels, of 64 bits its tables, too. */
#define TAIL_BYTES ((sizeof(void *) > 4U) ? 1U << 18 : 1U << 9)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(image_model) + TAIL_BYTES);

extern const uint8_t image_container[];
extern const size_t image_container_bytes;

static struct vmcu_model loaded;
#else
static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(image_model));
#endif

static int bind_context(struct vmcu_context *ctx)
{
#if defined(CONFIG_VMCU_SEVERAL_POOLS)
	return vmcu_init_pools(ctx, &image_model_model, pools, ARRAY_SIZE(pools));
#elif defined(CONFIG_VMCU_CONTAINERS)
	const int err = vmcu_model_load(&loaded, image_container, image_container_bytes, pool,
					sizeof(pool));

	return (err != 0) ? err
			  : vmcu_init(ctx, &loaded, pool, vmcu_arena_head(&loaded, sizeof(pool)));
#else
	return vmcu_init(ctx, &image_model_model, pool, sizeof(pool));
#endif
}

static int push_rows(struct vmcu_context *ctx, const int8_t *from)
{
	const size_t row = vmcu_row_size(ctx, 0);
	const size_t rows = vmcu_input_size(ctx, 0) / row;
	int wanted = 1;

	for (size_t y = 0; wanted == 1 && y < rows; y++) {
		wanted = vmcu_push_row(ctx, &from[y * row]);
	}
	return wanted;
}

static void fill_inputs(struct vmcu_context *ctx, const int8_t *from)
{
	if (ctx->model->elsewhere) {
		(void)vmcu_set_input(ctx, from);
		return;
	}
	for (unsigned int i = 0; i < ctx->model->input_count; i++) {
		const size_t row = vmcu_row_size(ctx, i);

		for (size_t y = 0; y < vmcu_input_size(ctx, i) / row; y++, from += row) {
			memcpy(vmcu_row_of_input(ctx, i, (unsigned int)y), from, row);
		}
	}
}

/* Whether a sample is a row of a stream, and not every one of them brings an answer. */
static bool takes_rows(const struct vmcu_context *ctx)
{
#if defined(CONFIG_VMCU_STREAMS)
	return ctx->model->stream != NULL;
#else
	ARG_UNUSED(ctx);
	return false;
#endif
}

static int run_inference(struct vmcu_context *ctx, const int8_t *from)
{
	if (takes_rows(ctx)) {
		return vmcu_push_row(ctx, from);
	}
	if (ctx->model->streamed) {
		return push_rows(ctx, from);
	}
	fill_inputs(ctx, from);
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
		const unsigned int rows = takes_rows(ctx) ? 1U : t->height;

		for (unsigned int y = 0; y < rows; y++) {
			print_bytes(vmcu_row_of_output(ctx, i, y), (size_t)t->width * t->channels);
		}
	}
}

#if defined(CONFIG_VMCU_PROFILE)
static struct vmcu_profile profile;

static int print_layers(struct vmcu_context *ctx)
{
	for (unsigned int first = 0; first < ctx->model->layer_count; first += profile.count) {
		int err = vmcu_profile_start(ctx, &profile, (uint16_t)first);

		err = (err == 0) ? run_inference(ctx, samples[0]) : err;
		vmcu_profile_stop(ctx);
		if (err != 0) {
			return err;
		}
		for (unsigned int i = 0; i < profile.count; i++) {
			printk("\nvmcu layer: %u %u", profile.layers[i].calls,
			       profile.layers[i].cycles);
		}
	}
	return 0;
}

static int measure_model(struct vmcu_context *ctx)
{
	timing_t start;
	timing_t end;
	int err = print_layers(ctx);

	if (err != 0) {
		return err;
	}
	if (!ctx->model->streamed) {
		fill_inputs(ctx, samples[0]);
	}
	start = timing_counter_get();
	err = ctx->model->streamed ? push_rows(ctx, samples[0]) : vmcu_invoke(ctx);
	end = timing_counter_get();
	printk("\nvmcu inference: %llu %llu", timing_cycles_get(&start, &end), timing_freq_get());
	return err;
}
#else
static int measure_model(struct vmcu_context *ctx)
{
	ARG_UNUSED(ctx);
	return 0;
}
#endif

int main(void)
{
	struct vmcu_context ctx;
	int err = bind_context(&ctx);

	for (size_t i = 0; err == 0 && i < SAMPLES; i++) {
		err = run_inference(&ctx, samples[i]);
		if (err == 0) {
			print_outputs(&ctx);
		} else if (err == 1 && takes_rows(&ctx)) {
			err = 0;
		}
	}
	err = (err == 0) ? measure_model(&ctx) : err;
	printk("\nvmcu ended: %d\n", err);
	return 0;
}
