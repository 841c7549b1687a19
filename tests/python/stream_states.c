/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What a stream's state survives: cancelling, other streams, blobs that are none of it.
 *
 * Arguments: a file of rows and one of their answers, of a model that moves by one row a hop.
 * Compiled with VMCU_PROFILE and VMCU_HOOKS, so that kernels are called from here; with
 * VMCU_CONTAINERS the model is loaded from a container.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

#include "check.h"
#include "model.h"

#define ROW    VMCU_MODEL_ROW_BYTES(model)
#define ANSWER VMCU_MODEL_MODEL_OUTPUT0_BYTES
#define FIRST  VMCU_MODEL_MODEL_WINDOW_ROWS
#define ROWS   200
#define HOPS   (ROWS - FIRST + 1)

#if defined(VMCU_CONTAINERS)
#include <vmcu/container.h>

extern const uint8_t image_container[];
extern const size_t image_container_bytes;

static struct vmcu_model loaded;
static uint8_t arena[1 << 18] __attribute__((aligned(VMCU_POOL_ALIGN)));

#define MODEL loaded
#else
#define MODEL model_model
#endif

static int8_t rows[ROWS][ROW];
static int8_t answers[HOPS][ANSWER];

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(model));
static VMCU_POOL_DEFINE(other_pool, VMCU_MODEL_POOL_BYTES(model));

static void read_all(const char *name, void *data, size_t size)
{
	FILE *file = fopen(name, "rb");

	CHECK(file != NULL && fread(data, 1, size, file) == size);
	fclose(file);
}

static struct vmcu_context ctx_of_cancel;
static unsigned int calls;
static unsigned int cancel_at;

static bool open;
static uint16_t stage;

void vmcu_hook_init(const struct vmcu_model *model, size_t size, int err)
{
	(void)model;
	(void)size;
	(void)err;
}

void vmcu_hook_begin(const struct vmcu_context *ctx)
{
	(void)ctx;
	open = true;
}

/** Nothing ends that has not begun, also where a hop goes on that was cancelled. */
void vmcu_hook_end(const struct vmcu_context *ctx, int err)
{
	(void)ctx;
	(void)err;
	CHECK(open);
	open = false;
	stage = 0U;
}

void vmcu_hook_stage_begin(const struct vmcu_context *ctx, uint16_t number)
{
	(void)ctx;
	CHECK(open && number == stage);
}

void vmcu_hook_stage_end(const struct vmcu_context *ctx, uint16_t number)
{
	(void)ctx;
	CHECK(open && number == stage);
	stage++;
}

/** The executor's call of a kernel; number @a cancel_at is cancelled when it is over. */
void vmcu_hook_call(const struct vmcu_context *ctx, const struct vmcu_call *call)
{
	vmcu_kernel_of(ctx->model, call->layer)(call);
	calls++;
	if (calls == cancel_at) {
		CHECK(vmcu_cancel(&ctx_of_cancel) == 0);
	}
}

/** Pushes a row; it has to give what it would in a stream of its own. */
static void push(struct vmcu_context *ctx, unsigned int row)
{
	const int err = vmcu_push_row(ctx, rows[row]);

	CHECK(err == ((row + 1U < FIRST) ? 1 : 0));
	if (err == 0) {
		CHECK(vmcu_output_size(ctx, 0) == ANSWER);
		CHECK(memcmp(vmcu_output(ctx, 0), answers[row + 1U - FIRST], ANSWER) == 0);
	}
}

static void push_all(struct vmcu_context *ctx, unsigned int from, unsigned int to)
{
	for (unsigned int row = from; row < to; row++) {
		push(ctx, row);
	}
}

static struct vmcu_context begun(void)
{
	struct vmcu_context ctx;

	CHECK(vmcu_init(&ctx, &MODEL, pool, sizeof(pool)) == 0);
	return ctx;
}

static void test_reset(void)
{
	struct vmcu_context ctx = begun();
	struct vmcu_context unset = {0};

	push_all(&ctx, 0U, 77U);
	CHECK(vmcu_reset(&ctx) == 0);
	push_all(&ctx, 0U, ROWS);
	CHECK(vmcu_reset(NULL) == -EINVAL);
	CHECK(vmcu_reset(&unset) == -EINVAL);
	CHECK(vmcu_state_size(NULL) == 0U && vmcu_state_size(&unset) == 0U);
	CHECK(vmcu_state_save(&unset, rows, sizeof(rows)) == -EINVAL);
	CHECK(vmcu_invoke(&ctx) == -ENOTSUP);
	CHECK(vmcu_push_row(&ctx, NULL) == -EINVAL);
	CHECK(vmcu_row_size(&ctx, 0) == ROW && vmcu_input_size(&ctx, 0) == ROW);
	CHECK(vmcu_row_of_output(&ctx, 0, 1) == NULL);
}

