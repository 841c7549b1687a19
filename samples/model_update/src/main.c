/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Runs the digits network from flash, and replaces it by another version of itself, which could
 * have come by any transport: here it is a constant.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zephyr/sys/util.h>

#include "files.h"
#include "slots.h"
#include "test_images.h"

#define ARENA_BYTES 8192
#define IMAGES      12

static const uint8_t first[] = {
#include <digits.update.inc>
};
static const uint8_t second[] = {
#include <digits_2.update.inc>
};

static uint8_t arena[ARENA_BYTES] __aligned(VMCU_POOL_ALIGN);
static struct vmcu_slots slots;

/** Right answers to some of the held-out images, -1 if the model fails. */
static int count_right(void)
{
	int right = 0;

	for (unsigned int i = 0; i < IMAGES; i++) {
		const int8_t *scores;
		unsigned int best = 0;

		memcpy(vmcu_input(&slots.ctx, 0), test_images[i], TEST_IMAGE_BYTES);
		if (vmcu_invoke(&slots.ctx) != 0) {
			return -1;
		}
		scores = vmcu_output(&slots.ctx, 0);
		for (unsigned int k = 1; k < vmcu_output_size(&slots.ctx, 0); k++) {
			best = (scores[k] > scores[best]) ? k : best;
		}
		right += (best == test_labels[i]) ? 1 : 0;
	}
	return right;
}

static void report(const char *what, int err)
{
	if (err != 0) {
		printf("%s: refused, error %d%s%s\n", what, err,
		       (slots.refusal.what != NULL) ? ": " : "",
		       (slots.refusal.what != NULL) ? slots.refusal.what : "");
	} else {
		printf("%s: accepted\n", what);
	}
	if (slots.ctx.model != NULL) {
		printf("  %s, pool of %u bytes: %d of %d right\n", slots.model.name,
		       (unsigned int)slots.model.pool_bytes, count_right(), IMAGES);
	}
}

/** The second update as it comes piece by piece, damaged. */
static int update_with_flipped_bit(size_t at)
{
	const uint8_t damaged = second[at] ^ 1U;
	int err = vmcu_slots_begin(&slots, sizeof(second));

	if (err == 0) {
		err = vmcu_slots_write(&slots, second, at);
	}
	if (err == 0) {
		err = vmcu_slots_write(&slots, &damaged, 1U);
	}
	if (err == 0) {
		err = vmcu_slots_write(&slots, &second[at + 1U], sizeof(second) - at - 1U);
	}
	return (err == 0) ? vmcu_slots_commit(&slots) : err;
}

/** As after a reset: nothing is left but what the flash holds. */
static int start(void)
{
	memset(&slots, 0, sizeof(slots));
	slots.arena = arena;
	slots.arena_size = sizeof(arena);
	find_slots(&slots);
	return vmcu_slots_open(&slots);
}

int main(void)
{
	int err = start();

	if (err == -ENOENT) {
		err = vmcu_slots_update(&slots, first, sizeof(first));
	}
	report("the model that the device came with", err);

	report("an update with a flipped bit", update_with_flipped_bit(sizeof(second) / 2U));
	report("an update whose vector fails", update_with_flipped_bit(sizeof(second) - 1U));
	report("the update", update_from_file(&slots, second, sizeof(second)));
	report("after a reset", start());
	err = (slots.ctx.model != NULL && strcmp(slots.model.name, "digits_2") == 0) ? 0 : 1;
	printf("model_update: %s\n", (err == 0) ? "PASS" : "FAIL");
#if defined(CONFIG_MCUMGR_GRP_FS)
	err = wait_for_updates(&slots, report);
	printf("model_update: no more updates, error %d\n", err);
#endif
	return err;
}
