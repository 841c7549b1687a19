/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Functions that a compiler calls on its own account, for images that link no C library.
 *
 * Built with -ffreestanding: a hosted compiler would turn these loops into calls of themselves.
 */

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);

void *memcpy(void *to, const void *from, size_t size)
{
	unsigned char *dst = to;
	const unsigned char *src = from;

	while (size-- > 0U) {
		*dst++ = *src++;
	}
	return to;
}

void *memmove(void *to, const void *from, size_t size)
{
	unsigned char *dst = to;
	const unsigned char *src = from;

	if (dst <= src) {
		return memcpy(to, from, size);
	}
	while (size-- > 0U) {
		dst[size] = src[size];
	}
	return to;
}

void *memset(void *to, int value, size_t size)
{
	unsigned char *dst = to;

	while (size-- > 0U) {
		*dst++ = (unsigned char)value;
	}
	return to;
}
