/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Several wake words of microWakeWord at once, in memory of constant size.
 *
 * wake_words.py writes wake_words_models.h, the models and the tables of the front end.
 */

#ifndef WAKE_WORDS_H_
#define WAKE_WORDS_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/vmcu.h>

#include "wake_words_models.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A wake word, from the manifest of its model. */
struct wake_word {
	const char *name;
	const struct vmcu_model *model;
	uint32_t pool;  /**< offset of the model's pool in the pool of all words */
	uint8_t cutoff; /**< a mean above so many 255ths is the word */
	uint8_t window; /**< probabilities of a mean */
};

extern const struct wake_word wake_words[WAKE_WORDS_COUNT];

/**
 * @brief Called when a word is detected; it may start and stop words.
 *
 * @param user Pointer that the caller of wake_words_push() gave.
 * @param word Index in wake_words.
 * @param mean Mean probability in 255ths.
 */
typedef void (*wake_words_detected_t)(void *user, unsigned int word, uint8_t mean);

/** @brief Prepares the front end, once. Returns 0 or a negative errno. */
int wake_words_init(void);

/**
 * @brief Starts a word with an empty state, again if it runs, or stops it.
 *
 * The change takes effect at the next row of features. Call both functions from one thread, which
 * need not be that of wake_words_push().
 *
 * @retval 0       Done.
 * @retval -EINVAL There is no such word.
 * @{
 */
int wake_words_start(unsigned int word);
int wake_words_stop(unsigned int word);
/** @} */

/**
 * @brief Runs all started words on the next samples.
 *
 * @param samples  16 bits, 16,000 a second.
 * @param count    Number of samples, any.
 * @param detected Called once for each detection.
 * @param user     Passed to @a detected.
 *
 * @return 0 or a negative errno.
 */
int wake_words_push(const int16_t *samples, size_t count, wake_words_detected_t detected,
		    void *user);

/** @brief wake_words_push() behind the front end: @a row has WAKE_WORDS_CHANNELS features. */
int wake_words_push_row(const int8_t *row, wake_words_detected_t detected, void *user);

/** @brief Last probability of a word in 255ths, 0 before the first. */
uint8_t wake_words_probability(unsigned int word);

#ifdef __cplusplus
}
#endif

#endif /* WAKE_WORDS_H_ */
