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
	0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U,
	0xab1c5ed5U, 0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU,
	0x9bdc06a7U, 0xc19bf174U, 0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU,
	0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU, 0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U,
	0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U, 0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU,
	0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U, 0xa2bfe8a1U, 0xa81a664bU,
	0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U, 0x19a4c116U,
	0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
	0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U,
	0xc67178f2U,
};

/** A message so far. */
struct digest {
	uint32_t state[8];
	uint8_t block[BLOCK];
	uint64_t length; /**< bytes */
};

static uint32_t rotate_right(uint32_t x, int32_t bits)
{
	return x >> bits | x << (32 - bits);
}

static void hash_block(struct digest *d)
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

		w[i] = w[i - 16U] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) +
		       w[i - 7U] + (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
	}
	__builtin_memcpy(s, d->state, sizeof(s));
	for (uint32_t i = 0; i < BLOCK; i++) {
		const uint32_t e =
			rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25);
		const uint32_t a =
			rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22);
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

static void take_data(struct digest *d, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		d->block[d->length % BLOCK] = data[i];
		d->length++;
		if (d->length % BLOCK == 0U) {
			hash_block(d);
		}
	}
}

VMCU_SMALL void vmcu_sha256(const uint8_t *first, size_t first_size, const uint8_t *second,
			    size_t second_size, uint8_t digest[VMCU_DIGEST_BYTES])
{
	static const uint8_t padding[BLOCK] = {0x80U};
	struct digest d = {
		.state = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU, 0x510e527fU,
			  0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U},
	};
	uint8_t bits[8];

	take_data(&d, first, first_size);
	take_data(&d, second, second_size);
	for (uint32_t i = 0; i < sizeof(bits); i++) {
		bits[i] = (uint8_t)(8U * d.length >> (56U - 8U * i));
	}
	take_data(&d, padding, 1U + (119U - d.length % BLOCK) % BLOCK);
	take_data(&d, bits, sizeof(bits));
	for (uint32_t i = 0; i < VMCU_DIGEST_BYTES; i++) {
		digest[i] = (uint8_t)(d.state[i / 4U] >> (24U - 8U * (i % 4U)));
	}
}
