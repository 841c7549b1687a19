/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <zephyr/fs/fs.h>
#include <zephyr/sys/util.h>

#include <vmcu/slots.h>

/** Bytes of a read, from offsets that are multiples of it: within a block of any file system. */
#define PART 128U

static int size_of(const char *path, size_t *size)
{
	struct fs_dirent entry;
	int err = fs_stat(path, &entry);

	if (err == 0 && entry.type != FS_DIR_ENTRY_FILE) {
		err = -EISDIR;
	}
	*size = (err == 0) ? entry.size : 0U;
	return err;
}

static int copy_file(struct vmcu_slots *slots, struct fs_file_t *file)
{
	uint8_t part[PART];
	ssize_t got;

	do {
		int err;

		got = fs_read(file, part, sizeof(part));
		if (got < 0) {
			return (int)got;
		}
		err = vmcu_slots_write(slots, part, (size_t)got);
		if (err != 0) {
			return err;
		}
	} while (got > 0);
	return 0;
}

int vmcu_slots_update_file(struct vmcu_slots *slots, const char *path)
{
	struct fs_file_t file;
	size_t size;
	int err = size_of(path, &size);

	fs_file_t_init(&file);
	if (err == 0) {
		err = fs_open(&file, path, FS_O_READ);
	}
	if (err != 0) {
		return err;
	}
	err = vmcu_slots_begin(slots, size);
	if (err == 0) {
		err = copy_file(slots, &file);
	}
	(void)fs_close(&file);
	return (err == 0) ? vmcu_slots_commit(slots) : err;
}

/** Reads up to @a size bytes; returns how many there were. */
static ssize_t read_all(struct fs_file_t *file, uint8_t *buffer, size_t size)
{
	size_t at = 0;
	ssize_t got;

	do {
		got = fs_read(file, &buffer[at], MIN(PART, size - at));
		if (got < 0) {
			return got;
		}
		at += (size_t)got;
	} while (got > 0 && at < size);
	return (ssize_t)at;
}

int vmcu_container_read_file(const char *path, void *buffer, size_t size)
{
	struct fs_file_t file;
	size_t needed;
	ssize_t got;
	int err = size_of(path, &needed);

	if (err == 0 && needed > size) {
		err = -EFBIG;
	}
	fs_file_t_init(&file);
	if (err == 0) {
		err = fs_open(&file, path, FS_O_READ);
	}
	if (err != 0) {
		return err;
	}
	got = read_all(&file, buffer, needed);
	(void)fs_close(&file);
	return (int)got;
}
