/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief SHA-256 (FIPS 180-4), for builds without a library that has it.
 */

#include <vmcu/container.h>

#include "../compiled.h"

#define BLOCK 64U

static const uint32_t rounds[BLOCK] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

/** A message so far. */
struct digest {
	uint32_t state[8];
	uint8_t block[BLOCK];
	uint64_t length; /**< bytes */
};

static uint32_t turned(uint32_t x, int32_t bits)
{
	return x >> bits | x << (32 - bits);
}

static void take_block(struct digest *d)
{
	uint32_t w[BLOCK];
	uint32_t s[8];

	for (uint32_t i = 0; i < 16U; i++) {
		const uint8_t *b = &d->block[4U * i];

		w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	}
	for (uint32_t i = 16; i < BLOCK; i++) {
		const uint32_t a = w[i - 15U];
		const uint32_t b = w[i - 2U];

		w[i] = w[i - 16U] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7U] +
		       (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
	}
	__builtin_memcpy(s, d->state, sizeof(s));
	for (uint32_t i = 0; i < BLOCK; i++) {
		const uint32_t e = turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25);
		const uint32_t a = turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22);
		const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
		const uint32_t most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
		const uint32_t one = s[7] + e + choice + rounds[i] + w[i];

		for (uint32_t k = 7; k > 0U; k--) {
			s[k] = s[k - 1U];
		}
		s[4] += one;
		s[0] = one + a + most;
	}
	for (uint32_t i = 0; i < 8U; i++) {
		d->state[i] += s[i];
	}
}

static void take(struct digest *d, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		d->block[d->length % BLOCK] = data[i];
		d->length++;
		if (d->length % BLOCK == 0U) {
			take_block(d);
		}
	}
}

VMCU_SMALL void vmcu_sha256(const uint8_t *first, size_t first_size, const uint8_t *second,
			    size_t second_size, uint8_t digest[VMCU_DIGEST_BYTES])
{
	static const uint8_t padding[BLOCK] = {0x80};
	struct digest d = {
		.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
			  0x1f83d9ab, 0x5be0cd19},
	};
	uint8_t bits[8];

	take(&d, first, first_size);
	take(&d, second, second_size);
	for (uint32_t i = 0; i < sizeof(bits); i++) {
		bits[i] = (uint8_t)(8U * d.length >> (56U - 8U * i));
	}
	take(&d, padding, 1U + (119U - d.length % BLOCK) % BLOCK);
	take(&d, bits, sizeof(bits));
	for (uint32_t i = 0; i < VMCU_DIGEST_BYTES; i++) {
		digest[i] = (uint8_t)(d.state[i / 4U] >> (24U - 8U * (i % 4U)));
	}
}
