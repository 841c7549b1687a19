/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Models from containers that keep their rows: whole windows' answers, two streams over one loaded
 * model, states that are none of it; a build without VMCU_STREAMS refuses them.
 */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/container.h>

#include "containers.h"

static uint8_t arena[6144] __aligned(VMCU_POOL_ALIGN);
static struct vmcu_model model;

#if defined(CONFIG_VMCU_STREAMS)

static struct vmcu_context ctx;
static uint8_t one[1200];
static uint8_t two[1200];

static void load(const struct kept *of)
{
	const struct vmcu_load_options options = {.replay = true};

	zassert_ok(vmcu_model_load_as(&model, of->file, of->size, arena, sizeof(arena), &options,
				      NULL),
		   "%s", of->name);
	memset(arena, 0xa5, model.pool_bytes);
	zassert_ok(vmcu_init(&ctx, &model, arena, vmcu_arena_head(&model, sizeof(arena))));
}

static size_t answer_bytes(void)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < model.output_count; i++) {
		bytes += vmcu_output_size(&ctx, i);
	}
	return bytes;
}

/** Pushes row @a y; where a window ends with it, its answer has to be there. */
static void push(const struct kept *of, unsigned int y)
{
	const int8_t *row = &of->rows[y * vmcu_row_size(&ctx, 0)];
	const int wanted = vmcu_push_row(&ctx, row);
	const int8_t *answer;

	zassert_true(wanted == 0 || wanted == 1, "row %u of %s: %d", y, of->name, wanted);
	if (y + 1U < of->window || (y + 1U - of->window) % of->hop != 0U) {
		return;
	}
	answer = &of->answers[(y + 1U - of->window) / of->hop * answer_bytes()];
	for (unsigned int i = 0; i < model.output_count; i++) {
		zassert_mem_equal(vmcu_output(&ctx, i), answer, vmcu_output_size(&ctx, i),
				  "row %u of %s", y, of->name);
		answer += vmcu_output_size(&ctx, i);
	}
}

ZTEST(vmcu_container_streams, test_answers_of_whole_windows)
{
	for (unsigned int i = 0; i < kept_count; i++) {
		load(&kept[i]);
		for (unsigned int time = 0; time < 2U; time++) {
			for (unsigned int y = 0; y < kept[i].row_count; y++) {
				push(&kept[i], y);
			}
			zassert_ok(vmcu_reset(&ctx));
		}
		zassert_equal(vmcu_invoke(&ctx), -ENOTSUP);
	}
}

ZTEST(vmcu_container_streams, test_two_streams_take_turns)
{
	const struct kept *of = &kept[0];

	load(of);
	zassert_between_inclusive(vmcu_state_size(&ctx), model.stream->state_bytes, sizeof(one));
	zassert_ok(vmcu_state_save(&ctx, one, sizeof(one)));
	zassert_ok(vmcu_state_save(&ctx, two, sizeof(two)));
	for (unsigned int y = 0; y < of->row_count; y++) {
		zassert_ok(vmcu_state_restore(&ctx, one, sizeof(one)));
		push(of, y);
		zassert_ok(vmcu_state_save(&ctx, one, sizeof(one)));
		if (y % 3U == 2U) {
			zassert_ok(vmcu_state_restore(&ctx, two, sizeof(two)));
			push(of, y / 3U);
			zassert_ok(vmcu_state_save(&ctx, two, sizeof(two)));
		}
	}
}

ZTEST(vmcu_container_streams, test_states_of_others)
{
	load(&kept[0]);
	push(&kept[0], 0U);
	zassert_ok(vmcu_state_save(&ctx, one, sizeof(one)));
	one[sizeof(struct vmcu_position) + 16U] ^= 1U;
	zassert_equal(vmcu_state_restore(&ctx, one, sizeof(one)), -EILSEQ);
	one[sizeof(struct vmcu_position) + 16U] ^= 1U;
	zassert_equal(vmcu_state_restore(&ctx, one, 8U), -EINVAL);
	load(&kept[1]);
	zassert_equal(vmcu_state_restore(&ctx, one, sizeof(one)), -EBADMSG);
	for (unsigned int y = 0; y < kept[1].row_count; y++) {
		push(&kept[1], y);
	}
}

#else

ZTEST(vmcu_container_streams, test_they_are_refused)
{
	struct vmcu_refusal refusal = {0};

	for (unsigned int i = 0; i < kept_count; i++) {
		zassert_equal(vmcu_model_load_saying(&model, kept[i].file, kept[i].size, arena,
						     sizeof(arena), &refusal),
			      -ENOTSUP);
		zassert_str_equal(refusal.what, "version");
	}
}

#endif

ZTEST_SUITE(vmcu_container_streams, NULL, NULL, NULL, NULL, NULL);
