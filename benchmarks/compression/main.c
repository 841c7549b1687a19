/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Decodes a Huffman code, whose table and bits are in code.h, and writes the bytes to out.bin. */

#include <semihosting.h>

#include "code.h"

static uint8_t bytes[COUNT];

void decode(uint8_t *out, const uint16_t *coded);

/* The next CODE_BITS bits find a byte and the length of its code. The bits that are there come
 * first in `bits`, and at least 16 of `kept` are known.
 */
__attribute__((noinline)) void decode(uint8_t *out, const uint16_t *coded)
{
	const uint8_t *end = out + COUNT;
	uint32_t bits = ((uint32_t)coded[0] << 16) | coded[1];
	int32_t kept = 16;

	coded += 2;
	while (out != end) {
		const uint32_t entry = table[bits >> (32 - CODE_BITS)];
		const uint32_t length = entry >> 8;

		*out++ = (uint8_t)entry;
		bits <<= length;
		kept -= (int32_t)length;
		if (kept < 0) {
			bits |= (uint32_t)*coded++ << -kept;
			kept += 16;
		}
	}
}

int main(void)
{
	const int out = vmcu_semihosting_open("out.bin", true);

	decode(bytes, coded);
	(void)vmcu_semihosting_write(out, bytes, sizeof(bytes));
	vmcu_semihosting_close(out);
	return 0;
}
