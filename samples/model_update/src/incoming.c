/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Updates that a transport, such as MCUmgr's file group, leaves in the file system. */

#include <errno.h>

#include <zephyr/fs/fs.h>
#include <zephyr/kernel.h>

#include "files.h"
#include "one_file.h"

#define PATH      ONE_FILE_PATH
#define LOOK      K_SECONDS(1)
/* A file that has not grown for so many looks is complete, or will be refused. */
#define UNCHANGED 3

int wait_for_updates(struct vmcu_slots *slots, void (*report)(const char *what, int err))
{
	struct fs_dirent entry;
	size_t size = 0;
	int same = 0;
	int err = 0;

#if defined(CONFIG_SAMPLE_ONE_FILE)
	err = one_file_mount();
#endif
	while (err == 0) {
		k_sleep(LOOK);
		if (fs_stat(PATH, &entry) != 0) {
			size = 0;
			same = 0;
			continue;
		}
		same = (entry.size == size) ? same + 1 : 0;
		size = entry.size;
		if (same == UNCHANGED) {
			report(PATH, vmcu_slots_update_file(slots, PATH));
			/* Taken or refused, it has done its part, and the next may have its size.
			 */
			err = fs_unlink(PATH);
		}
	}
	return err;
}
