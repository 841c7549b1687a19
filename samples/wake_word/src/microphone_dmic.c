/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A PDM microphone, by Zephyr's DMIC API. */

#include <errno.h>

#include <zephyr/audio/dmic.h>
#include <zephyr/kernel.h>

#include "microphone.h"

#define TIMEOUT_MS 1000

K_MEM_SLAB_DEFINE_STATIC(blocks, BLOCK_SAMPLES * sizeof(int16_t), BLOCKS, 4);

static const struct device *const microphone = DEVICE_DT_GET(DT_NODELABEL(dmic_dev));
static void *held;
static unsigned int lost;

int microphone_start(void)
{
	struct pcm_stream_cfg stream = {
		.pcm_rate = FRONT_END_SAMPLE_RATE,
		.pcm_width = 16,
		.block_size = BLOCK_SAMPLES * sizeof(int16_t),
		.mem_slab = &blocks,
	};
	struct dmic_cfg config = {
		.io =
			{
				.min_pdm_clk_freq = 1000000,
				.max_pdm_clk_freq = 3500000,
				.min_pdm_clk_dc = 40,
				.max_pdm_clk_dc = 60,
			},
		.streams = &stream,
		.channel =
			{
				.req_num_streams = 1,
				.req_num_chan = 1,
				.req_chan_map_lo = dmic_build_channel_map(0, 0, PDM_CHAN_LEFT),
			},
	};
	int err;

	if (!device_is_ready(microphone)) {
		return -ENODEV;
	}
	err = dmic_configure(microphone, &config);
	return (err != 0) ? err : dmic_trigger(microphone, DMIC_TRIGGER_START);
}

int microphone_read(const int16_t **block)
{
	size_t size;
	int err;

	if (held != NULL) {
		k_mem_slab_free(&blocks, held);
		held = NULL;
	}
	err = dmic_read(microphone, 0, &held, &size, TIMEOUT_MS);
	if (err == -ENODATA) {
		return err;
	}
	if (err != 0 || size != BLOCK_SAMPLES * sizeof(int16_t)) {
		/* The driver found no free block, and has stopped. */
		lost++;
		return (err != 0) ? err : -EIO;
	}
	*block = held;
	return 0;
}

unsigned int microphone_lost(void)
{
	return lost;
}
