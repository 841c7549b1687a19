/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * The place in an open file is in its pointer, so that nothing is allocated. Zephyr's ext2 on a RAM
 * disk will not do in its place: it damages what is written across one of its blocks, as MCUmgr
 * does.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <zephyr/fs/fs.h>
#include <zephyr/fs/fs_sys.h>
#include <zephyr/sys/util.h>

#include "one_file.h"

static uint8_t bytes[ONE_FILE_BYTES];
static size_t size;
static bool there;

static size_t place(const struct fs_file_t *file)
{
	return (size_t)(uintptr_t)file->filep;
}

static void go(struct fs_file_t *file, size_t to)
{
	file->filep = (void *)(uintptr_t)to;
}

static int one_open(struct fs_file_t *file, const char *path, fs_mode_t flags)
{
	if (strcmp(path, ONE_FILE_PATH) != 0) {
		return ((flags & FS_O_CREATE) != 0) ? -ENOSPC : -ENOENT;
	}
	if (!there && (flags & FS_O_CREATE) == 0) {
		return -ENOENT;
	}
	there = true;
	go(file, 0U);
	return 0;
}

static ssize_t one_read(struct fs_file_t *file, void *to, size_t count)
{
	const size_t at = MIN(place(file), size);
	const size_t part = MIN(count, size - at);

	memcpy(to, &bytes[at], part);
	go(file, at + part);
	return (ssize_t)part;
}

static ssize_t one_write(struct fs_file_t *file, const void *from, size_t count)
{
	const size_t at = ((file->flags & FS_O_APPEND) != 0) ? size : place(file);

	if (at > size || count > sizeof(bytes) - at) {
		return -ENOSPC;
	}
	memcpy(&bytes[at], from, count);
	size = MAX(size, at + count);
	go(file, at + count);
	return (ssize_t)count;
}

static int one_seek(struct fs_file_t *file, off_t offset, int whence)
{
	const size_t from = (whence == FS_SEEK_CUR)   ? place(file)
			    : (whence == FS_SEEK_END) ? size
						      : 0U;
	const int64_t to = (int64_t)from + offset;

	if (to < 0 || to > (int64_t)size) {
		return -EINVAL;
	}
	go(file, (size_t)to);
	return 0;
}

static off_t one_tell(struct fs_file_t *file)
{
	return (off_t)place(file);
}

static int one_truncate(struct fs_file_t *file, off_t length)
{
	ARG_UNUSED(file);
	if (length < 0 || (size_t)length > size) {
		return -EINVAL;
	}
	size = (size_t)length;
	return 0;
}

static int one_close(struct fs_file_t *file)
{
	ARG_UNUSED(file);
	return 0;
}

static int one_unlink(struct fs_mount_t *mount, const char *path)
{
	ARG_UNUSED(mount);
	if (!there || strcmp(path, ONE_FILE_PATH) != 0) {
		return -ENOENT;
	}
	there = false;
	size = 0U;
	return 0;
}

static int one_stat(struct fs_mount_t *mount, const char *path, struct fs_dirent *entry)
{
	ARG_UNUSED(mount);
	if (!there || strcmp(path, ONE_FILE_PATH) != 0) {
		return -ENOENT;
	}
	entry->type = FS_DIR_ENTRY_FILE;
	entry->size = size;
	entry->name[0] = '\0';
	return 0;
}

static int one_mount(struct fs_mount_t *mount)
{
	ARG_UNUSED(mount);
	return 0;
}

static const struct fs_file_system_t operations = {
	.open = one_open,
	.read = one_read,
	.write = one_write,
	.lseek = one_seek,
	.tell = one_tell,
	.truncate = one_truncate,
	.close = one_close,
	.unlink = one_unlink,
	.stat = one_stat,
	.mount = one_mount,
};

int one_file_mount(void)
{
	static struct fs_mount_t mount = {
		.type = FS_TYPE_EXTERNAL_BASE,
		.mnt_point = ONE_FILE_MOUNT,
	};
	int err = fs_register(FS_TYPE_EXTERNAL_BASE, &operations);

	return (err == 0) ? fs_mount(&mount) : err;
}
