/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Updates that a transport, such as MCUmgr's file group, leaves in the file system. */

#include <errno.h>

#include <zephyr/fs/fs.h>
#include <zephyr/kernel.h>

#include "files.h"
#include "ram_disk.h"

#define PATH      RAM_DISK_MOUNT "/incoming.update"
#define LOOK      K_SECONDS(1)
/* A file that has not grown for so many looks is complete, or will be refused. */
#define UNCHANGED 3

void wait_for_updates(struct vmcu_slots *slots, void (*report)(const char *what, int err))
{
	struct fs_dirent entry;
	size_t size = 0;
	int same = 0;

	for (;;) {
		k_sleep(LOOK);
		if (fs_stat(PATH, &entry) != 0) {
			size = 0;
			continue;
		}
		same = (entry.size == size) ? same + 1 : 0;
		size = entry.size;
		if (same == UNCHANGED) {
			int err = vmcu_slots_update_file(slots, PATH);

			report(PATH, err);
			if (err == 0) {
				(void)fs_unlink(PATH);
			}
		}
	}
}
