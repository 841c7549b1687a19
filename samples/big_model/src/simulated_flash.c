/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <zephyr/kernel.h>

#include "simulated_flash.h"

#if defined(CONFIG_ARCH_POSIX)
#include <nsi_host_trampolines.h>

static int host_open(const char *path)
{
	return nsi_host_open(path, 0);
}

static void host_close(int file)
{
	(void)nsi_host_close(file);
}

/** Returns bytes read or a negative number. */
static long host_read(int file, void *to, size_t bytes)
{
	return nsi_host_read(file, to, bytes);
}
#else
#include <zephyr/arch/common/semihost.h>

static int host_open(const char *path)
{
	return (int)semihost_open(path, SEMIHOST_OPEN_RB);
}

static void host_close(int file)
{
	(void)semihost_close(file);
}

/** Returns bytes read or a negative number. */
static long host_read(int file, void *to, size_t bytes)
{
	return semihost_read(file, to, (long)bytes);
}
#endif

/** The open file, which is read from its start to its end for each inference. */
static int file = -1;

int simulated_flash_read(void *source, uint32_t offset, void *to, size_t bytes)
{
	struct simulated_flash *flash = source;
	const uint32_t us =
		flash->latency_us + (uint32_t)((uint64_t)bytes * 1000U / flash->bytes_per_ms);

	if (offset == 0U) {
		if (file >= 0) {
			host_close(file);
		}
		file = host_open(flash->path);
	}
	if (file < 0) {
		return -ENOENT;
	}
	flash->busy_us += us;
	k_sleep(K_USEC(us));
	if (flash->fault == FAULT_ERROR && offset == flash->fault_at) {
		return -EIO;
	}
	if (flash->fault == FAULT_SHORT && offset == flash->fault_at) {
		bytes--;
	}
	return (int)host_read(file, to, bytes);
}
