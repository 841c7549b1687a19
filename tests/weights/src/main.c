/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Weights that Zephyr's flash API and file system read. */

#include <errno.h>
#include <string.h>

#include <zephyr/drivers/flash.h>
#include <zephyr/fs/ext2.h>
#include <zephyr/fs/fs.h>
#include <zephyr/ztest.h>

#include <vmcu/partitions.h>
#include <vmcu/weights.h>

#include "digits.h"
#include "other.h"
#include "ram_disk.h"
#include "read.h"
#include "test_images.h"

#define PATH      RAM_DISK_MOUNT "/weights"
#define START     PARTITION_OFFSET(storage_partition)
#define SIZE      PARTITION_SIZE(storage_partition)
#define DEVICE    PARTITION_DEVICE(storage_partition)
#define IMAGES    4
#define OUTPUTS   VMCU_MODEL_DIGITS_OUTPUT0_BYTES
#define PRIORITY  -1
#define THE_STACK 2048

static const uint8_t weights[] = {
#include "read.inc"
};
static const uint8_t weights_of_other[] = {
#include "other.inc"
};

static uint8_t pool[MAX(VMCU_MODEL_POOL_BYTES(digits), VMCU_MODEL_POOL_BYTES(read))]
	__aligned(VMCU_POOL_ALIGN);
static int8_t expected[IMAGES][OUTPUTS];
static struct vmcu_weights_flash flash = {.device = DEVICE, .start = START};
static struct fs_mount_t mount = {
	.type = FS_EXT2, .mnt_point = RAM_DISK_MOUNT, .storage_dev = (void *)"RAM"};
static struct ext2_cfg blocks = {.block_size = 4096, .fs_size = 0, .bytes_per_inode = 4096};
static struct fs_file_t file;
static struct vmcu_weights_thread by_flash, by_file;
static const struct vmcu_reader *flash_reader, *file_reader;
K_THREAD_STACK_DEFINE(flash_stack, THE_STACK);
K_THREAD_STACK_DEFINE(file_stack, THE_STACK);

/** Of one image; `reader` is NULL for weights in the program's flash. */
static int infer(const struct vmcu_model *model, const struct vmcu_reader *reader, int image,
		 int8_t *output)
{
	struct vmcu_context ctx;
	int err;

	zassert_ok(vmcu_init(&ctx, model, pool, sizeof(pool)));
	if (reader != NULL) {
		zassert_ok(vmcu_set_reader(&ctx, reader));
	}
	memcpy(vmcu_input(&ctx, 0), test_images[image], sizeof(test_images[image]));
	err = vmcu_invoke(&ctx);
	memcpy(output, vmcu_output(&ctx, 0), OUTPUTS);
	return err;
}

static void is_right(const struct vmcu_reader *reader)
{
	int8_t output[OUTPUTS];

	for (int image = 0; image < IMAGES; image++) {
		const int err = infer(&read_model, reader, image, output);

		zassert_ok(err, "%d", err);
		zassert_mem_equal(output, expected[image], OUTPUTS);
	}
}

static void put_into_flash(const uint8_t *data, size_t size)
{
	zassert_true(size <= SIZE);
	zassert_ok(flash_erase(DEVICE, START, SIZE));
	zassert_ok(flash_write(DEVICE, START, data, size));
}

static void put_into_file(const uint8_t *data, size_t size)
{
	zassert_ok(ram_disk_write(PATH, data, size));
	fs_file_t_init(&file);
	zassert_ok(fs_open(&file, PATH, FS_O_READ));
}

static void *set_up(void)
{
	for (int image = 0; image < IMAGES; image++) {
		zassert_ok(infer(&digits_model, NULL, image, expected[image]));
	}
	/* Zephyr 3.7's ext2 reads wrong bytes of more than two blocks at once. */
	zassert_ok(fs_mkfs(FS_EXT2, (uintptr_t)mount.storage_dev, &blocks, 0));
	zassert_ok(fs_mount(&mount));
	flash_reader = vmcu_weights_start(&by_flash, vmcu_weights_read_flash, &flash, flash_stack,
					  K_THREAD_STACK_SIZEOF(flash_stack), PRIORITY);
	file_reader = vmcu_weights_start(&by_file, vmcu_weights_read_file, &file, file_stack,
					 K_THREAD_STACK_SIZEOF(file_stack), PRIORITY);
	return NULL;
}

ZTEST(vmcu_weights, test_flash)
{
	int8_t output[OUTPUTS];

	put_into_flash(weights, sizeof(weights));
	is_right(flash_reader);
	put_into_flash(weights_of_other, sizeof(weights_of_other));
	zassert_equal(infer(&read_model, flash_reader, 0, output), -EBADMSG);
	put_into_flash(weights, sizeof(weights) - 1U);
	zassert_equal(infer(&read_model, flash_reader, 0, output), -EBADMSG);
	flash.start = UINT32_MAX - 7U;
	zassert_equal(infer(&read_model, flash_reader, 0, output), -EINVAL);
	flash.start = START;
	put_into_flash(weights, sizeof(weights));
	is_right(flash_reader);
}

ZTEST(vmcu_weights, test_file)
{
	int8_t output[OUTPUTS];

	put_into_file(weights, sizeof(weights));
	is_right(file_reader);
	zassert_ok(fs_close(&file));
	put_into_file(weights_of_other, sizeof(weights_of_other));
	zassert_equal(infer(&read_model, file_reader, 0, output), -EBADMSG);
	zassert_ok(fs_close(&file));
	/* What is left of an update that was interrupted. */
	put_into_file(weights, sizeof(weights) - 1U);
	zassert_equal(infer(&read_model, file_reader, 0, output), -EIO);
	zassert_ok(fs_close(&file));
	zassert_true(infer(&read_model, file_reader, 0, output) < 0);
	put_into_file(weights, sizeof(weights));
	is_right(file_reader);
	zassert_ok(fs_close(&file));
}

ZTEST(vmcu_weights, test_readers)
{
	struct vmcu_context ctx;

	zassert_ok(vmcu_init(&ctx, &digits_model, pool, sizeof(pool)));
	zassert_equal(vmcu_set_reader(&ctx, flash_reader), -ENOTSUP);
	zassert_ok(vmcu_init(&ctx, &read_model, pool, sizeof(pool)));
	zassert_equal(vmcu_invoke(&ctx), -EINVAL);
}

ZTEST_SUITE(vmcu_weights, NULL, set_up, NULL, NULL, NULL);
