/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Weights that Zephyr's file system reads. */

#include <errno.h>
/* Zephyr 3.7's ext2.h lacks it. */
#include <stdbool.h>

#include <zephyr/fs/ext2.h>
#include <zephyr/fs/fs.h>
#include <zephyr/ztest.h>

#include "digits_weights.h"
#include "ram_disk.h"

#define PATH RAM_DISK_MOUNT "/weights"

static struct fs_mount_t mount = {
	.type = FS_EXT2, .mnt_point = RAM_DISK_MOUNT, .storage_dev = (void *)"RAM"};
static struct ext2_cfg blocks = {.block_size = 4096, .fs_size = 0, .bytes_per_inode = 4096};
static struct fs_file_t file;
static struct vmcu_weights_thread by_file;
static const struct vmcu_reader *file_reader;
K_THREAD_STACK_DEFINE(file_stack, THE_STACK);

static void put_into_file(const struct weights *weights, size_t size)
{
	zassert_ok(ram_disk_write(PATH, weights->data, size));
	fs_file_t_init(&file);
	zassert_ok(fs_open(&file, PATH, FS_O_READ));
}

static void *set_up(void)
{
	/* Zephyr 3.7's ext2 reads wrong bytes of more than two blocks at once. */
	zassert_ok(fs_mkfs(FS_EXT2, (uintptr_t)mount.storage_dev, &blocks, 0));
	zassert_ok(fs_mount(&mount));
	file_reader = vmcu_weights_start(&by_file, vmcu_weights_read_file, &file, file_stack,
					 K_THREAD_STACK_SIZEOF(file_stack), PRIORITY);
	return NULL;
}

ZTEST(vmcu_weights_files, test_file)
{
	put_into_file(&right_weights, right_weights.size);
	is_right(file_reader);
	zassert_ok(fs_close(&file));
	put_into_file(&other_weights, other_weights.size);
	zassert_equal(infer_first(file_reader), -EBADMSG);
	zassert_ok(fs_close(&file));
	/* What is left of an update that was interrupted. */
	put_into_file(&right_weights, right_weights.size - 1U);
	zassert_equal(infer_first(file_reader), -EIO);
	zassert_ok(fs_close(&file));
	zassert_true(infer_first(file_reader) < 0);
	put_into_file(&right_weights, right_weights.size);
	is_right(file_reader);
	zassert_ok(fs_close(&file));
}

ZTEST_SUITE(vmcu_weights_files, NULL, set_up, NULL, NULL, NULL);
