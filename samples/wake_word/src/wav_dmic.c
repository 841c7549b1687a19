/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A microphone of Zephyr's DMIC API that hears a WAV file. */

#define DT_DRV_COMPAT vmcu_wav_microphone

#include <errno.h>

#include <cmdline.h>
#include <soc.h>
#include <zephyr/audio/dmic.h>
#include <zephyr/device.h>
#include <zephyr/kernel.h>
#include <zephyr/version.h>

#include "wav.h"

/* As many as anybody has. */
#define WAITING 16

/* NULL without the option. */
static const char *path;
static struct pcm_stream_cfg stream;
static struct k_timer clock;
/* Blocks that are full; NULL behind the last. */
K_MSGQ_DEFINE(full, sizeof(void *), WAITING, sizeof(void *));

/* What a microphone does whenever a block is full. */
static void tick(struct k_timer *timer)
{
	void *block = NULL;

	if (k_mem_slab_alloc(stream.mem_slab, &block, K_NO_WAIT) != 0) {
		/* It has nowhere to put it, and stops, as those of hardware do. */
		k_timer_stop(timer);
		return;
	}
	if (wav_read(block, stream.block_size / sizeof(int16_t)) * sizeof(int16_t) <
	    stream.block_size) {
		k_mem_slab_free(stream.mem_slab, block);
		k_timer_stop(timer);
		block = NULL;
	}
	(void)k_msgq_put(&full, &block, K_NO_WAIT);
}

static int configure(const struct device *dev, struct dmic_cfg *config)
{
	ARG_UNUSED(dev);
	stream = config->streams[0];
	if (config->channel.req_num_chan != 1U || stream.pcm_width != 16U) {
		return -ENOTSUP;
	}
	return wav_open((path != NULL) ? path : SAMPLE_WAV_FILE, stream.pcm_rate);
}

static int trigger(const struct device *dev, enum dmic_trigger command)
{
	const uint32_t samples = stream.block_size / sizeof(int16_t);
	k_timeout_t block;

	ARG_UNUSED(dev);
	if (stream.pcm_rate == 0U) {
		return -EIO;
	}
	block = K_USEC(1000000ULL * samples / stream.pcm_rate);
	switch (command) {
	case DMIC_TRIGGER_START:
		k_timer_init(&clock, tick, NULL);
		k_timer_start(&clock, block, block);
		return 0;
	case DMIC_TRIGGER_STOP:
		k_timer_stop(&clock);
		return 0;
	default:
		return -ENOTSUP;
	}
}

static int next(const struct device *dev, uint8_t which, void **buffer, size_t *size,
		int32_t timeout)
{
	int err = k_msgq_get(&full, buffer, SYS_TIMEOUT_MS(timeout));

	ARG_UNUSED(dev);
	ARG_UNUSED(which);
	*size = stream.block_size;
	if (err != 0) {
		return err;
	}
	return (*buffer == NULL) ? -ENODATA : 0;
}

#if KERNEL_VERSION_NUMBER >= 0x040500
static DEVICE_API(dmic, operations) = {
#else
static const struct _dmic_ops operations = {
#endif
	.configure = configure,
	.trigger = trigger,
	.read = next,
};

DEVICE_DT_INST_DEFINE(0, NULL, NULL, NULL, NULL, POST_KERNEL, CONFIG_AUDIO_DMIC_INIT_PRIORITY,
		      &operations);

static void options(void)
{
	static struct args_struct_t wav[] = {
		{
			.option = "wav",
			.name = "file",
			.type = 's',
			.dest = (void *)&path,
			.descript = "WAV file to hear: 16 bit, one channel, 16000 Hz",
		},
		ARG_TABLE_ENDMARKER,
	};

	native_add_command_line_opts(wav);
}

NATIVE_TASK(options, PRE_BOOT_1, 1);
