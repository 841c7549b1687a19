/*
 * SPDX-License-Identifier: Apache-2.0
 */

#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "io.h"

int io_open(const char *name, bool write)
{
	return write ? open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666) : open(name, O_RDONLY);
}

size_t io_read(int file, void *data, size_t size)
{
	char *to = data;
	size_t done = 0;

	while (done < size) {
		const ssize_t n = read(file, to + done, size - done);

		if (n <= 0) {
			break;
		}
		done += (size_t)n;
	}
	return done;
}

size_t io_write(int file, const void *data, size_t size)
{
	const char *from = data;
	size_t done = 0;

	while (done < size) {
		const ssize_t n = write(file, from + done, size - done);

		if (n <= 0) {
			break;
		}
		done += (size_t)n;
	}
	return done;
}

void io_close(int file)
{
	(void)close(file);
}

void io_print(const char *text)
{
	(void)fputs(text, stderr);
}