/** A hop that is cancelled at any of its calls has no answer, and those behind it are right. */
static __attribute__((unused)) void test_cancel_within(void)
{
	unsigned int of_hop;

	ctx_of_cancel = begun();
	push_all(&ctx_of_cancel, 0U, 99U);
	calls = 0U;
	push(&ctx_of_cancel, 99U);
	of_hop = calls;
	CHECK(of_hop > 2U);
	for (unsigned int at = 1U; at <= of_hop; at++) {
		ctx_of_cancel = begun();
		push_all(&ctx_of_cancel, 0U, 99U);
		calls = 0U;
		cancel_at = at;
		CHECK(vmcu_push_row(&ctx_of_cancel, rows[99]) == -ECANCELED);
		CHECK(calls == at);
		cancel_at = 0U;
		push_all(&ctx_of_cancel, 100U, ROWS);
	}
}

/** Rows count, whether their hop is cancelled before it begins or again. */
static __attribute__((unused)) void test_cancel(void)
{
	for (unsigned int at = 0U; at < ROWS; at += 7U) {
		struct vmcu_context ctx = begun();

		push_all(&ctx, 0U, at);
		CHECK(vmcu_cancel(&ctx) == 0);
		CHECK(vmcu_push_row(&ctx, rows[at]) == -ECANCELED);
		if (at + 1U < ROWS) {
			CHECK(vmcu_cancel(&ctx) == 0);
			CHECK(vmcu_push_row(&ctx, rows[at + 1U]) == -ECANCELED);
			push_all(&ctx, at + 2U, ROWS);
		}
	}
}

#if defined(COMPUTED)
/** Pushes rows to two contexts; true if all answers are the same. */
static bool is_alike(struct vmcu_context *one, struct vmcu_context *other, unsigned int from)
{
	bool same = true;

	for (unsigned int row = from; row < from + 20U; row++) {
		CHECK(vmcu_push_row(one, rows[row]) == vmcu_push_row(other, rows[row]));
		same = same && memcmp(vmcu_output(one, 0), vmcu_output(other, 0), ANSWER) == 0;
	}
	return same;
}

/** A call that is cancelled at any of its kernels leaves all states as they were, or as they are
 * when it is over.
 */
static void test_cancel_computed(unsigned int before)
{
	unsigned int kept = 0U;
	unsigned int of_call;

	ctx_of_cancel = begun();
	push_all(&ctx_of_cancel, 0U, before);
	calls = 0U;
	push(&ctx_of_cancel, before);
	of_call = calls;
	for (unsigned int at = 0U; at <= of_call; at++) {
		struct vmcu_context other;
		bool same[2];

		for (unsigned int with = 0U; with < 2U; with++) {
			ctx_of_cancel = begun();
			push_all(&ctx_of_cancel, 0U, before);
			calls = 0U;
			cancel_at = at;
			if (at == 0U) {
				CHECK(vmcu_cancel(&ctx_of_cancel) == 0);
			}
			CHECK(vmcu_push_row(&ctx_of_cancel, rows[before]) == -ECANCELED);
			cancel_at = 0U;
			CHECK(vmcu_init(&other, &MODEL, other_pool, sizeof(other_pool)) == 0);
			push_all(&other, 0U, before + with);
			same[with] = is_alike(&ctx_of_cancel, &other, before + 1U);
		}
		CHECK(same[0] || same[1]);
		kept += same[1] ? 1U : 0U;
	}
	CHECK(kept > 0U && kept < of_call);
}
#endif

static void test_two_streams(void)
{
	struct vmcu_context ctx = begun();
	const size_t size = vmcu_state_size(&ctx);
	/* At an odd address. */
	char *const one = (char *)malloc(size + 1U) + 1;
	char *const two = (char *)malloc(size + 1U) + 1;

	CHECK(size > MODEL.stream->state_bytes);
	CHECK(MODEL.stream->state_bytes <= VMCU_MODEL_POOL_BYTES(model));
	push_all(&ctx, 0U, 50U);
	CHECK(vmcu_state_save(&ctx, one, size) == 0);
	CHECK(vmcu_reset(&ctx) == 0);
	push_all(&ctx, 0U, 9U);
	CHECK(vmcu_state_save(&ctx, two, size) == 0);
	for (unsigned int row = 0U; row < 140U; row++) {
		CHECK(vmcu_state_restore(&ctx, one, size) == 0);
		push(&ctx, 50U + row);
		CHECK(vmcu_state_save(&ctx, one, size) == 0);
		CHECK(vmcu_state_restore(&ctx, two, size) == 0);
		push(&ctx, 9U + row);
		CHECK(vmcu_state_save(&ctx, two, size) == 0);
	}
	CHECK(vmcu_init(&ctx, &MODEL, other_pool, sizeof(other_pool)) == 0);
	CHECK(vmcu_state_restore(&ctx, one, size) == 0);
	push(&ctx, 190U);
	free(one - 1);
	free(two - 1);
}

