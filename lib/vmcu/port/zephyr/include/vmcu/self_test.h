/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A test vector behind a container: CONFIG_VMCU_SLOTS.
 */

#ifndef VMCU_SELF_TEST_H_
#define VMCU_SELF_TEST_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/container.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @addtogroup vmcu_container
 * @{
 */

/** "VMST", little-endian. */
#define VMCU_SELF_TEST_MAGIC 0x54534d56U

/**
 * What `vmcu container update` puts behind a container, at the next multiple of
 * VMCU_CONTAINER_ALIGN. The bytes of all inputs follow: int8, rows of each from the first on.
 *
 * The digest is d(n) of all rows of all outputs: d(0) is 32 zeros, d(i) the SHA-256 of d(i - 1) and
 * of row i.
 */
struct vmcu_self_test {
	uint32_t magic;
	uint32_t input_bytes;
	uint32_t reserved[2];
	uint8_t digest[VMCU_DIGEST_BYTES];
};

/**
 * @brief Runs the model of an update on the update's own vector.
 *
 * Writes inputs and outputs in the pool.
 *
 * @param ctx  Bound to the model that vmcu_model_load() has made of @a data.
 * @param data The container, with the vector behind it.
 * @param size Bytes at @a data.
 *
 * @retval 0       The outputs are as they should be.
 * @retval -EBADMSG There is no vector, it is cut short, or it is of another model.
 * @retval -EILSEQ The outputs are others.
 * @return What vmcu_invoke() or vmcu_push_row() returns where these fail.
 */
int vmcu_self_test(struct vmcu_context *ctx, const void *data, size_t size);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SELF_TEST_H_ */
