/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The test vector of an update: CONFIG_VMCU_SLOTS.
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

/** struct vmcu_self_test::magic: "VMST", little-endian. */
#define VMCU_SELF_TEST_MAGIC 0x54534d56U

/**
 * The header of a test vector. `vmcu container update` appends the vector to a container, at the
 * next multiple of VMCU_CONTAINER_ALIGN. The bytes of all inputs follow the header: int8, the rows
 * of each input in order. Of a model with state, these are the rows up to the end of several
 * streaming steps.
 *
 * The digest is d(n) over the n rows of all outputs, of each step in turn: d(0) is 32 zero bytes,
 * d(i) is the SHA-256 of d(i - 1) and row i.
 */
struct vmcu_self_test {
	uint32_t magic;
	uint32_t input_bytes;
	uint32_t reserved[2];
	uint8_t digest[VMCU_DIGEST_BYTES];
};

/**
 * @brief Runs the model of an update on the update's test vector.
 *
 * Overwrites the inputs and outputs in the pool, and the state of a model that has one.
 *
 * @param ctx  Context of the model that vmcu_model_load() has loaded from @a data.
 * @param data The update: a container and its test vector.
 * @param size Bytes at @a data.
 *
 * @retval 0        The outputs match the digest.
 * @retval -EBADMSG The vector is missing, truncated, or of another model.
 * @retval -EILSEQ  The outputs differ from the digest.
 * @return The error of vmcu_invoke() or vmcu_push_row() if the inference fails.
 */
int vmcu_self_test(struct vmcu_context *ctx, const void *data, size_t size);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SELF_TEST_H_ */
