/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Updates and containers from a file system. */

#include <errno.h>

#include <zephyr/fs/fs.h>
#include <zephyr/ztest.h>

#include "device.h"

#define MOUNT  "/models"
#define PATH   MOUNT "/hello.update"
#define FOLDER MOUNT "/folder"
/* Zephyr's ext2 writes no more than one of its blocks at once. */
#define PART   512U

static struct fs_mount_t mount = {
	.type = FS_EXT2,
	.mnt_point = MOUNT,
	.storage_dev = (void *)"RAM",
};

static void *set_up(void)
{
	zassert_ok(fs_mkfs(FS_EXT2, (uintptr_t)mount.storage_dev, NULL, 0));
	zassert_ok(fs_mount(&mount));
	zassert_ok(fs_mkdir(FOLDER));
	return NULL;
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
	struct fs_file_t file;

	fs_file_t_init(&file);
	zassert_ok(fs_open(&file, path, FS_O_CREATE | FS_O_WRITE | FS_O_TRUNC));
	for (size_t at = 0; at < size; at += PART) {
		const size_t part = MIN(PART, size - at);

		zassert_equal(fs_write(&file, &data[at], part), (ssize_t)part);
	}
	zassert_ok(fs_close(&file));
}

ZTEST(vmcu_slots_files, test_update)
{
	device_new();
	device_take(&tiny);
	zassert_equal(vmcu_slots_update_file(&slots, MOUNT "/none"), -ENOENT);
	zassert_equal(vmcu_slots_update_file(&slots, FOLDER), -EISDIR);
	device_runs(&tiny);
	write_file(PATH, hello.data, hello.size);
	zassert_ok(vmcu_slots_update_file(&slots, PATH));
	device_runs(&hello);
	zassert_ok(device_reset());
	device_runs(&hello);
	copy_of(&tiny)[tiny.size / 2U] ^= 1U;
	write_file(PATH, scratch, tiny.size);
	zassert_equal(vmcu_slots_update_file(&slots, PATH), -EBADMSG);
	device_runs(&hello);
}

ZTEST(vmcu_slots_files, test_container_into_memory)
{
	static uint8_t arena[6144] __aligned(VMCU_POOL_ALIGN);
	struct vmcu_model model;

	write_file(PATH, hello.data, hello.size);
	zassert_equal(vmcu_container_read_file(MOUNT "/none", scratch, sizeof(scratch)), -ENOENT);
	zassert_equal(vmcu_container_read_file(PATH, scratch, hello.size - 1U), -EFBIG);
	zassert_equal(vmcu_container_read_file(PATH, scratch, sizeof(scratch)), (int)hello.size);
	zassert_ok(vmcu_model_load(&model, scratch, hello.size, arena, sizeof(arena)));
	zassert_str_equal(model.name, hello.name);
}

ZTEST_SUITE(vmcu_slots_files, NULL, set_up, NULL, NULL, NULL);
