/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <zephyr/sys/byteorder.h>
#include <zephyr/sys/util.h>

#include <vmcu/self_test.h>

/** Where a container states its size. */
#define SIZE_AT 8U

/** The vector of an update, NULL if it has none that is whole. */
static const struct vmcu_self_test *find_vector(const uint8_t *data, size_t size)
{
	const size_t at = ROUND_UP((size_t)sys_get_le32(data + SIZE_AT), VMCU_CONTAINER_ALIGN);
	const struct vmcu_self_test *test = (const void *)(data + at);

	if (at > size || size - at < sizeof(*test) || test->magic != VMCU_SELF_TEST_MAGIC ||
	    size - at - sizeof(*test) < test->input_bytes) {
		return NULL;
	}
	return test;
}

static bool is_of(const struct vmcu_self_test *test, const struct vmcu_context *ctx)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < ctx->model->input_count; i++) {
		bytes += vmcu_input_size(ctx, i);
	}
	/* A model with state has a row as its input, and a vector several. */
	return ctx->model->streamed ? test->input_bytes % bytes == 0U : bytes == test->input_bytes;
}

static void fill_inputs(struct vmcu_context *ctx, const int8_t *from)
{
	for (unsigned int i = 0; i < ctx->model->input_count; i++) {
		const size_t row = vmcu_row_size(ctx, i);
		const size_t rows = vmcu_input_size(ctx, i) / row;

		for (unsigned int y = 0; y < rows; y++) {
			memcpy(vmcu_row_of_input(ctx, i, y), from, row);
			from += row;
		}
	}
}

static void add_outputs(const struct vmcu_context *ctx, uint8_t digest[VMCU_DIGEST_BYTES])
{
	for (unsigned int i = 0; i < ctx->model->output_count; i++) {
		const struct vmcu_tensor *t = &ctx->model->tensors[ctx->model->outputs[i].tensor];
		const int8_t *row = vmcu_row_of_output(ctx, i, 0U);

		for (unsigned int y = 1U; row != NULL; y++) {
			uint8_t before[VMCU_DIGEST_BYTES];

			memcpy(before, digest, sizeof(before));
			vmcu_sha256(before, sizeof(before), (const uint8_t *)row,
				    (size_t)t->width * t->channels, digest);
			row = vmcu_row_of_output(ctx, i, y);
		}
	}
}

/** Pushes rows and adds each result; returns the result of the last vmcu_push_row(). */
static int push_rows(struct vmcu_context *ctx, const int8_t *from, size_t bytes,
		     uint8_t digest[VMCU_DIGEST_BYTES])
{
	const size_t row = vmcu_row_size(ctx, 0);
	int wanted = 1;

#if defined(VMCU_STREAMS)
	(void)vmcu_reset(ctx);
#endif
	for (size_t at = 0; at < bytes && wanted >= 0; at += row) {
		wanted = vmcu_push_row(ctx, &from[at]);
		if (wanted == 0) {
			add_outputs(ctx, digest);
		}
	}
	return wanted;
}

int vmcu_self_test(struct vmcu_context *ctx, const void *data, size_t size)
{
	const struct vmcu_self_test *test = find_vector(data, size);
	uint8_t digest[VMCU_DIGEST_BYTES] = {0};
	const int8_t *inputs;
	int err;

	if (test == NULL || !is_of(test, ctx)) {
		return -EBADMSG;
	}
	inputs = (const int8_t *)(test + 1);
	if (ctx->model->streamed) {
		err = push_rows(ctx, inputs, test->input_bytes, digest);
	} else {
		fill_inputs(ctx, inputs);
		err = vmcu_invoke(ctx);
		add_outputs(ctx, digest);
	}
	if (err != 0) {
		return (err < 0) ? err : -EBADMSG;
	}
	return (memcmp(digest, test->digest, sizeof(digest)) == 0) ? 0 : -EILSEQ;
}
