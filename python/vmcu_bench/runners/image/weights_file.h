/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Reads external weights from the file IMAGE_NAME.weights.bin.
 */

#ifndef WEIGHTS_FILE_H_
#define WEIGHTS_FILE_H_

#include <string.h>

#include <vmcu/vmcu.h>

#include "io.h"

#define TEXT_OF_(name) #name
#define TEXT_OF(name)  TEXT_OF_(name)
#define WEIGHTS_FILE   TEXT_OF(IMAGE_NAME) ".weights.bin"

struct pending_read {
	uint32_t offset;
	void *to;
	size_t bytes;
};

/** The weights file, which is read from its start for each inference. */
struct weights_file {
	struct pending_read reads[VMCU_MOST_READS];
	unsigned int started;
	unsigned int ended;
	uint32_t position;
	int file;
};

/**
 * Overwrites the bytes that the read may overwrite; they are read at the last moment, in
 * wait_read().
 */
static int start_read(void *user, uint32_t offset, void *to, size_t bytes)
{
	struct weights_file *weights = user;

	if (weights->started - weights->ended == VMCU_MOST_READS) {
		return -1;
	}
	memset(to, 0xa5, bytes);
	weights->reads[weights->started++ % VMCU_MOST_READS] =
		(struct pending_read){.offset = offset, .to = to, .bytes = bytes};
	return 0;
}

static int wait_for_read(void *user)
{
	struct weights_file *weights = user;
	const struct pending_read *read = &weights->reads[weights->ended++ % VMCU_MOST_READS];

	if (read->offset == 0U) {
		if (weights->file >= 0) {
			io_close(weights->file);
		}
		weights->file = io_open(WEIGHTS_FILE, false);
		weights->position = 0U;
	}
	if (read->offset != weights->position || weights->file < 0) {
		return -1;
	}
	weights->position += read->bytes;
	return (int)io_read(weights->file, read->to, read->bytes);
}

static struct weights_file weights = {.file = -1};
static const struct vmcu_reader reader = {
	.start = start_read, .wait = wait_for_read, .user = &weights};

#endif /* WEIGHTS_FILE_H_ */
