/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief The way of an update: through a file where there is a file system. */

#ifndef SAMPLE_FILES_H_
#define SAMPLE_FILES_H_

#include <vmcu/slots.h>

#if defined(CONFIG_FILE_SYSTEM_EXT2)
/** Puts an update into a file, as a transport does, and updates from that. */
int update_from_file(struct vmcu_slots *slots, const void *data, size_t size);
#else
static inline int update_from_file(struct vmcu_slots *slots, const void *data, size_t size)
{
	return vmcu_slots_update(slots, data, size);
}
#endif

#endif /* SAMPLE_FILES_H_ */
