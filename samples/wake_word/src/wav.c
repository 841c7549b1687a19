/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <nsi_host_trampolines.h>
#include <zephyr/sys/byteorder.h>
#include <zephyr/sys/printk.h>
#include <zephyr/sys/util.h>

#include "wav.h"

#define PCM        1U
#define FORMAT     16U
#define HEADER     8U
#define OPEN_READS 0

static int file = -1;
/* Bytes of samples that have not been read. */
static uint32_t left;

/* Whether so many bytes came. */
static bool take(void *to, size_t size)
{
	uint8_t *bytes = to;
	size_t have = 0;

	while (have < size) {
		const long got = nsi_host_read(file, &bytes[have], size - have);

		if (got <= 0) {
			return false;
		}
		have += (size_t)got;
	}
	return true;
}

static bool skip(uint32_t size)
{
	uint8_t rest[64];

	while (size > 0U) {
		const uint32_t part = MIN(size, sizeof(rest));

		if (!take(rest, part)) {
			return false;
		}
		size -= part;
	}
	return true;
}

/* What is wrong with the format, NULL if nothing is. */
static const char *judge(const uint8_t *format, uint32_t rate)
{
	if (sys_get_le16(&format[0]) != PCM || sys_get_le16(&format[14]) != 16U) {
		return "samples are not of 16 bit PCM";
	}
	if (sys_get_le16(&format[2]) != 1U) {
		return "has more than one channel";
	}
	return (sys_get_le32(&format[4]) != rate) ? "has another sample rate than the front end"
						  : NULL;
}

/* Goes to the samples: NULL, or why there are none. */
static const char *find_samples(uint32_t rate)
{
	uint8_t header[HEADER], format[FORMAT], kind[4];
	const char *wrong = "does not say what its samples are";

	if (!take(header, HEADER) || memcmp(header, "RIFF", 4) != 0 || !take(kind, sizeof(kind)) ||
	    memcmp(kind, "WAVE", 4) != 0) {
		return "is no WAV file";
	}
	while (take(header, HEADER)) {
		uint32_t size = sys_get_le32(&header[4]);

		if (memcmp(header, "data", 4) == 0) {
			left = size;
			return wrong;
		}
		if (memcmp(header, "fmt ", 4) == 0 && size >= FORMAT) {
			if (!take(format, FORMAT)) {
				break;
			}
			wrong = judge(format, rate);
			size -= FORMAT;
		}
		/* Chunks are padded to even sizes. */
		if (!skip(size + size % 2U)) {
			break;
		}
	}
	return "ends before its samples";
}

int wav_open(const char *path, uint32_t rate)
{
	const char *wrong;

	file = nsi_host_open(path, OPEN_READS);
	if (file < 0) {
		printk("wav: %s: cannot be opened\n", path);
		return -ENOENT;
	}
	wrong = find_samples(rate);
	if (wrong != NULL) {
		printk("wav: %s: %s; 16 bit, one channel and %u Hz are wanted\n", path, wrong,
		       rate);
		(void)nsi_host_close(file);
		return -EINVAL;
	}
	return 0;
}

size_t wav_read(int16_t *samples, size_t count)
{
	const size_t size = MIN(count * sizeof(*samples), left);

	if (size < sizeof(*samples) || !take(samples, size)) {
		left = 0;
		return 0;
	}
	left -= size;
	return size / sizeof(*samples);
}
