/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <string.h>

#include <psa/crypto.h>

#include <vmcu/container.h>

/** Bytes of x and y, and of the prefix in PSA's form of a public key. */
#define POINT_BYTES  64U
#define UNCOMPRESSED 0x04

extern const uint8_t vmcu_public_key[POINT_BYTES];

bool vmcu_container_authentic(const uint8_t digest[VMCU_DIGEST_BYTES],
			      const uint8_t signature[VMCU_SIGNATURE_BYTES])
{
	psa_key_attributes_t attributes = PSA_KEY_ATTRIBUTES_INIT;
	uint8_t point[1U + POINT_BYTES] = {UNCOMPRESSED};
	psa_key_id_t key;
	psa_status_t status;

	memcpy(&point[1], vmcu_public_key, POINT_BYTES);
	psa_set_key_type(&attributes, PSA_KEY_TYPE_ECC_PUBLIC_KEY(PSA_ECC_FAMILY_SECP_R1));
	psa_set_key_bits(&attributes, 256);
	psa_set_key_usage_flags(&attributes, PSA_KEY_USAGE_VERIFY_HASH);
	psa_set_key_algorithm(&attributes, PSA_ALG_ECDSA(PSA_ALG_SHA_256));
	/* May be called again and again. */
	if (psa_crypto_init() != PSA_SUCCESS ||
	    psa_import_key(&attributes, point, sizeof(point), &key) != PSA_SUCCESS) {
		return false;
	}
	status = psa_verify_hash(key, PSA_ALG_ECDSA(PSA_ALG_SHA_256), digest, VMCU_DIGEST_BYTES,
				 signature, VMCU_SIGNATURE_BYTES);
	(void)psa_destroy_key(key);
	return status == PSA_SUCCESS;
}
