/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief An Xtensa LX106 in QEMU: from reset to main(), semihosting.h by the calls of Xtensa's
 * simulator, and what compilers call and an ESP8266 has in its ROM.
 */

#include <stdint.h>

#include "semihosting.h"

/* From linker.ld. */
extern uint32_t vmcu_bss_start[];
extern uint32_t vmcu_bss_end[];
extern const uint32_t vmcu_data_load[];
extern uint32_t vmcu_data_start[];
extern uint32_t vmcu_data_end[];

int main(void);
void vmcu_reset_handler(void);
uint32_t __udivsi3(uint32_t dividend, uint32_t divisor);
uint32_t __umodsi3(uint32_t dividend, uint32_t divisor);
int32_t __divsi3(int32_t dividend, int32_t divisor);
int64_t __divdi3(int64_t dividend, int64_t divisor);
int64_t __moddi3(int64_t dividend, int64_t divisor);
uint64_t __muldi3(uint64_t a, uint64_t b);
uint64_t __udivdi3(uint64_t dividend, uint64_t divisor);
uint32_t __floatsisf(int32_t value);
uint32_t __addsf3(uint32_t a, uint32_t b);
uint32_t __subsf3(uint32_t a, uint32_t b);
uint32_t __mulsf3(uint32_t a, uint32_t b);

#define SYS_EXIT  1
#define SYS_READ  3
#define SYS_WRITE 4
#define SYS_OPEN  5
#define SYS_CLOSE 6

/* What Linux calls O_RDONLY and O_WRONLY | O_CREAT | O_TRUNC. */
#define OPEN_READ  0
#define OPEN_WRITE 0x241
#define MODE       0644

#define STANDARD_OUTPUT 1

static int simcall(int number, uintptr_t first, uintptr_t second, uintptr_t third)
{
	register int a2 __asm__("a2") = number;
	register uintptr_t a3 __asm__("a3") = first;
	register uintptr_t a4 __asm__("a4") = second;
	register uintptr_t a5 __asm__("a5") = third;

	__asm__ volatile("simcall" : "+r"(a2), "+r"(a3) : "r"(a4), "r"(a5) : "memory");
	return a2;
}

int vmcu_semihosting_open(const char *path, bool write)
{
	return simcall(SYS_OPEN, (uintptr_t)path, write ? OPEN_WRITE : OPEN_READ, MODE);
}

size_t vmcu_semihosting_read(int handle, void *data, size_t size)
{
	uint8_t *to = data;
	size_t done = 0;
	int got;

	do {
		got = simcall(SYS_READ, (uintptr_t)handle, (uintptr_t)&to[done], size - done);
		done += (got > 0) ? (size_t)got : 0U;
	} while (got > 0 && done < size);
	return done;
}

size_t vmcu_semihosting_write(int handle, const void *data, size_t size)
{
	const int put = simcall(SYS_WRITE, (uintptr_t)handle, (uintptr_t)data, size);

	return (put < 0) ? 0U : (size_t)put;
}

void vmcu_semihosting_close(int handle)
{
	(void)simcall(SYS_CLOSE, (uintptr_t)handle, 0, 0);
}

void vmcu_semihosting_print(const char *text)
{
	size_t length = 0;

	while (text[length] != '\0') {
		length++;
	}
	(void)vmcu_semihosting_write(STANDARD_OUTPUT, text, length);
}

void vmcu_semihosting_exit(int code)
{
	for (;;) {
		(void)simcall(SYS_EXIT, (uintptr_t)code, 0, 0);
	}
}

void vmcu_reset_handler(void)
{
	const uint32_t *from = vmcu_data_load;

	for (uint32_t *to = vmcu_data_start; to < vmcu_data_end; to++) {
		*to = *from++;
	}
	for (uint32_t *to = vmcu_bss_start; to < vmcu_bss_end; to++) {
		*to = 0;
	}
	vmcu_semihosting_exit(main());
}

/* Where reset goes. Exceptions end in an endless loop. */
__asm__(".section .vectors, \"ax\"\n\t"
	"j vmcu_begin\n\t"
	".literal_position\n\t"
	".global vmcu_begin\n\t"
	".align 4\n"
	"vmcu_begin:\n\t"
	"movi sp, vmcu_stack_top\n\t"
	"movi a0, vmcu_reset_handler\n\t"
	"jx a0");

static uint64_t divide(uint64_t dividend, uint64_t divisor, uint64_t *rest)
{
	uint64_t quotient = 0, left = 0;

	for (int bit = 63; bit >= 0; bit--) {
		left = (left << 1) | ((dividend >> bit) & 1U);
		if (left >= divisor) {
			left -= divisor;
			quotient |= (uint64_t)1 << bit;
		}
	}
	*rest = left;
	return quotient;
}

