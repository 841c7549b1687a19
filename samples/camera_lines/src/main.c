/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A camera delivers lines; the model takes each as it comes and keeps the few it still needs. */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <vmcu/pool.h>
#include <vmcu/vmcu.h>

#include "digits.h"
#include "test_images.h"

#define IMAGES     20
#define LINE_BYTES VMCU_MODEL_ROW_BYTES(digits)
#define LINES      (TEST_IMAGE_BYTES / LINE_BYTES)

BUILD_ASSERT(IMAGES <= TEST_IMAGE_COUNT);

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(digits));

/* Two lines: the camera fills one while the model works on the other. */
K_MSGQ_DEFINE(lines, LINE_BYTES, 2, 1);

static void camera(void *a, void *b, void *c)
{
	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);

	for (unsigned int i = 0; i < IMAGES; i++) {
		for (unsigned int y = 0; y < LINES; y++) {
			k_msgq_put(&lines, &test_images[i][y * LINE_BYTES], K_FOREVER);
		}
	}
}

K_THREAD_DEFINE(camera_thread, 1024, camera, NULL, NULL, NULL, K_PRIO_PREEMPT(1), 0, 0);

/* One image: 0 once its outputs are there. */
static int take_image(struct vmcu_context *ctx)
{
	int8_t line[LINE_BYTES];
	int wanted = 1;

	/* A model may not need the last lines, but the camera delivers them. */
	for (unsigned int y = 0; y < LINES; y++) {
		k_msgq_get(&lines, line, K_FOREVER);
		if (wanted == 1) {
			wanted = vmcu_push_row(ctx, line);
		}
	}
	return wanted;
}

static unsigned int best(const int8_t *scores, size_t count)
{
	unsigned int winner = 0;

	for (unsigned int i = 1; i < count; i++) {
		if (scores[i] > scores[winner]) {
			winner = i;
		}
	}
	return winner;
}

int main(void)
{
	struct vmcu_context ctx;
	unsigned int differing = 0;
	int err = vmcu_init(&ctx, &digits_model, pool, sizeof(pool));

	for (unsigned int i = 0; err == 0 && i < IMAGES; i++) {
		err = take_image(&ctx);
		if (err == 0 && best(vmcu_output(&ctx, 0), vmcu_output_size(&ctx, 0)) !=
					onnxruntime_answers[i]) {
			differing++;
		}
	}
	if (err != 0) {
		printk("camera_lines: error %d\n", err);
	}
	printk("camera_lines: %u bytes of RAM\n", (unsigned int)sizeof(pool));
	printk("camera_lines: %u images, differing predictions: %u\n", IMAGES, differing);
	printk("camera_lines: %s\n", (err == 0 && differing == 0U) ? "PASS" : "FAIL");
	return err;
}
