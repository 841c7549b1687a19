/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A model from a container gives ONNX Runtime's bytes, and each kernel those of its numpy meaning,
 * by whatever plan; what is damaged is refused for what is wrong with it, and never bound.
 */

#include <errno.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/ztest.h>

#include <vmcu/container.h>

#include "container_sizes.h"
#include "containers.h"
#include "golden.h"

/** The largest pool and what loading keeps; plans made on the device need some more. */
#define ARENA_BYTES (POOL_BYTES + 6144U)

/** Where a container has its digest, and what the digest is of behind the signature. */
#define DIGEST_AT 16U
#define MODEL_AT  112U

static const uint8_t tiny[] __aligned(VMCU_CONTAINER_ALIGN) = {
#include <tiny.vmcu.inc>
};

static uint8_t damaged[MAX(CONTAINER_BYTES, sizeof(tiny))] __aligned(VMCU_CONTAINER_ALIGN);
static uint8_t arena[ARENA_BYTES] __aligned(VMCU_POOL_ALIGN);
static struct vmcu_model model;
static struct vmcu_model second;
static struct vmcu_context ctx;

static void run_all(const struct vmcu_model *loaded, size_t head)
{
	zassert_ok(vmcu_init(&ctx, loaded, arena, head));
	for (unsigned int i = 0; i < GOLDEN_COUNT; i++) {
		memcpy(vmcu_input(&ctx, 0), golden_inputs[i], GOLDEN_INPUT_BYTES);
		zassert_ok(vmcu_invoke(&ctx));
		zassert_mem_equal(vmcu_output(&ctx, 0), golden_outputs[i], GOLDEN_OUTPUT_BYTES,
				  "case %u", i);
	}
}

ZTEST(vmcu_container, test_golden)
{
	struct vmcu_arena_report report;

	zassert_ok(vmcu_model_load(&model, tiny, sizeof(tiny), arena, sizeof(arena)));
	zassert_ok(vmcu_arena_report(&model, sizeof(arena), &report));
	zassert_equal(report.head + report.free + report.tail, sizeof(arena));
	run_all(&model, vmcu_arena_head(&model, sizeof(arena)));
}

ZTEST(vmcu_container, test_two_models_share_the_head)
{
	size_t left;

	zassert_ok(vmcu_model_load(&model, tiny, sizeof(tiny), arena, sizeof(arena)));
	left = vmcu_arena_head(&model, sizeof(arena));
	zassert_ok(vmcu_model_load(&second, tiny, sizeof(tiny), arena, left));
	left = vmcu_arena_head(&second, left);
	run_all(&model, left);
	run_all(&second, left);
	run_all(&model, left);
}

ZTEST(vmcu_container, test_damaged)
{
	struct vmcu_refusal refusal;

	for (size_t at = 0; at < sizeof(tiny); at += 97) {
		memcpy(damaged, tiny, sizeof(tiny));
		damaged[at] ^= 0x10;
		if (at >= DIGEST_AT + VMCU_DIGEST_BYTES && at < MODEL_AT) {
			/* The signature, which this build does not ask for. */
			continue;
		}
		zassert_true(vmcu_model_load_saying(&model, damaged, sizeof(tiny), arena,
						    sizeof(arena), &refusal) < 0,
			     "byte %zu", at);
		zassert_not_null(refusal.what);
		zassert_equal(vmcu_init(&ctx, &model, arena, sizeof(arena)), -EINVAL);
	}
	zassert_equal(vmcu_model_load(&model, tiny, sizeof(tiny) - 1U, arena, sizeof(arena)),
		      -EBADMSG);
}

ZTEST(vmcu_container, test_arguments)
{
	zassert_equal(vmcu_model_load(NULL, tiny, sizeof(tiny), arena, sizeof(arena)), -EINVAL);
	zassert_equal(vmcu_model_load(&model, NULL, sizeof(tiny), arena, sizeof(arena)), -EINVAL);
	zassert_equal(vmcu_model_load(&model, tiny + 4, sizeof(tiny) - 4U, arena, sizeof(arena)),
		      -EINVAL);
	zassert_equal(vmcu_model_load(&model, tiny, sizeof(tiny), NULL, sizeof(arena)), -EINVAL);
	zassert_equal(vmcu_model_load(&model, tiny, sizeof(tiny), arena, 64U), -ENOMEM);
	zassert_equal(vmcu_arena_head(&model, sizeof(arena)), 0U);
}

/** Feeds a model what @a of has for it, whole or by rows. */
static void feed(const struct built *of)
{
	const int8_t *in = of->inputs;

	if (model.streamed) {
		int wanted;

		do {
			wanted = vmcu_push_row(&ctx, in);
			in += vmcu_row_size(&ctx, 0);
		} while (wanted == 1);
		zassert_ok(wanted, "%s", of->name);
		return;
	}
	for (unsigned int i = 0; i < model.input_count; i++) {
		memcpy(vmcu_input(&ctx, i), in, vmcu_input_size(&ctx, i));
		in += vmcu_input_size(&ctx, i);
	}
	zassert_ok(vmcu_invoke(&ctx), "%s", of->name);
}

