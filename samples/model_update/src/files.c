/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stdio.h>

#include "files.h"
#include "ram_disk.h"

#define PATH RAM_DISK_MOUNT "/digits_2.update"

int update_from_file(struct vmcu_slots *slots, const void *data, size_t size)
{
	int err = ram_disk_mount();

	if (err == 0) {
		err = ram_disk_write(PATH, data, size);
	}
	if (err != 0) {
		return err;
	}
	printf("%s has arrived\n", PATH);
	return vmcu_slots_update_file(slots, PATH);
}
