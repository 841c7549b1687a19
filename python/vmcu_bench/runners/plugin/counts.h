/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The costs of an inference, and the files that the plugin writes at exit.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/** How often a run ran, and was left by a taken branch. */
struct runs {
	uint64_t executed;
	uint64_t taken;
};

/** A translated run of instructions; only its last one can jump. */
struct block {
	uint64_t start;
	uint64_t end;
	uint64_t instructions;
	bool is_entry;
	bool is_kernel;
	struct runs *runs; /* one for each row of counts */
	struct block *next;
};

struct counts {
	uint64_t calls;
	uint64_t instructions;
	uint64_t noted; /* instructions of the inferences that are over */
	uint64_t loads_ram;
	uint64_t loads_flash;
	uint64_t stores;
	uint64_t jumps_missed;
	uint64_t lines_missed;
	uint64_t data_missed;
};

/** Opens a file for writing; NULL if there is no path, NULL with a message if that fails. */
static FILE *open_file(const char *path)
{
	FILE *file = (path == NULL) ? NULL : fopen(path, "w");

	if (path != NULL && file == NULL) {
		perror(path);
	}
	return file;
}

/** A line for the executor, with the stack used, and for each layer. */
static void write_counts(const char *path, const struct counts *rows, uint64_t count,
			 uint64_t stack_used)
{
	FILE *file = open_file(path);

	if (file == NULL) {
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		fprintf(file,
			"%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			" %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			rows[i].calls, rows[i].instructions, rows[i].loads_ram, rows[i].loads_flash,
			rows[i].stores, (i == 0U) ? stack_used : 0U, rows[i].jumps_missed,
			rows[i].lines_missed, rows[i].data_missed);
	}
	fclose(file);
}

/** A line for each byte of the span that was stored to. */
static void write_trace(const char *path, const uint32_t *stored, uint64_t span)
{
	FILE *file = open_file(path);

	if (file == NULL) {
		return;
	}
	for (uint64_t i = 0; i < span; i++) {
		if (stored[i] > 0U) {
			fprintf(file, "%" PRIu64 " %" PRIu32 "\n", i, stored[i]);
		}
	}
	fclose(file);
}

/** A line for each block and row of the counts in which it ran. */
static void write_blocks(const char *path, const struct block *blocks, uint64_t count)
{
	FILE *file = open_file(path);

	if (file == NULL) {
		return;
	}
	for (const struct block *b = blocks; b != NULL; b = b->next) {
		for (uint64_t i = 0; i < count; i++) {
			if (b->runs[i].executed > 0U) {
				fprintf(file,
					"%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
					"\n",
					i, b->start, b->end, b->runs[i].executed, b->runs[i].taken);
			}
		}
	}
	fclose(file);
}

/** A line for each pool: loads and stores. */
static void write_pools(const char *path, const uint64_t *loads, const uint64_t *stores,
			size_t count)
{
	FILE *file = open_file(path);

	if (file == NULL) {
		return;
	}
	for (size_t i = 0; i < count; i++) {
		fprintf(file, "%" PRIu64 " %" PRIu64 "\n", loads[i], stores[i]);
	}
	fclose(file);
}