uint64_t __udivdi3(uint64_t dividend, uint64_t divisor)
{
	uint64_t rest;

	return divide(dividend, divisor, &rest);
}

uint32_t __udivsi3(uint32_t dividend, uint32_t divisor)
{
	return (uint32_t)__udivdi3(dividend, divisor);
}

uint32_t __umodsi3(uint32_t dividend, uint32_t divisor)
{
	uint64_t rest;

	(void)divide(dividend, divisor, &rest);
	return (uint32_t)rest;
}

static uint64_t magnitude(int64_t value)
{
	return (value < 0) ? 0U - (uint64_t)value : (uint64_t)value;
}

int64_t __divdi3(int64_t dividend, int64_t divisor)
{
	const uint64_t found = __udivdi3(magnitude(dividend), magnitude(divisor));

	return (int64_t)(((dividend < 0) != (divisor < 0)) ? 0U - found : found);
}

int64_t __moddi3(int64_t dividend, int64_t divisor)
{
	return dividend - __divdi3(dividend, divisor) * divisor;
}

int32_t __divsi3(int32_t dividend, int32_t divisor)
{
	return (int32_t)__divdi3(dividend, divisor);
}

/* By halves, of which no product needs more than 32 bits. */
uint64_t __muldi3(uint64_t a, uint64_t b)
{
	const uint32_t a0 = (uint32_t)a & 0xffffU, a1 = (uint32_t)a >> 16;
	const uint32_t b0 = (uint32_t)b & 0xffffU, b1 = (uint32_t)b >> 16;
	const uint32_t middle = ((a0 * b0) >> 16) + ((a1 * b0) & 0xffffU) + ((a0 * b1) & 0xffffU);
	uint32_t high = a1 * b1 + ((a1 * b0) >> 16) + ((a0 * b1) >> 16) + (middle >> 16);

	high += (uint32_t)(a >> 32) * (uint32_t)b + (uint32_t)(b >> 32) * (uint32_t)a;
	return ((uint64_t)high << 32) | (middle << 16) | ((a0 * b0) & 0xffffU);
}

/* float32, without NaN and infinity: a sign, and value * 2**exponent. */
#define SIGN     0x80000000U
#define FRACTION 0x7fffffU
#define BIAS     127
#define LOWEST   (-149)
/* What a sum keeps of the smaller number: enough for every rounding. */
#define KEPT     38

static int exponent_of(uint32_t x)
{
	const int field = (int)((x & ~SIGN) >> 23);

	return (field > 0) ? field + LOWEST - 1 : LOWEST;
}

static uint32_t value_of(uint32_t x)
{
	return (x & FRACTION) | (((x & ~SIGN) > FRACTION) ? FRACTION + 1U : 0U);
}

/* The nearest float, of two the even one. */
static uint32_t nearest(uint32_t sign, uint64_t value, int exponent)
{
	int drop = 40;

	if (value == 0U) {
		return sign;
	}
	while ((value >> 63) == 0U) {
		value <<= 1;
		exponent--;
	}
	if (exponent + drop < LOWEST) {
		drop = LOWEST - exponent;
	}
	const uint64_t half = (uint64_t)1 << 63;

	if (drop > 63) {
		return sign | ((drop == 64 && value > half) ? 1U : 0U);
	}
	const uint64_t rest = value << (64 - drop);
	uint32_t found = (uint32_t)(value >> drop);

	found += (rest > half || (rest == half && (found & 1U) != 0U)) ? 1U : 0U;
	return sign | (((uint32_t)(exponent + drop - LOWEST) << 23) + found);
}

uint32_t __floatsisf(int32_t value)
{
	return nearest((value < 0) ? SIGN : 0U, magnitude(value), 0);
}

uint32_t __mulsf3(uint32_t a, uint32_t b)
{
	const uint64_t product = (uint64_t)value_of(a) * value_of(b);

	return nearest((a ^ b) & SIGN, product, exponent_of(a) + exponent_of(b));
}

uint32_t __addsf3(uint32_t a, uint32_t b)
{
	if (exponent_of(a) < exponent_of(b)) {
		return __addsf3(b, a);
	}
	const int distance = exponent_of(a) - exponent_of(b);
	const int shift = (distance < KEPT) ? distance : KEPT;
	const int64_t high = (int64_t)((uint64_t)value_of(a) << shift);
	const int64_t low = (distance <= KEPT) ? value_of(b) : (value_of(b) != 0U);
	const int64_t sum = ((a & SIGN) != 0U ? -high : high) + ((b & SIGN) != 0U ? -low : low);

	if (sum == 0) {
		return a & b & SIGN;
	}
	return nearest((sum < 0) ? SIGN : 0U, (uint64_t)((sum < 0) ? -sum : sum),
		       exponent_of(a) - shift);
}

uint32_t __subsf3(uint32_t a, uint32_t b)
{
	return __addsf3(a, b ^ SIGN);
}
