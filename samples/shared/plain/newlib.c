/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What newlib's printf() needs of a system: one console, and memory for its buffer. */

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "semihosting.h"

#define CONSOLE    ":tt"
#define HEAP_BYTES 4096

int _write(int file, const char *data, int size);
int _read(int file, char *data, int size);
int _close(int file);
int _lseek(int file, int offset, int whence);
int _fstat(int file, struct stat *status);
int _isatty(int file);
void *_sbrk(ptrdiff_t size);

int _write(int file, const char *data, int size)
{
	static int console = -1;

	(void)file;
	if (console < 0) {
		console = vmcu_semihosting_open(CONSOLE, true);
	}
	return (int)vmcu_semihosting_write(console, data, (size_t)size);
}

int _read(int file, char *data, int size)
{
	(void)file;
	(void)data;
	(void)size;
	return 0;
}

int _close(int file)
{
	(void)file;
	return 0;
}

int _lseek(int file, int offset, int whence)
{
	(void)file;
	(void)offset;
	(void)whence;
	return 0;
}

int _fstat(int file, struct stat *status)
{
	(void)file;
	status->st_mode = S_IFCHR;
	return 0;
}

int _isatty(int file)
{
	(void)file;
	return 1;
}

void *_sbrk(ptrdiff_t size)
{
	static char heap[HEAP_BYTES] __attribute__((aligned(8)));
	static ptrdiff_t used;
	char *start = &heap[used];

	if (size > HEAP_BYTES - used) {
		errno = ENOMEM;
		return (void *)-1;
	}
	used += size;
	return start;
}
