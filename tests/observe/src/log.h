/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifndef OBSERVE_LOG_H_
#define OBSERVE_LOG_H_

#include <stdbool.h>

/** Forgets what has been logged. */
void log_clear(void);

/** True if that text has been logged since. */
bool log_has(const char *text);

#endif /* OBSERVE_LOG_H_ */
