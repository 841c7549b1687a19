/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include "stages.h"

int vmcu_audio_init(struct vmcu_audio_context *ctx, const struct vmcu_audio *audio, uint32_t *state,
		    size_t state_size, uint32_t *work, size_t work_size)
{
	if (ctx == NULL) {
		return -EINVAL;
	}
	ctx->audio = NULL;
	if (audio == NULL || state == NULL || work == NULL) {
		return -EINVAL;
	}
	if (state_size < audio->state_bytes || work_size < audio->work_bytes) {
		return -ENOMEM;
	}
	ctx->audio = audio;
	ctx->noise = state;
	ctx->samples = (int16_t *)(ctx->noise + audio->channels);
	ctx->work = work;
	vmcu_audio_reset(ctx);
	return 0;
}

void vmcu_audio_reset(struct vmcu_audio_context *ctx)
{
	if (ctx != NULL && ctx->audio != NULL) {
		(void)memset(ctx->noise, 0, sizeof(uint32_t) * ctx->audio->channels);
		ctx->filled = 0U;
	}
}

/* A row of features from the window that is complete. */
static void row_of(const struct vmcu_audio_context *ctx, uint16_t *features)
{
	const struct vmcu_audio *audio = ctx->audio;
	struct vmcu_complex *x = (struct vmcu_complex *)ctx->work;
	/* Behind the bins, of which there is one more than points. */
	uint32_t *signal = ctx->work + audio->points + 1U;
	unsigned int shift = vmcu_audio_window(audio, ctx->samples, x);

	vmcu_audio_transform(audio, x);
	vmcu_audio_filter(audio, x, shift, signal);
	vmcu_audio_quiet(audio, ctx->noise, signal);
	if (audio->gain != NULL) {
		vmcu_audio_normalise(audio, ctx->noise, signal);
	}
	vmcu_audio_scale(audio, signal, features);
}

int vmcu_audio_push(struct vmcu_audio_context *ctx, const int16_t *samples, size_t count,
		    size_t *taken, uint16_t *features)
{
	const struct vmcu_audio *audio;
	size_t missing, kept;

	if (ctx == NULL || ctx->audio == NULL || samples == NULL || taken == NULL ||
	    features == NULL) {
		return -EINVAL;
	}
	audio = ctx->audio;
	missing = (size_t)audio->window - ctx->filled;
	*taken = (count < missing) ? count : missing;
	(void)memcpy(ctx->samples + ctx->filled, samples, *taken * sizeof(*samples));
	ctx->filled += (uint16_t)*taken;
	if (ctx->filled < audio->window) {
		return 0;
	}
	row_of(ctx, features);
	kept = (size_t)audio->window - audio->hop;
	(void)memmove(ctx->samples, ctx->samples + audio->hop, kept * sizeof(*samples));
	ctx->filled = (uint16_t)kept;
	return 1;
}

void vmcu_audio_bytes(const uint16_t *features, size_t count, int8_t *bytes)
{
	for (size_t n = 0; n < count; n++) {
		uint32_t value = (features[n] * 256U + 333U) / 666U;

		bytes[n] = (int8_t)((int32_t)((value < 255U) ? value : 255U) - 128);
	}
}
