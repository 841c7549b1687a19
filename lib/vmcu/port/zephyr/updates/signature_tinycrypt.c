/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <tinycrypt/ecc.h>
#include <tinycrypt/ecc_dsa.h>

#include <vmcu/container.h>

extern const uint8_t vmcu_public_key[2 * NUM_ECC_BYTES];

bool vmcu_container_authentic(const uint8_t digest[VMCU_DIGEST_BYTES],
			      const uint8_t signature[VMCU_SIGNATURE_BYTES])
{
	const struct uECC_Curve_t *curve = uECC_secp256r1();

	return uECC_valid_public_key(vmcu_public_key, curve) == 0 &&
	       uECC_verify(vmcu_public_key, digest, VMCU_DIGEST_BYTES, signature, curve) == 1;
}
