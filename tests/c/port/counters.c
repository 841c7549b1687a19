/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Inferences of three models, of which two have counters; prints these as CBOR, in hexadecimal. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zephyr/kernel.h>

#include <vmcu/counters.h>

#include "../check.h"

static int8_t output[6];
static uint32_t now;
static bool is_user;

bool k_is_user_context(void)
{
	return is_user;
}

uint32_t k_cycle_get_32(void)
{
	return now;
}

k_spinlock_key_t k_spin_lock(struct k_spinlock *lock)
{
	CHECK(!lock->locked);
	lock->locked = true;
	return 7;
}

void k_spin_unlock(struct k_spinlock *lock, k_spinlock_key_t key)
{
	CHECK(lock->locked && key == 7);
	lock->locked = false;
}

size_t vmcu_output_size(const struct vmcu_context *ctx, unsigned int index)
{
	CHECK(ctx != NULL && index == 0U);
	return sizeof(output);
}

const int8_t *vmcu_row_of_output(const struct vmcu_context *ctx, unsigned int index, unsigned int y)
{
	CHECK(ctx != NULL && index == 0U && y < 3U);
	return &output[2U * y];
}

/** An inference of so many cycles that ends so and whose greatest element is number @a answer. */
static void run(const struct vmcu_model *model, uint32_t cycles, int err, size_t answer)
{
	struct vmcu_context ctx = {.model = model};

	memset(output, INT8_MIN, sizeof(output));
	output[answer] = 5;
	vmcu_counters_begin(&ctx);
	now += cycles;
	vmcu_counters_end(&ctx, err);
}

int main(void)
{
	static const struct vmcu_tensor tensor = {.height = 3, .width = 2, .channels = 1};
	static const struct vmcu_io io = {.tensor = 0};
	struct vmcu_model kws = {
		.name = "kws", .tensors = &tensor, .outputs = &io, .output_count = 1};
	struct vmcu_model vww = kws;
	struct vmcu_model none = kws;
	uint8_t bytes[256];
	size_t used;

	vww.name = "vww";
	/* The clock wraps around. */
	now = UINT32_MAX - 100U;
	run(&kws, 800U, 0, 1U);
	run(&kws, 2400U, 0, 5U);
	run(&kws, 1600U, 0, 1U);
	run(&vww, 80U, -EFAULT, 0U);
	run(&vww, 80U, -ECANCELED, 0U);
	run(&none, 80U, 0, 0U);
	is_user = true;
	run(&kws, 80U, 0, 0U);
	CHECK(vmcu_counters_encode(bytes, sizeof(bytes), &used) == 0);
	for (size_t size = 0; size < used; size++) {
		size_t part;

		CHECK(vmcu_counters_encode(bytes, size, &part) == -ENOMEM && part == 0U);
	}
	CHECK(vmcu_counters_encode(bytes, used, &used) == 0);
	for (size_t i = 0; i < used; i++) {
		printf("%02x", bytes[i]);
	}
	/* Another model in its place starts over. */
	is_user = false;
	vww.name = "vww_2";
	run(&vww, 8U, 0, 0U);
	CHECK(vmcu_counters_encode(bytes, sizeof(bytes), &used) == 0);
	printf("\n");
	for (size_t i = 0; i < used; i++) {
		printf("%02x", bytes[i]);
	}
	return 0;
}
