/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Models that were built with --hop: a first stage that never ends, and those behind it that
 * run once a hop.
 *
 * Its first part leads to the first answer, its second from each answer to the next, over and over.
 * Rows are counted up to where all rings are as they were at the first, and then from 0 again.
 * Nothing is left of this unless the build defines VMCU_STREAMS.
 */

#ifndef VMCU_STREAMS_H_
#define VMCU_STREAMS_H_

#include <stdbool.h>

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

#if defined(VMCU_STREAMS)

/** True if a model keeps rows from one answer to the next. */
static inline bool vmcu_is_stream(const struct vmcu_model *model)
{
	return model->stream != NULL;
}

/** True for the stage that never ends. */
static inline bool vmcu_is_unbounded(const struct vmcu_model *model, const struct vmcu_stage *stage)
{
	return model->stream != NULL && stage->first == 0U;
}

/** The first of the stages that keep states which layers compute; of other models the end. */
static inline uint16_t vmcu_first_keeping(const struct vmcu_model *model)
{
	return (model->stream != NULL) ? (uint16_t)(model->stage_count - model->stream->states)
				       : model->stage_count;
}

/** Rows of a graph output that there are at once: one, where its rows go on and on. */
static inline uint16_t vmcu_rows_of_output(const struct vmcu_model *model,
					   const struct vmcu_tensor *t)
{
	return (model->stream != NULL && model->stage_count == 1U) ? 1U : t->height;
}

/** The row of the input that comes behind row @a y. */
static inline uint16_t vmcu_row_behind(const struct vmcu_model *model, uint16_t y)
{
	/* Not from 0, which stands for an input that has not begun. */
	return (model->stream != NULL && y >= model->stream->rows) ? 1U : (uint16_t)(y + 1U);
}

/** Begins to count the calls of layer @a number anew where its rings have come round. */
static inline void vmcu_come_round(const struct vmcu_model *model, const struct vmcu_stage *stage,
				   uint8_t number, uint16_t *made)
{
	const uint16_t *calls;
	const uint16_t *again;

	if (!vmcu_is_unbounded(model, stage)) {
		return;
	}
	calls = vmcu_at(vmcu_base(model), model->stream->calls);
	again = vmcu_at(vmcu_base(model), model->stream->again);
	if (*made == calls[number]) {
		*made = again[number];
	}
}

#else

static inline bool vmcu_is_stream(const struct vmcu_model *model)
{
	(void)model;
	return false;
}

static inline uint16_t vmcu_first_keeping(const struct vmcu_model *model)
{
	return model->stage_count;
}

static inline uint16_t vmcu_rows_of_output(const struct vmcu_model *model,
					   const struct vmcu_tensor *t)
{
	(void)model;
	return t->height;
}

static inline uint16_t vmcu_row_behind(const struct vmcu_model *model, uint16_t y)
{
	(void)model;
	return (uint16_t)(y + 1U);
}

static inline void vmcu_come_round(const struct vmcu_model *model, const struct vmcu_stage *stage,
				   uint8_t number, uint16_t *made)
{
	(void)model;
	(void)stage;
	(void)number;
	(void)made;
}

#endif /* VMCU_STREAMS */

#endif /* VMCU_STREAMS_H_ */
