/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Shell commands that print models without running them.
 */

#include <errno.h>

#include <zephyr/kernel.h>
#include <zephyr/shell/shell.h>
#include <zephyr/sys/util.h>

#include <vmcu/access.h>
#include <vmcu/registry.h>
#include <vmcu/vmcu.h>

#if defined(CONFIG_VMCU_COUNTERS)
#include <vmcu/counters.h>
#endif

#include "shell_models.h"

const struct vmcu_model *vmcu_shell_find_model(const struct shell *sh, const char *name)
{
	const struct vmcu_model *model = vmcu_model_find(name);

	if (model == NULL) {
		shell_error(sh, "there is no model '%s'; `vmcu list` lists them", name);
	}
	return model;
}

bool vmcu_shell_has_one_pool(const struct shell *sh, const struct vmcu_model *model)
{
#if defined(VMCU_SEVERAL_POOLS)
	if (model->pool_count != 0U) {
		shell_error(sh, "%s has a pool in each of %u memories, the shell has one",
			    model->name, model->pool_count);
		return false;
	}
#else
	ARG_UNUSED(sh);
	ARG_UNUSED(model);
#endif
	return true;
}

int vmcu_shell_list(const struct shell *sh, size_t argc, char **argv)
{
	ARG_UNUSED(argc);
	ARG_UNUSED(argv);
	VMCU_MODEL_FOREACH(entry)
	{
		shell_print(sh, "%s: pool %u, layers %u%s", entry->model->name,
			    entry->model->pool_bytes, entry->model->layer_count,
			    entry->model->streamed ? ", input in rows" : "");
	}
	return 0;
}

static const char *input_kind(const struct vmcu_model *model)
{
	if (model->elsewhere) {
		return "input elsewhere";
	}
	return model->streamed ? "input in rows" : "input";
}

static void print_io(const struct shell *sh, const struct vmcu_model *model, const char *kind,
		     const struct vmcu_io *io)
{
	const struct vmcu_tensor *t = &model->tensors[io->tensor];
	/* Not every image can print floats. */
	const uint64_t billionths = (uint64_t)(io->scale * 1e9f + 0.5f);

	shell_print(sh, "%s %s: %u x %u x %u, scale %u.%09u, zero point %d", kind,
		    vmcu_io_name(model, io), t->height, t->width, t->channels,
		    (uint32_t)(billionths / 1000000000U), (uint32_t)(billionths % 1000000000U),
		    io->zero_point);
}

int vmcu_shell_info(const struct shell *sh, size_t argc, char **argv)
{
	const struct vmcu_model *model = vmcu_shell_find_model(sh, argv[1]);

	ARG_UNUSED(argc);
	if (model == NULL) {
		return -ENOENT;
	}
	shell_print(sh, "%s: pool of %u bytes, %u tensors, %u layers in %u stages", model->name,
		    model->pool_bytes, model->tensor_count, model->layer_count, model->stage_count);
	for (uint8_t i = 0; i < model->input_count; i++) {
		print_io(sh, model, input_kind(model), &model->inputs[i]);
	}
	for (uint8_t i = 0; i < model->output_count; i++) {
		print_io(sh, model, "output", &model->outputs[i]);
	}
	return 0;
}

int vmcu_shell_pool(const struct shell *sh, size_t argc, char **argv)
{
	const struct vmcu_model *model = vmcu_shell_find_model(sh, argv[1]);

	ARG_UNUSED(argc);
	if (model == NULL) {
		return -ENOENT;
	}
	if (!vmcu_shell_has_one_pool(sh, model)) {
		return -ENOTSUP;
	}
	shell_print(sh, "tensor   from     to  bytes shape");
	for (uint16_t i = 0; i < model->tensor_count; i++) {
		const struct vmcu_tensor *t = &model->tensors[i];
		const uint32_t bytes = (uint32_t)t->height * t->width * t->channels;

		shell_print(sh, "%6u %6u %6u %6u %u x %u x %u%s", i, t->base,
			    (t->base + t->ring) % model->pool_bytes, t->ring, t->height, t->width,
			    t->channels, (t->ring < bytes) ? ", in part" : "");
	}
	shell_print(sh, "%s: pool of %u bytes", model->name, model->pool_bytes);
	return 0;
}

#if defined(CONFIG_VMCU_COUNTERS)
static void print_counters(const struct shell *sh, const struct vmcu_counters *c)
{
	shell_print(sh, "%s, version %u: %u inferences, %u errors, %u cancelled", c->name,
		    c->version, c->runs, c->errors, c->cancelled);
	if (c->runs != 0U) {
		shell_print(sh, "  %llu us, %llu to %llu",
			    k_cyc_to_us_near64(vmcu_counters_mean(c)), k_cyc_to_us_near64(c->least),
			    k_cyc_to_us_near64(c->most));
	}
	shell_fprintf(sh, SHELL_NORMAL, "  answers:");
	for (size_t i = 0; i < VMCU_COUNTERS_ANSWERS; i++) {
		shell_fprintf(sh, SHELL_NORMAL, " %u", c->answers[i]);
	}
	shell_print(sh, "%s", "");
}

int vmcu_shell_counters(const struct shell *sh, size_t argc, char **argv)
{
	struct vmcu_counters counters;

	ARG_UNUSED(argc);
	ARG_UNUSED(argv);
	for (size_t i = 0; vmcu_counters_get(i, &counters) == 0; i++) {
		print_counters(sh, &counters);
	}
	return 0;
}
#endif /* CONFIG_VMCU_COUNTERS */
