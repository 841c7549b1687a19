/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Audio front end: computes rows of features from samples, in integers.
 *
 * Bit-identical to the front end of TensorFlow Lite Micro's speech networks: window, Fourier
 * transform, mel filters, noise reduction, PCAN, logarithm. `vmcu audio` writes the tables.
 */

#ifndef VMCU_AUDIO_H_
#define VMCU_AUDIO_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_audio Audio
 * @{
 */

/** @brief A complex number of the Fourier transform. */
struct vmcu_complex {
	int16_t re; /**< real part */
	int16_t im; /**< imaginary part */
};

/** @brief The weights of a bin. */
struct vmcu_audio_weight {
	uint16_t own;  /**< weight in the bin's channel, in units of 1/4096 */
	uint16_t next; /**< weight in the next channel, in units of 1/4096 */
};

/** @brief The tables of a front end, written by `vmcu audio`. */
struct vmcu_audio {
	/** @cond INTERNAL_HIDDEN */
	const int16_t *coefficients;
#if defined(VMCU_AUDIO_CMSIS_DSP)
	const void *fft; /**< an arm_cfft_instance_q15 of `points` */
#else
	const uint16_t *places;
	const struct vmcu_complex *twiddles;
#endif
	const struct vmcu_complex *halves;
	const struct vmcu_audio_weight *weights;
	const uint16_t *widths;
	const int16_t *gain;
	const uint16_t *log;
	uint32_t state_bytes;
	uint32_t work_bytes;
	uint16_t window;
	uint16_t hop;
	uint16_t points;
	uint16_t channels;
	uint16_t first_bin;
	uint16_t even_smoothing;
	uint16_t odd_smoothing;
	uint16_t least_signal;
	uint8_t smoothing_bits;
	uint8_t gain_shift;
	uint8_t log_shift;
	int8_t correction;
	bool is_log;
	/** @endcond */
};

/** @brief The state of a front end. The caller owns it; calls for it must not overlap. */
struct vmcu_audio_context {
	/** @cond INTERNAL_HIDDEN */
	const struct vmcu_audio *audio;
	uint32_t *noise;
	int16_t *samples;
	uint32_t *work;
	uint16_t filled;
	/** @endcond */
};

/**
 * @brief Binds a front end to its memory and resets it.
 *
 * @param ctx        Context to set up.
 * @param audio      Tables from `vmcu audio`.
 * @param state      Memory that the front end uses between calls. Do not write it.
 * @param state_size Bytes at @a state, at least NAME_STATE_BYTES of the tables' header.
 * @param work       Memory that the front end uses during a call. Between calls, other code can
 *                   use it: a model's pool is suitable.
 * @param work_size  Bytes at @a work, at least NAME_WORK_BYTES of the tables' header.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL.
 * @retval -ENOMEM @a state_size or @a work_size is too small.
 */
int vmcu_audio_init(struct vmcu_audio_context *ctx, const struct vmcu_audio *audio, uint32_t *state,
		    size_t state_size, uint32_t *work, size_t work_size);

/** @brief Resets the front end: the next sample is the first one. */
void vmcu_audio_reset(struct vmcu_audio_context *ctx);

/**
 * @brief Reads samples until a window is complete, then computes a row of features.
 *
 * @param ctx      Front end that vmcu_audio_init() has set up.
 * @param samples  Samples of 16 bits.
 * @param count    Number of samples.
 * @param taken    Number of samples that the call has read: all, if no window is complete.
 * @param features One number for each channel. The call writes them only if a window is complete.
 *
 * @retval 1       The row is ready. Push the remaining samples.
 * @retval 0       Push more samples.
 * @retval -EINVAL A pointer is NULL, or @a ctx was not set up.
 */
int vmcu_audio_push(struct vmcu_audio_context *ctx, const int16_t *samples, size_t count,
		    size_t *taken, uint16_t *features);

/**
 * @brief Converts features to the int8 inputs of micro_speech and microWakeWord.
 *
 * @param features Features from vmcu_audio_push().
 * @param count    Number of features.
 * @param bytes    Buffer of @a count bytes: 256 * feature / 666 - 128, rounded and saturated.
 */
void vmcu_audio_bytes(const uint16_t *features, size_t count, int8_t *bytes);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_AUDIO_H_ */
