/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Caches of which the least recently used granule is replaced.
 */

#include <stdbool.h>
#include <stdint.h>

#define MAX_CACHED 1024U

/** The granules that are there, and when each was used last. */
struct cache {
	uint64_t entries;
	uint64_t granule[MAX_CACHED];
	uint64_t used[MAX_CACHED];
};

static uint64_t now;

/** Looks a granule up, and has it there afterwards; true if it was there before. */
static bool look_up(struct cache *cache, uint64_t number)
{
	uint64_t oldest = 0;

	now++;
	for (uint64_t i = 0; i < cache->entries; i++) {
		if (cache->used[i] > 0U && cache->granule[i] == number) {
			cache->used[i] = now;
			return true;
		}
		oldest = (cache->used[i] < cache->used[oldest]) ? i : oldest;
	}
	if (cache->entries > 0U) {
		cache->granule[oldest] = number;
		cache->used[oldest] = now;
	}
	return false;
}
