/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Runs a model on any input, with anything in its pool, for scripts/frama_c.sh.
 */

#include <__fc_builtin.h>

#include <vmcu/pool.h>

#define MODEL_CALLED_(name) name##_model
#define MODEL_CALLED(name)  MODEL_CALLED_(name)
#define POOL_BYTES(name)    VMCU_MODEL_POOL_BYTES(name)

extern void Frama_C_show_each_output(int sum);

static VMCU_POOL_DEFINE(pool, POOL_BYTES(MODEL));

int main(void)
{
	static struct vmcu_context ctx;
	const int8_t *out;
	int8_t *in;
	int sum = 0;

	Frama_C_make_unknown((char *)pool, sizeof(pool));
	if (vmcu_init(&ctx, &MODEL_CALLED(MODEL), pool, sizeof(pool)) != 0) {
		return 1;
	}
	in = vmcu_input(&ctx, 0U);
	if (in == NULL) {
		return 1;
	}
	for (size_t i = 0; i < vmcu_input_size(&ctx, 0U); i++) {
		in[i] = (int8_t)Frama_C_interval(INT8_MIN, INT8_MAX);
	}
	if (Frama_C_interval(0, 1) != 0) {
		(void)vmcu_cancel(&ctx);
	}
	if (vmcu_invoke(&ctx) != 0) {
		return 1;
	}
	out = vmcu_output(&ctx, 0U);
	for (size_t i = 0; out != NULL && i < vmcu_output_size(&ctx, 0U); i++) {
		sum += out[i];
	}
	/* The script looks for it: a run that stops before proves nothing. */
	Frama_C_show_each_output(sum);
	return 0;
}
