/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Weights that are a tensor. */

#ifndef VMCU_KERNELS_TRAINED_H_
#define VMCU_KERNELS_TRAINED_H_

#include "support.h"

/** Bytes of a weight. */
#define VMCU_WEIGHT_BYTES 2

/** The bias at any address. */
static inline int32_t vmcu_bias(const int8_t *src)
{
	int32_t value;

	__builtin_memcpy(&value, src, sizeof(value));
	return value;
}

/** Input bytes of a row. */
static inline int32_t vmcu_run(const struct vmcu_tensor *t)
{
	return (int32_t)t->width * t->channels;
}

#endif /* VMCU_KERNELS_TRAINED_H_ */
