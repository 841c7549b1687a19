/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Events at the start and end of inferences and stages. */

#include <string.h>

#include <zephyr/ztest.h>

#include <vmcu/trace.h>
#include <vmcu/vmcu.h>

#include "golden.h"
#include "rows.h"
#include "tiny.h"

#define MOST_EVENTS 64

static struct event {
	const char *name;
	uint32_t arg0;
	uint32_t arg1;
} events[MOST_EVENTS];

static size_t count;

int32_t trace_pause_ms;

/* In place of the module's own. */
void vmcu_trace_event(const char *name, uint32_t arg0, uint32_t arg1)
{
	if (strcmp(name, VMCU_TRACE_BEGIN) == 0 && trace_pause_ms != 0) {
		k_msleep(trace_pause_ms);
	}
	if (count < MOST_EVENTS) {
		events[count] = (struct event){name, arg0, arg1};
	}
	count++;
}

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny));

static struct vmcu_context ctx;

static void expect(size_t number, const char *name, uint32_t arg0, uint32_t arg1)
{
	zassert_true(number < count);
	zassert_true(strcmp(events[number].name, name) == 0, "event %u is %s", number,
		     events[number].name);
	zassert_equal(events[number].arg0, arg0);
	zassert_equal(events[number].arg1, arg1);
}

static void expect_inference(const struct vmcu_model *model)
{
	const uint32_t id = (uint32_t)(uintptr_t)model;

	zassert_equal(count, 3U + 2U * model->stage_count);
	expect(0, model->name, id, 0);
	expect(1, VMCU_TRACE_BEGIN, id, model->stage_count);
	for (uint16_t i = 0; i < model->stage_count; i++) {
		expect(2U + 2U * i, VMCU_TRACE_STAGE_BEGIN, id, model->stages[i].first);
		expect(3U + 2U * i, VMCU_TRACE_STAGE_END, id, model->stages[i].first);
	}
	expect(count - 1U, VMCU_TRACE_END, id, 0);
}

ZTEST(vmcu_tracing, test_invoke)
{
	zassert_ok(vmcu_init(&ctx, &tiny_model, pool, sizeof(pool)));
	count = 0;
	zassert_ok(vmcu_invoke(&ctx));
	expect_inference(&tiny_model);
}

ZTEST(vmcu_tracing, test_rows)
{
	int wanted = 1;

	zassert_ok(vmcu_init(&ctx, &rows_model, pool, sizeof(pool)));
	count = 0;
	for (size_t y = 0; wanted == 1; y++) {
		wanted = vmcu_push_row(&ctx, &golden_inputs[0][y * VMCU_MODEL_ROW_BYTES(rows)]);
	}
	zassert_ok(wanted);
	expect_inference(&rows_model);
}

ZTEST_SUITE(vmcu_tracing, NULL, NULL, NULL, NULL, NULL);
