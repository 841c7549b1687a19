/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * The stages of a front end, in their order. Each works within memory that is the next one's, too.
 */

#ifndef VMCU_AUDIO_STAGES_H_
#define VMCU_AUDIO_STAGES_H_

#include <vmcu/audio.h>

/** Bits of the window's coefficients, of the filters' weights, and of parts of noise. */
#define VMCU_AUDIO_WINDOW_BITS 12
#define VMCU_AUDIO_NOISE_BITS  14

/** Bits that a number has; 0 for 0. */
static inline unsigned int vmcu_audio_bits(uint32_t x)
{
	return (x == 0U) ? 0U : 32U - (unsigned int)__builtin_clz(x);
}

/**
 * Weighs the samples of a window and shifts them as far left as 16 bits allow, in pairs, to where
 * the transform wants them. Returns by how much.
 */
unsigned int vmcu_audio_window(const struct vmcu_audio *audio, const int16_t *samples,
			       struct vmcu_complex *x);

/** The real transform of twice `points` samples in place, to `points` + 1 bins. */
void vmcu_audio_transform(const struct vmcu_audio *audio, struct vmcu_complex *x);

/** The magnitude in each channel, divided by 2^shift. */
void vmcu_audio_filter(const struct vmcu_audio *audio, const struct vmcu_complex *bins,
		       unsigned int shift, uint32_t *signal);

/** Subtracts the noise from the signal, and updates the estimate of the noise. */
void vmcu_audio_quiet(const struct vmcu_audio *audio, uint32_t *noise, uint32_t *signal);

/** Per-channel amplitude normalisation by the noise. */
void vmcu_audio_normalise(const struct vmcu_audio *audio, const uint32_t *noise, uint32_t *signal);

/** Logarithms, or the numbers themselves, cut to 16 bits. */
void vmcu_audio_scale(const struct vmcu_audio *audio, const uint32_t *signal, uint16_t *features);

#endif /* VMCU_AUDIO_STAGES_H_ */
