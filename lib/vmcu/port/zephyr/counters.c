/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/spinlock.h>
#include <zephyr/sys/util.h>

#include <vmcu/counters.h>

#include "version.h"

static struct vmcu_counters table[CONFIG_VMCU_COUNTERS_MODELS];
static struct k_spinlock lock;

/** The counters of a model; those of another one that was in its memory start over. */
static struct vmcu_counters *counters_of(const struct vmcu_model *model, uint32_t version)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct vmcu_counters *const one = &table[i];

		if (one->model == model && one->name == model->name && one->version == version) {
			return one;
		}
		if (one->model == NULL || one->model == model) {
			*one = (struct vmcu_counters){
				.model = model,
				.name = model->name,
				.version = version,
			};
			return one;
		}
	}
	return NULL;
}

/** The number of the greatest element of the first output, the first of those. */
static size_t answer_of(const struct vmcu_context *ctx)
{
	const struct vmcu_tensor *t = &ctx->model->tensors[ctx->model->outputs[0].tensor];
	const size_t row = (size_t)t->width * t->channels;
	const size_t count = vmcu_output_size(ctx, 0U);
	const int8_t *values = NULL;
	int greatest = INT8_MIN - 1;
	size_t answer = 0U;

	for (size_t i = 0; i < count; i++) {
		if (i % row == 0U) {
			values = vmcu_row_of_output(ctx, 0U, (unsigned int)(i / row));
		}
		if (values[i % row] > greatest) {
			greatest = values[i % row];
			answer = i;
		}
	}
	return answer;
}

void vmcu_counters_begin(struct vmcu_context *ctx)
{
	ctx->begun = k_is_user_context() ? 0U : k_cycle_get_32();
}

void vmcu_counters_end(const struct vmcu_context *ctx, int err)
{
	struct vmcu_counters *counters;
	k_spinlock_key_t key;
	uint32_t cycles;
	uint32_t version;
	size_t answer;

	if (k_is_user_context()) {
		return;
	}
	cycles = k_cycle_get_32() - ctx->begun;
	/* Found before interrupts have to wait. */
	version = vmcu_model_version(ctx->model);
	answer = (err == 0) ? MIN(answer_of(ctx), VMCU_COUNTERS_ANSWERS - 1U) : 0U;
	key = k_spin_lock(&lock);
	counters = counters_of(ctx->model, version);
	if (counters == NULL) {
		/* More models than CONFIG_VMCU_COUNTERS_MODELS. */
	} else if (err == -ECANCELED) {
		counters->cancelled++;
	} else if (err != 0) {
		counters->errors++;
	} else {
		counters->least = (counters->runs == 0U) ? cycles : MIN(counters->least, cycles);
		counters->runs++;
		counters->most = MAX(counters->most, cycles);
		counters->total += cycles;
		counters->answers[answer]++;
	}
	k_spin_unlock(&lock, key);
}

int vmcu_counters_get(size_t index, struct vmcu_counters *counters)
{
	k_spinlock_key_t key;

	if (index >= ARRAY_SIZE(table)) {
		return -ENOENT;
	}
	key = k_spin_lock(&lock);
	*counters = table[index];
	k_spin_unlock(&lock, key);
	return (counters->model == NULL) ? -ENOENT : 0;
}

void vmcu_counters_reset(void)
{
	const k_spinlock_key_t key = k_spin_lock(&lock);

	memset(table, 0, sizeof(table));
	k_spin_unlock(&lock, key);
}
