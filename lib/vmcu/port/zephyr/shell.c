/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The shell commands, and those that run models.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/shell/shell.h>
#include <zephyr/sys/util.h>
#include <zephyr/timing/timing.h>

#include <vmcu/access.h>
#include <vmcu/registry.h>
#include <vmcu/shell.h>
#include <vmcu/vmcu.h>

#if defined(CONFIG_VMCU_PROFILE)
#include <vmcu/profile.h>
#endif

#include "shell_models.h"

#define PRINTED_VALUES 16

#if CONFIG_VMCU_SHELL_POOL_SIZE > 0
static VMCU_POOL_DEFINE(own_pool, CONFIG_VMCU_SHELL_POOL_SIZE);
#define OWN_POOL own_pool
#else
#define OWN_POOL NULL
#endif

/* Locked while a model runs, since a shell may have several terminals. */
static K_MUTEX_DEFINE(busy);

static struct {
	uint8_t *start;
	size_t size;
} pool = {OWN_POOL, CONFIG_VMCU_SHELL_POOL_SIZE};

int vmcu_shell_set_pool(void *start, size_t size)
{
	if ((uintptr_t)start % VMCU_POOL_ALIGN != 0U) {
		return -EINVAL;
	}
	k_mutex_lock(&busy, K_FOREVER);
	pool.start = start;
	pool.size = (start == NULL) ? 0U : size;
	k_mutex_unlock(&busy);
	return 0;
}

/** A running model. @a row: where rows of a streamed input are made, or an input lies elsewhere. */
struct running {
	struct vmcu_context ctx;
	int8_t *row;
};

/** Bytes of the input that are made outside of the model's pool. */
static size_t row_bytes(const struct vmcu_model *model)
{
	const struct vmcu_tensor *t = &model->tensors[model->inputs[0].tensor];

	const size_t row = (size_t)t->width * t->channels;

	if (model->elsewhere) {
		return row * t->height;
	}
	return model->streamed ? row : 0U;
}

/**
 * Binds a model to the pool. The bytes that row_bytes() counts lie in front of the model's bytes.
 */
static int bind_model(const struct shell *sh, struct running *s, const struct vmcu_model *model)
{
	const size_t row = ROUND_UP(row_bytes(model), VMCU_POOL_ALIGN);
	const size_t needed = row + model->pool_bytes + VMCU_POOL_GUARD_BYTES;

	if (!vmcu_shell_has_one_pool(sh, model)) {
		return -ENOTSUP;
	}
	if (pool.size < needed) {
		shell_error(sh,
			    "%s needs a pool of %u bytes, the shell has %u: set "
			    "CONFIG_VMCU_SHELL_POOL_SIZE or call vmcu_shell_set_pool()",
			    model->name, (uint32_t)needed, (uint32_t)pool.size);
		return -ENOMEM;
	}
	s->row = (int8_t *)pool.start;
	return vmcu_init(&s->ctx, model, pool.start + row, pool.size - row);
}

/** Input @a number in zeros, row by row: in a pool that rotates it may be in pieces. */
static void clear_input(const struct vmcu_context *ctx, uint8_t number)
{
	const int8_t zero_point = ctx->model->inputs[number].zero_point;
	int8_t *row = vmcu_row_of_input(ctx, number, 0U);

	for (unsigned int y = 1U; row != NULL; y++) {
		memset(row, zero_point, vmcu_row_size(ctx, number));
		row = vmcu_row_of_input(ctx, number, y);
	}
}

/** One inference on zeros. */
static int run_inference(struct running *s)
{
	const struct vmcu_model *model = s->ctx.model;
	int err = 1;

	if (model->elsewhere) {
		memset(s->row, model->inputs[0].zero_point, row_bytes(model));
		err = vmcu_set_input(&s->ctx, s->row);
		return (err != 0) ? err : vmcu_invoke(&s->ctx);
	}
	if (!model->streamed) {
		for (uint8_t i = 0; i < model->input_count; i++) {
			clear_input(&s->ctx, i);
		}
		return vmcu_invoke(&s->ctx);
	}
	memset(s->row, model->inputs[0].zero_point, row_bytes(model));
	while (err == 1) {
		err = vmcu_push_row(&s->ctx, s->row);
	}
	return err;
}

static void print_output(const struct shell *sh, const struct vmcu_context *ctx, uint8_t number)
{
	const struct vmcu_tensor *t = &ctx->model->tensors[ctx->model->outputs[number].tensor];
	const size_t row = (size_t)t->width * t->channels;
	const size_t count = vmcu_output_size(ctx, number);

	shell_fprintf(sh, SHELL_NORMAL,
		      "%s:", vmcu_io_name(ctx->model, &ctx->model->outputs[number]));
	for (size_t i = 0; i < MIN(count, PRINTED_VALUES); i++) {
		const int8_t *values = vmcu_row_of_output(ctx, number, (unsigned int)(i / row));

		shell_fprintf(sh, SHELL_NORMAL, " %d", values[i % row]);
	}
	shell_print(sh, "%s", (count > PRINTED_VALUES) ? " ..." : "");
}

/** Cycles since a moment, of which the counter has the low 32 bits and the ticks the rest. */
static uint64_t cycles_since(uint32_t cycles, int64_t ticks)
{
	const uint64_t near = k_ticks_to_cyc_near64((uint64_t)(k_uptime_ticks() - ticks));

	return near + (uint64_t)(int64_t)(int32_t)(k_cycle_get_32() - cycles - (uint32_t)near);
}

