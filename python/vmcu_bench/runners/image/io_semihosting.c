/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "io.h"
#include "semihosting.h"

int io_open(const char *name, bool write)
{
	return vmcu_semihosting_open(name, write);
}

size_t io_read(int file, void *data, size_t size)
{
	return vmcu_semihosting_read(file, data, size);
}

size_t io_write(int file, const void *data, size_t size)
{
	return vmcu_semihosting_write(file, data, size);
}

void io_close(int file)
{
	vmcu_semihosting_close(file);
}

void io_print(const char *text)
{
	vmcu_semihosting_print(text);
}
