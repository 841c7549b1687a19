/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Every kernel gives the bytes of its numpy meaning. */

#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "vector_sizes.h"
#include "vectors.h"

static VMCU_POOL_DEFINE(pool, VECTOR_POOL_BYTES);

static void check(const struct vector *v)
{
	struct vmcu_context ctx;
	const int8_t *in = v->inputs;
	const int8_t *out = v->outputs;

	memset(pool, 0xa5, sizeof(pool));
	zassert_ok(vmcu_init(&ctx, v->model, pool, sizeof(pool)));
	if (v->model->elsewhere) {
		zassert_ok(vmcu_set_input(&ctx, in));
	}
	for (unsigned int i = 0; !v->model->elsewhere && i < v->model->input_count; i++) {
		memcpy(vmcu_input(&ctx, i), in, vmcu_input_size(&ctx, i));
		in += vmcu_input_size(&ctx, i);
	}
	zassert_ok(vmcu_invoke(&ctx));
	for (unsigned int i = 0; i < v->model->output_count; i++) {
		zassert_mem_equal(vmcu_output(&ctx, i), out, vmcu_output_size(&ctx, i),
				  "layer %u of %s", i, v->name);
		out += vmcu_output_size(&ctx, i);
	}
}

ZTEST(vmcu_kernels, test_vectors)
{
	for (unsigned int i = 0; i < vector_count; i++) {
		check(&vectors[i]);
	}
}

ZTEST_SUITE(vmcu_kernels, NULL, NULL, NULL, NULL, NULL);
