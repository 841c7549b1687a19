/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What make_vectors.py writes. */

#ifndef RUNTIME_VECTORS_H_
#define RUNTIME_VECTORS_H_

#include <stdint.h>

#include <vmcu/vmcu.h>

/** Layers of one kind: their inputs one after the other, and their outputs. */
struct vector {
	const char *name;
	const struct vmcu_model *model;
	const int8_t *inputs;
	const int8_t *outputs;
};

extern const struct vector vectors[];
extern const unsigned int vector_count;

#endif /* RUNTIME_VECTORS_H_ */