static void run_built(const struct built *of)
{
	const int8_t *out = of->outputs;

	memset(arena, 0xa5, model.pool_bytes);
	zassert_ok(vmcu_init(&ctx, &model, arena, vmcu_arena_head(&model, sizeof(arena))));
	feed(of);
	for (unsigned int i = 0; i < model.output_count; i++) {
		zassert_mem_equal(vmcu_output(&ctx, i), out, vmcu_output_size(&ctx, i),
				  "output %u of %s", i, of->name);
		out += vmcu_output_size(&ctx, i);
	}
}

ZTEST(vmcu_container, test_every_kernel)
{
	const struct vmcu_load_options options = {.replay = true};

	for (unsigned int i = 0; i < built_count; i++) {
		zassert_ok(vmcu_model_load_as(&model, built[i].file, built[i].size, arena,
					      sizeof(arena), &options, NULL),
			   "%s", built[i].name);
		run_built(&built[i]);
	}
}

ZTEST(vmcu_container, test_plans_made_here)
{
	static const enum vmcu_planner planners[] = {VMCU_PLAN_GREEDY, VMCU_PLAN_SEGMENTS};
	unsigned int found[2] = {0};

	for (unsigned int i = 0; i < built_count * ARRAY_SIZE(planners); i++) {
		const struct built *of = &built[i / ARRAY_SIZE(planners)];
		const struct vmcu_load_options options = {
			.planner = planners[i % ARRAY_SIZE(planners)],
			.replay = true,
		};
		const int err = vmcu_model_load_as(&model, of->file, of->size, arena, sizeof(arena),
						   &options, NULL);

		if (!of->online) {
			zassert_equal(err, -ENOTSUP, "%s", of->name);
			continue;
		}
		zassert_between_inclusive(err, 0, 1, "%s", of->name);
		found[err]++;
		run_built(of);
	}
	/* One network has branches that segments do not get by. */
	zassert_true(found[0] > found[1] && found[1] > 0U);
}

/** Gives what is in `damaged` its digest; that of good containers is Python's. */
static void mend(size_t size)
{
	uint8_t digest[VMCU_DIGEST_BYTES];

	vmcu_sha256(damaged, DIGEST_AT, damaged + MODEL_AT, size - MODEL_AT, digest);
	memcpy(damaged + DIGEST_AT, digest, sizeof(digest));
}

/** Makes a damaged container of a good one. */
static void apply(const struct damage *damage)
{
	const struct built *of = &built[damage->of];
	const uint8_t *run = damage->runs;

	memcpy(damaged, of->file, of->size);
	while (run[2] != 0U) {
		memcpy(&damaged[run[0] + 256U * run[1]], &run[3], run[2]);
		run += 3U + run[2];
	}
	mend(of->size);
}

ZTEST(vmcu_container, test_what_is_wrong_is_said)
{
	for (unsigned int i = 0; i < damage_count; i++) {
		const struct damage *d = &damages[i];
		const struct vmcu_load_options options = {
			.planner = d->planner,
			.replay = d->replay,
		};
		struct vmcu_refusal refusal = {0};

		apply(d);
		zassert_equal(vmcu_model_load_as(&model, damaged, built[d->of].size, arena,
						 sizeof(arena), &options, &refusal),
			      d->err, "damage %u of %s", i, built[d->of].name);
		zassert_str_equal(refusal.what, d->what, "damage %u of %s", i, built[d->of].name);
		zassert_true(d->index < 0 || refusal.index == (uint32_t)d->index,
			     "damage %u of %s: %u", i, built[d->of].name, refusal.index);
		zassert_equal(vmcu_init(&ctx, &model, arena, sizeof(arena)), -EINVAL);
	}
}

ZTEST(vmcu_container, test_a_kernel_that_is_not_linked_is_named)
{
	static const char name[] = "vmcu_";
	struct vmcu_refusal refusal = {0};
	size_t at = MODEL_AT;

	memcpy(damaged, tiny, sizeof(tiny));
	while (memcmp(&damaged[at], name, sizeof(name) - 1U) != 0) {
		at++;
	}
	damaged[at] = 'V';
	mend(sizeof(tiny));
	zassert_equal(vmcu_model_load_saying(&model, damaged, sizeof(tiny), arena, sizeof(arena),
					     &refusal),
		      -ENOTSUP);
	zassert_mem_equal(refusal.name, "Vmcu_", 5U);
}

ZTEST(vmcu_container, test_arena)
{
	struct vmcu_arena_report report;
	size_t left = sizeof(arena);
	uint8_t *file = vmcu_arena_take(arena, &left, sizeof(tiny));

	zassert_not_null(file);
	zassert_equal((uintptr_t)file % VMCU_CONTAINER_ALIGN, 0U);
	zassert_true(file == &arena[left] && left + sizeof(tiny) <= sizeof(arena));
	memcpy(file, tiny, sizeof(tiny));
	zassert_ok(vmcu_model_load(&model, file, sizeof(tiny), arena, left));
	run_all(&model, vmcu_arena_head(&model, left));
	zassert_is_null(vmcu_arena_take(arena, &left, left + 1U));
	zassert_is_null(vmcu_arena_take(NULL, &left, 1U));
	zassert_is_null(vmcu_arena_take(arena, NULL, 1U));
	zassert_equal(vmcu_arena_report(NULL, sizeof(arena), &report), -EINVAL);
	zassert_equal(vmcu_arena_report(&model, left, NULL), -EINVAL);
}

ZTEST_SUITE(vmcu_container, NULL, NULL, NULL, NULL, NULL);
