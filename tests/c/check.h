/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief One assertion for tests that are plain programs.
 */

#ifndef CHECK_H_
#define CHECK_H_

#include <stdio.h>
#include <stdlib.h>

/** Ends the program with a message unless @a condition holds. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif /* CHECK_H_ */
