/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <stdio.h>

#include <zephyr/fs/fs.h>
#include <zephyr/sys/util.h>

#include "files.h"

#define MOUNT "/models"
#define PATH  MOUNT "/digits_2.update"
/* Zephyr's ext2 writes no more than one of its blocks at once. */
#define PART  512U

static struct fs_mount_t mount = {
	.type = FS_EXT2,
	.mnt_point = MOUNT,
	.storage_dev = (void *)"RAM",
};

static int write_file(const uint8_t *data, size_t size)
{
	struct fs_file_t file;
	int err;

	fs_file_t_init(&file);
	err = fs_open(&file, PATH, FS_O_CREATE | FS_O_WRITE | FS_O_TRUNC);
	if (err != 0) {
		return err;
	}
	for (size_t at = 0; err == 0 && at < size; at += PART) {
		const size_t part = MIN(PART, size - at);

		err = (fs_write(&file, &data[at], part) == (ssize_t)part) ? 0 : -EIO;
	}
	if (err != 0) {
		(void)fs_close(&file);
		return err;
	}
	return fs_close(&file);
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
