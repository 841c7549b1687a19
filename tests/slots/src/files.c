/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Updates and containers from a file system. */

#include <errno.h>

#include <zephyr/fs/fs.h>
#include <zephyr/ztest.h>

#include "device.h"
#include "ram_disk.h"

#define PATH   RAM_DISK_MOUNT "/hello.update"
#define FOLDER RAM_DISK_MOUNT "/folder"
#define NONE   RAM_DISK_MOUNT "/none"

static void *set_up(void)
{
	zassert_ok(ram_disk_mount());
	zassert_ok(fs_mkdir(FOLDER));
	return NULL;
}

ZTEST(vmcu_slots_files, test_update)
{
	device_new();
	device_take(&tiny);
	zassert_equal(vmcu_slots_update_file(&slots, NONE), -ENOENT);
	zassert_equal(vmcu_slots_update_file(&slots, FOLDER), -EISDIR);
	device_runs(&tiny);
	zassert_ok(ram_disk_write(PATH, hello.data, hello.size));
	zassert_ok(vmcu_slots_update_file(&slots, PATH));
	device_runs(&hello);
	zassert_ok(device_reset());
	device_runs(&hello);
	copy_of(&tiny)[tiny.size / 2U] ^= 1U;
	zassert_ok(ram_disk_write(PATH, scratch, tiny.size));
	zassert_equal(vmcu_slots_update_file(&slots, PATH), -EBADMSG);
	device_runs(&hello);
}

ZTEST(vmcu_slots_files, test_container_into_memory)
{
	static uint8_t arena[6144] __aligned(VMCU_POOL_ALIGN);
	struct vmcu_model model;

	zassert_ok(ram_disk_write(PATH, hello.data, hello.size));
	zassert_equal(vmcu_container_read_file(NONE, scratch, sizeof(scratch)), -ENOENT);
	zassert_equal(vmcu_container_read_file(PATH, scratch, hello.size - 1U), -EFBIG);
	zassert_equal(vmcu_container_read_file(PATH, scratch, sizeof(scratch)), (int)hello.size);
	zassert_ok(vmcu_model_load(&model, scratch, hello.size, arena, sizeof(arena)));
	zassert_str_equal(model.name, hello.name);
}

ZTEST_SUITE(vmcu_slots_files, NULL, set_up, NULL, NULL, NULL);