static int run_rounds(const struct shell *sh, const struct vmcu_model *model, unsigned long rounds)
{
	struct running s;
	uint32_t cycles;
	int64_t ticks;
	uint64_t microseconds;
	int err = bind_model(sh, &s, model);

	if (err != 0) {
		return err;
	}
	ticks = k_uptime_ticks();
	cycles = k_cycle_get_32();
	for (unsigned long i = 0; i < rounds && err == 0; i++) {
		err = run_inference(&s);
	}
	microseconds = k_cyc_to_us_near64(cycles_since(cycles, ticks));
	if (err != 0) {
		shell_error(sh, "%s: error %d", model->name, err);
		return err;
	}
	shell_print(sh, "%s: %lu inferences on zeros, %llu us each", model->name, rounds,
		    microseconds / rounds);
	for (uint8_t i = 0; i < model->output_count; i++) {
		print_output(sh, &s.ctx, i);
	}
	return 0;
}

static int cmd_run(const struct shell *sh, size_t argc, char **argv)
{
	const struct vmcu_model *model = vmcu_shell_find_model(sh, argv[1]);
	unsigned long rounds = 1;
	int err = 0;

	if (model == NULL) {
		return -ENOENT;
	}
	if (argc > 2) {
		rounds = shell_strtoul(argv[2], 10, &err);
	}
	if (err != 0 || rounds == 0U) {
		shell_error(sh, "'%s' is not a number of inferences", argv[2]);
		return -EINVAL;
	}
	k_mutex_lock(&busy, K_FOREVER);
	err = run_rounds(sh, model, rounds);
	k_mutex_unlock(&busy);
	return err;
}

#if defined(CONFIG_VMCU_PROFILE)
static void print_layers(const struct shell *sh, const struct vmcu_profile *profile)
{
	for (uint16_t i = 0; i < profile->count; i++) {
		const struct vmcu_layer_profile *layer = &profile->layers[i];

		shell_print(sh, "%5u %10u %12u %12u", profile->first + i, layer->calls,
			    layer->cycles, (uint32_t)(timing_cycles_to_ns(layer->cycles) / 1000U));
	}
}

/** As many inferences as a profile has to be moved along the layers. */
static int profile_layers(const struct shell *sh, const struct vmcu_model *model)
{
	struct vmcu_profile profile;
	struct running s;
	uint64_t total = 0U;
	uint16_t first = 0U;
	int err = bind_model(sh, &s, model);

	if (err == 0) {
		shell_print(sh, "layer      calls       cycles           us");
	}
	while (err == 0 && first < model->layer_count) {
		err = vmcu_profile_start(&s.ctx, &profile, first);
		err = (err == 0) ? run_inference(&s) : err;
		print_layers(sh, &profile);
		for (uint16_t i = 0; i < profile.count; i++) {
			total += profile.layers[i].cycles;
		}
		first += profile.count;
	}
	if (err == 0) {
		shell_print(sh, "%s: %u layers, %llu cycles, %llu us", model->name,
			    model->layer_count, total, timing_cycles_to_ns(total) / 1000U);
	}
	return err;
}

static int cmd_profile(const struct shell *sh, size_t argc, char **argv)
{
	const struct vmcu_model *model = vmcu_shell_find_model(sh, argv[1]);
	int err;

	ARG_UNUSED(argc);
	if (model == NULL) {
		return -ENOENT;
	}
	k_mutex_lock(&busy, K_FOREVER);
	err = profile_layers(sh, model);
	k_mutex_unlock(&busy);
	return err;
}
#else
#define cmd_profile NULL
#endif /* CONFIG_VMCU_PROFILE */

static void name_of(size_t index, struct shell_static_entry *entry)
{
	const struct vmcu_model *model = vmcu_model_get(index);

	entry->syntax = (model == NULL) ? NULL : model->name;
	entry->handler = NULL;
	entry->subcmd = NULL;
	entry->help = NULL;
}

SHELL_DYNAMIC_CMD_CREATE(names, name_of);

SHELL_STATIC_SUBCMD_SET_CREATE(
	commands,
	SHELL_CMD_ARG(list, NULL, "Lists the models of this image.", vmcu_shell_list, 1, 0),
	SHELL_CMD_ARG(info, &names, "Inputs, outputs and sizes: info <model>", vmcu_shell_info, 2,
		      0),
	SHELL_CMD_ARG(run, &names, "Runs a model on zeros: run <model> [times]", cmd_run, 2, 1),
	SHELL_COND_CMD_ARG(CONFIG_VMCU_PROFILE, profile, &names,
			   "Calls and time of each layer: profile <model>", cmd_profile, 2, 0),
	SHELL_COND_CMD_ARG(CONFIG_VMCU_COUNTERS, counters, NULL, "What models did since the start",
			   vmcu_shell_counters, 1, 0),
	SHELL_CMD_ARG(pool, &names, "Where tensors lie in the pool: pool <model>", vmcu_shell_pool,
		      2, 0),
	SHELL_SUBCMD_SET_END);

SHELL_CMD_REGISTER(vmcu, &commands, "Neural networks", NULL);
