/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stdint.h>

#include "semihosting.h"

/* Operations and codes: "Semihosting for AArch32 and AArch64", Arm; RISC-V has the same. */
#define SYS_OPEN          0x01
#define SYS_CLOSE         0x02
#define SYS_WRITE0        0x04
#define SYS_WRITE         0x05
#define SYS_READ          0x06
#define SYS_EXIT_EXTENDED 0x20

#define OPEN_READ_BINARY  1U
#define OPEN_WRITE_BINARY 5U

#define STOPPED_APPLICATION_EXIT 0x20026U

#if defined(__thumb__)
#define SVC_NUMBER "0xab"
#else
#define SVC_NUMBER "0x123456"
#endif

/* RISC-V's trap is three instructions in a row, none of them compressed. */
#if defined(__riscv)
#define OPERATION "a0"
#define ARGUMENT  "a1"
#define TRAP                                                                                       \
	".option push\n\t.option norvc\n\t.p2align 4\n\t"                                          \
	"slli x0, x0, 0x1f\n\tebreak\n\tsrai x0, x0, 7\n\t.option pop"
#define CHANGES "memory"
#elif defined(__aarch64__)
#define OPERATION "w0"
#define ARGUMENT  "x1"
#define TRAP      "hlt #0xf000"
#define CHANGES   "memory"
#else
#define OPERATION "r0"
#define ARGUMENT  "r1"
/* Cortex-M's trap, and that of Cortex-A and R, which is an exception of the state they are in. */
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define TRAP    "bkpt 0xab"
#define CHANGES "memory"
#else
#define TRAP    "svc " SVC_NUMBER
#define CHANGES "memory", "lr"
#endif
#endif

static int call_host(int operation, const void *argument)
{
	register int r0 __asm__(OPERATION) = operation;
	register const void *r1 __asm__(ARGUMENT) = argument;

	__asm__ volatile(TRAP : "+r"(r0) : "r"(r1) : CHANGES);
	return r0;
}

static size_t length_of(const char *text)
{
	size_t n = 0;

	while (text[n] != '\0') {
		n++;
	}
	return n;
}

int vmcu_semihosting_open(const char *path, bool write)
{
	const uintptr_t block[] = {(uintptr_t)path, write ? OPEN_WRITE_BINARY : OPEN_READ_BINARY,
				   length_of(path)};

	return call_host(SYS_OPEN, block);
}

size_t vmcu_semihosting_read(int handle, void *data, size_t size)
{
	const uintptr_t block[] = {(uintptr_t)handle, (uintptr_t)data, size};
	const int missing = call_host(SYS_READ, block);

	return (missing < 0) ? 0U : size - (size_t)missing;
}

size_t vmcu_semihosting_write(int handle, const void *data, size_t size)
{
	const uintptr_t block[] = {(uintptr_t)handle, (uintptr_t)data, size};
	const int missing = call_host(SYS_WRITE, block);

	return (missing < 0) ? 0U : size - (size_t)missing;
}

void vmcu_semihosting_close(int handle)
{
	const uintptr_t block[] = {(uintptr_t)handle};

	(void)call_host(SYS_CLOSE, block);
}

void vmcu_semihosting_print(const char *text)
{
	(void)call_host(SYS_WRITE0, text);
}

void vmcu_semihosting_exit(int code)
{
	const uintptr_t block[] = {STOPPED_APPLICATION_EXIT, (uintptr_t)code};

	for (;;) {
		(void)call_host(SYS_EXIT_EXTENDED, block);
	}
}
