/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stdint.h>

#include <zephyr/fs/fs.h>
#include <zephyr/sys/util.h>

#include "ram_disk.h"

/* Zephyr's ext2 writes no more than one of its blocks at once. */
#define PART 512U

static struct fs_mount_t mount = {
	.type = FS_EXT2,
	.mnt_point = RAM_DISK_MOUNT,
	.storage_dev = (void *)"RAM",
};

int ram_disk_mount(void)
{
	const int err = fs_mkfs(FS_EXT2, (uintptr_t)mount.storage_dev, NULL, 0);

	return (err == 0) ? fs_mount(&mount) : err;
}

int ram_disk_write(const char *path, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	struct fs_file_t file;
	int err;

	fs_file_t_init(&file);
	err = fs_open(&file, path, FS_O_CREATE | FS_O_WRITE | FS_O_TRUNC);
	if (err != 0) {
		return err;
	}
	for (size_t at = 0; err == 0 && at < size; at += PART) {
		const size_t part = MIN(PART, size - at);

		err = (fs_write(&file, &bytes[at], part) == (ssize_t)part) ? 0 : -EIO;
	}
	if (err != 0) {
		(void)fs_close(&file);
		return err;
	}
	return fs_close(&file);
}
