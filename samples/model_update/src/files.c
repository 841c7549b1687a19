/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stdio.h>

#include <zephyr/fs/fs.h>

#include "files.h"

#define MOUNT "/models"
#define PATH  MOUNT "/digits_2.update"

static struct fs_mount_t mount = {
	.type = FS_EXT2,
	.mnt_point = MOUNT,
	.storage_dev = (void *)"RAM",
};

static int write_file(const void *data, size_t size)
{
	struct fs_file_t file;
	ssize_t written;
	int err;

	fs_file_t_init(&file);
	err = fs_open(&file, PATH, FS_O_CREATE | FS_O_WRITE | FS_O_TRUNC);
	if (err != 0) {
		return err;
	}
	written = fs_write(&file, data, size);
	err = fs_close(&file);
	/* Zephyr's ext2 counts the rest of the last block, too. */
	return (written < (ssize_t)size) ? -EIO : err;
}

int update_from_file(struct vmcu_slots *slots, const void *data, size_t size)
{
	int err = fs_mkfs(FS_EXT2, (uintptr_t)mount.storage_dev, NULL, 0);

	if (err == 0) {
		err = fs_mount(&mount);
	}
	if (err == 0) {
		err = write_file(data, size);
	}
	if (err != 0) {
		return err;
	}
	printf("%s has arrived\n", PATH);
	return vmcu_slots_update_file(slots, PATH);
}
