/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Sound to rows of features, in integers.
 *
 * The front end of TensorFlow Lite Micro's networks for speech, with its numbers: window, Fourier
 * transform, filters even in mel, noise reduction, PCAN, logarithm. `vmcu audio` writes the tables.
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

/** @brief A number of a Fourier transform. */
struct vmcu_complex {
	int16_t re; /**< real part */
	int16_t im; /**< imaginary part */
};

/** @brief The bins of a channel. */
struct vmcu_audio_weight {
	uint16_t own;  /**< how much of a bin is its channel's, in 4096ths */
	uint16_t next; /**< how much of it is the next channel's */
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

/** @brief A front end that listens. */
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
 * @brief Binds a front end to its memory, and forgets what was heard.
 *
 * @param ctx        What is bound; only this front end's until the next call.
 * @param audio      Tables.
 * @param state      Kept from one call to the next.
 * @param state_size Bytes of it, NAME_STATE_BYTES of the tables' header or more.
 * @param work       Used within a call. Between two calls anybody may have it: a network's pool
 *                   will do.
 * @param work_size  Bytes of it, NAME_WORK_BYTES or more.
 *
 * @retval 0       vmcu_audio_push() may follow.
 * @retval -EINVAL Something is NULL.
 * @retval -ENOMEM The state or the work is too small.
 */
int vmcu_audio_init(struct vmcu_audio_context *ctx, const struct vmcu_audio *audio, uint32_t *state,
		    size_t state_size, uint32_t *work, size_t work_size);

/** @brief Forgets what was heard. */
void vmcu_audio_reset(struct vmcu_audio_context *ctx);

/**
 * @brief Takes samples, up to those that complete a window.
 *
 * @param ctx      Front end that vmcu_audio_init() has set up.
 * @param samples  Of 16 bits, as many as there are.
 * @param count    How many that is.
 * @param taken    How many of them were taken: all, where no window is complete.
 * @param features A row, one number for each channel; left alone where no window is complete.
 *
 * @retval 1       A row was written. The rest of the samples has to be pushed again.
 * @retval 0       More samples are needed.
 * @retval -EINVAL Something is NULL, or there was no vmcu_audio_init().
 */
int vmcu_audio_push(struct vmcu_audio_context *ctx, const int16_t *samples, size_t count,
		    size_t *taken, uint16_t *features);

/**
 * @brief Features as the bytes that networks for micro_speech and microWakeWord take.
 *
 * @param features Of vmcu_audio_push().
 * @param count    How many.
 * @param bytes    256 * feature / 666 - 128 of each, rounded and cut.
 */
void vmcu_audio_bytes(const uint16_t *features, size_t count, int8_t *bytes);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_AUDIO_H_ */
