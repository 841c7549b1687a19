/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The state of a replay: the owner of each byte, and the reads of calls.
 */

#ifndef VMCU_REPLAY_H_
#define VMCU_REPLAY_H_

#include <stdbool.h>
#include <stdint.h>

#include "check.h"

/** A model that is being replayed, and the layer whose turn it is. */
struct replay {
	const struct vmcu_model *model;
	uint8_t *marks; /**< by byte of the pool whose it is, a digit of it; 0: nobody's */
	uint8_t shift;  /**< which digit, in bits */
	uint32_t circle;
	struct vmcu_check c;
	const struct vmcu_kernel *kernel;
	const struct vmcu_stage *stage;
	uint32_t scratch; /**< bytes that a layer on its own has in the pool */
	uint32_t hop;     /**< of a stream, which one */
};

/** Columns of a row of a tensor. */
struct run {
	uint32_t tensor;
	uint32_t y;
	uint32_t x;
	uint32_t columns;
};

/** Marks bytes of the circle. */
void vmcu_replay_mark(const struct replay *r, uint32_t at, uint32_t bytes, uint8_t with);

/** Marks the bytes of a run as its row's, or returns true if all of them are marked so. */
bool vmcu_replay_visit(const struct replay *r, const struct run *run, bool write);

/** @name True if the bytes that a call for @a out reads of a tensor are there
 * @{
 */
/** Under its window. */
bool vmcu_replay_sees(const struct replay *r, const struct run *out, uint32_t tensor);
/** Pixel for pixel; an input of one row or column is repeated. */
bool vmcu_replay_follows(const struct replay *r, const struct run *out, uint32_t tensor);
/** Of an input, number @a i, that lies in its output. */
bool vmcu_replay_contains(const struct replay *r, const struct run *out, uint32_t tensor,
			  uint16_t i);
/** Its row, of its own output the row before. */
bool vmcu_replay_carries(const struct replay *r, const struct run *out, uint32_t tensor);
/** Of the window of the hop that is replayed, or of input 1 the number of that hop. */
bool vmcu_replay_looks_back(const struct replay *r, const struct run *out, uint16_t i);
/** @} */

#if defined(VMCU_STREAMS)
/**
 * True if the replay has seen the layer whose turn it is, number @a number, begin to count anew,
 * and its rings are then as they were when it had made as many calls.
 */
bool vmcu_replay_turns(const struct replay *r, uint32_t number);
#endif

#endif /* VMCU_REPLAY_H_ */