/** Gives a state the checksum that its bytes have. */
static void mend(unsigned char *state, size_t size)
{
	uint32_t sum = 2166136261U;

	/* Behind the head's four numbers is the position, then come the bytes. */
	for (size_t i = 16U; i < size; i++) {
		sum = (sum ^ state[i]) * 16777619U;
	}
	memcpy(&state[12], &sum, sizeof(sum));
}

/** A state with a right checksum and a place that no stream can be at: of each number one. */
static void test_places(struct vmcu_context *ctx, unsigned char *state, size_t size)
{
	const size_t counts =
		size - MODEL.stream->state_bytes + MODEL.stages[0].progress - MODEL.stream->state;
	const size_t at[] = {16U, 18U, 22U, counts, counts + 2U * MODEL.stages[0].count - 2U};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		unsigned char kept[2];

		memcpy(kept, &state[at[i]], sizeof(kept));
		memset(&state[at[i]], 0xff, sizeof(kept));
		mend(state, size);
		CHECK(vmcu_state_restore(ctx, state, size) == -EILSEQ);
		memcpy(&state[at[i]], kept, sizeof(kept));
		mend(state, size);
	}
}

static void test_bad_states(void)
{
	struct vmcu_context ctx = begun();
	const size_t size = vmcu_state_size(&ctx);
	struct vmcu_model plain = MODEL;
	struct vmcu_stream other = *MODEL.stream;
	struct vmcu_model newer = MODEL;
	unsigned char *const state = malloc(size);

	push_all(&ctx, 0U, 60U);
	CHECK(vmcu_state_save(&ctx, state, size - 1U) == -ENOMEM);
	CHECK(vmcu_state_save(&ctx, state, size) == 0);
	CHECK(vmcu_state_save(&ctx, NULL, size) == -EINVAL);
	CHECK(vmcu_state_save(NULL, state, size) == -EINVAL);
	CHECK(vmcu_state_restore(&ctx, NULL, size) == -EINVAL);
	CHECK(vmcu_state_restore(NULL, state, size) == -EINVAL);
	push_all(&ctx, 60U, 64U);
	CHECK(vmcu_state_restore(&ctx, state, size - 1U) == -EINVAL);
	state[0] ^= 1U;
	CHECK(vmcu_state_restore(&ctx, state, size) == -EBADMSG);
	state[0] ^= 1U;
	/* Its number of bytes. */
	state[8] ^= 1U;
	CHECK(vmcu_state_restore(&ctx, state, size) == -EBADMSG);
	state[8] ^= 1U;
	for (size_t at = 12U; at < size; at += 3U) {
		state[at] ^= 0x10U;
		CHECK(vmcu_state_restore(&ctx, state, size) == -EILSEQ);
		state[at] ^= 0x10U;
	}
	test_places(&ctx, state, size);
	other.model++;
	newer.stream = &other;
	ctx.model = &newer;
	CHECK(vmcu_state_restore(&ctx, state, size) == -EBADMSG);
	plain.stream = NULL;
	ctx.model = &plain;
	CHECK(vmcu_state_size(&ctx) == 0U);
	CHECK(vmcu_state_save(&ctx, state, size) == -ENOTSUP);
	CHECK(vmcu_state_restore(&ctx, state, size) == -ENOTSUP);
	ctx.model = &MODEL;
	/* None of that has changed a thing. */
	push_all(&ctx, 64U, ROWS);
	CHECK(vmcu_state_restore(&ctx, state, size) == 0);
	push_all(&ctx, 60U, ROWS);
	/* A stream that has not begun. */
	CHECK(vmcu_reset(&ctx) == 0);
	CHECK(vmcu_state_save(&ctx, state, size) == 0);
	push_all(&ctx, 0U, 9U);
	CHECK(vmcu_state_restore(&ctx, state, size) == 0);
	push_all(&ctx, 0U, ROWS);
	free(state);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
#if defined(VMCU_CONTAINERS)
	CHECK(vmcu_model_load(&loaded, image_container, image_container_bytes, arena,
			      sizeof(arena)) == 0);
#endif
	read_all(argv[1], rows, sizeof(rows));
	read_all(argv[2], answers, sizeof(answers));
	test_reset();
#if defined(COMPUTED)
	test_cancel_computed(0U);
	test_cancel_computed(1U);
	test_cancel_computed(60U);
#else
	test_cancel();
	test_cancel_within();
#endif
	test_two_streams();
	test_bad_states();
	return 0;
}
