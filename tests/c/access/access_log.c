/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Logs every access to the pool by code that was compiled with -fsanitize=thread.
 *
 * The compiler turns each load and store into a call of the functions below, which stand in for
 * the sanitizer's runtime; calls of the C library it leaves alone. Link with --wrap for memcpy,
 * memmove, memset, and vmcu_invoke, during which accesses are logged.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <vmcu/vmcu.h>

#define LOG_FILE "accesses.bin"

struct record {
	uint32_t offset;
	uint16_t size;
	uint16_t is_write;
};

static uintptr_t pool_start;
static size_t pool_size;
static FILE *log_file;

int __real_vmcu_invoke(struct vmcu_context *ctx);
int __wrap_vmcu_invoke(struct vmcu_context *ctx);

int __wrap_vmcu_invoke(struct vmcu_context *ctx)
{
	int err;

	pool_start = (uintptr_t)ctx->pool.start;
	pool_size = ctx->pool.size;
	log_file = fopen(LOG_FILE, "wb");
	if (log_file == NULL) {
		exit(1);
	}
	err = __real_vmcu_invoke(ctx);
	(void)fclose(log_file);
	log_file = NULL;
	return err;
}

static void record(const void *address, size_t size, bool is_write)
{
	const uintptr_t offset = (uintptr_t)address - pool_start;

	if (log_file != NULL && size > 0U && offset < pool_size) {
		const struct record r = {(uint32_t)offset, (uint16_t)size, is_write};

		(void)fwrite(&r, sizeof(r), 1, log_file);
	}
}

#define ACCESS(name, size, is_write)                                                               \
	void __tsan_##name##size(void *address);                                                   \
	void __tsan_##name##size(void *address)                                                    \
	{                                                                                          \
		record(address, size, is_write);                                                   \
	}
#define ACCESSES(name, is_write)                                                                   \
	ACCESS(name, 1, is_write)                                                                  \
	ACCESS(name, 2, is_write)                                                                  \
	ACCESS(name, 4, is_write)                                                                  \
	ACCESS(name, 8, is_write)                                                                  \
	ACCESS(name, 16, is_write)
#define RANGE(name, is_write)                                                                      \
	void __tsan_##name##_range(void *address, size_t size);                                    \
	void __tsan_##name##_range(void *address, size_t size)                                     \
	{                                                                                          \
		record(address, size, is_write);                                                   \
	}
#define NOTHING(name)                                                                              \
	void __tsan_##name(void);                                                                  \
	void __tsan_##name(void)                                                                   \
	{                                                                                          \
	}

#define COPY(name)                                                                                 \
	void *__real_##name(void *to, const void *from, size_t size);                              \
	void *__wrap_##name(void *to, const void *from, size_t size);                              \
	void *__wrap_##name(void *to, const void *from, size_t size)                               \
	{                                                                                          \
		record(from, size, false);                                                         \
		record(to, size, true);                                                            \
		return __real_##name(to, from, size);                                              \
	}

COPY(memcpy)
COPY(memmove)

void *__real_memset(void *to, int value, size_t size);
void *__wrap_memset(void *to, int value, size_t size);

void *__wrap_memset(void *to, int value, size_t size)
{
	record(to, size, true);
	return __real_memset(to, value, size);
}

ACCESSES(read, false)
ACCESSES(write, true)
ACCESSES(unaligned_read, false)
ACCESSES(unaligned_write, true)
RANGE(read, false)
RANGE(write, true)
NOTHING(init)
NOTHING(func_entry)
NOTHING(func_exit)
