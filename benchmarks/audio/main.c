/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Rows of features of the samples in samples.bin, to features.bin; each in a call of its own. */

#include <semihosting.h>

#include "front_end.h"

static uint32_t state[FRONT_END_STATE_BYTES / 4U];
static uint32_t work[FRONT_END_WORK_BYTES / 4U];
static int16_t samples[FRONT_END_HOP];
static uint16_t features[FRONT_END_CHANNELS];

int take_hop(struct vmcu_audio_context *ctx);

__attribute__((noinline)) int take_hop(struct vmcu_audio_context *ctx)
{
	size_t taken;

	return vmcu_audio_push(ctx, samples, FRONT_END_HOP, &taken, features);
}

int main(void)
{
	struct vmcu_audio_context ctx;
	int in = vmcu_semihosting_open("samples.bin", false);
	int out = vmcu_semihosting_open("features.bin", true);

	if (vmcu_audio_init(&ctx, &front_end, state, sizeof(state), work, sizeof(work)) != 0) {
		return 1;
	}
	while (vmcu_semihosting_read(in, samples, sizeof(samples)) == sizeof(samples)) {
		if (take_hop(&ctx) > 0) {
			(void)vmcu_semihosting_write(out, features, sizeof(features));
		}
	}
	vmcu_semihosting_close(out);
	return 0;
}
