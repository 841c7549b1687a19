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

#if defined(CONFIG_MCUMGR_GRP_FS)
/**
 * Looks for updates in the file system, takes them, tells @a report and removes them. Returns only
 * where that fails: a negative errno.
 */
int wait_for_updates(struct vmcu_slots *slots, void (*report)(const char *what, int err));
#endif

#endif /* SAMPLE_FILES_H_ */
