/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The parts of vmcu_model_load().
 */

#ifndef VMCU_LOAD_H_
#define VMCU_LOAD_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vmcu/access.h>
#include <vmcu/container.h>
#include <vmcu/requant.h>

/** A container's tables; offsets count from its start. python/vmcu_tools/container/layout.py. */
struct vmcu_container_model {
	uint32_t name;
	uint32_t pool_bytes;
	uint32_t circle;
	uint32_t step;
	uint32_t tensors;
	uint32_t layers;
	uint32_t stages;
	uint32_t parts;
	uint32_t schedule;
	uint32_t layer_inputs;
	uint32_t inputs;
	uint32_t outputs;
	uint32_t kernels;
	uint32_t blocks;
	uint32_t part_count;
	uint32_t schedule_count;
	uint32_t layer_input_count;
	uint32_t block_count;
	uint16_t tensor_count;
	uint16_t layer_count;
	uint16_t stage_count;
	uint16_t kernel_count;
	uint8_t input_count;
	uint8_t output_count;
	uint8_t streamed;
	uint8_t requantisers;
};

/** The first bytes of a container. */
struct vmcu_container_file {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t size;
	uint32_t signature; /**< of the digest: 0 none, 1 Ed25519, 2 ECDSA P-256 */
	uint8_t digest[VMCU_DIGEST_BYTES];
	uint8_t signed_by[VMCU_SIGNATURE_BYTES];
	struct vmcu_container_model model;
};

/** The digest covers the bytes in front of it and those behind the signature. */
#define VMCU_DIGEST_AT    16U
#define VMCU_SIGNATURE_AT (VMCU_DIGEST_AT + VMCU_DIGEST_BYTES)
#define VMCU_MODEL_AT     (VMCU_SIGNATURE_AT + VMCU_SIGNATURE_BYTES)

/** Data for planners on the device, behind the model, from minor version 1 on. */
struct vmcu_container_online {
	uint32_t steps; /**< one for each layer; 0: there are none */
	uint32_t distances;
	uint32_t distance_count;
};

/**
 * Data behind these where the model keeps rows, which its major version says: struct vmcu_stream as
 * cores of 32 bits have it.
 */
struct vmcu_container_stream {
	uint32_t calls;
	uint32_t again;
	uint32_t model;
	uint32_t state;
	uint32_t state_bytes;
	uint16_t rows;
	uint16_t states;
};

/**
 * Data behind all these, from minor version 2 on, 1 where the model keeps rows: the devices that it
 * is for, and how new it is.
 */
struct vmcu_container_release {
	uint32_t product; /**< 0: any */
	uint32_t version;
};

/**
 * Data behind all these where constants are in a file of their own, which the major version says.
 * Such a container has all the additions; of these, its model's rows are 0 where it keeps none.
 */
struct vmcu_container_weights {
	uint32_t chunks; /**< struct vmcu_chunk, in the order of stages */
	uint32_t chunk_count;
	uint32_t buffer; /**< bytes of the buffer that chunks are read into */
	/** SHA-256 of the digest of the chunks before, at first zeros, and of the chunk. */
	uint8_t digest[VMCU_DIGEST_BYTES];
};

/** A kernel that a container uses: its name and that of its parameters. */
struct vmcu_container_kernel {
	uint32_t name;
	uint32_t params;
};

/** In a pointer of parameters: the rest is an offset in the buffer of chunks. */
#define VMCU_CONTAINER_EXTERNAL 0x80000000U

/** Bytes of entries in a container, whose pointers have four. */
#define VMCU_LAYER_BYTES 28U
#define VMCU_STAGE_BYTES 20U
#define VMCU_IO_BYTES    12U

/** A container while it is being loaded. */
struct vmcu_loading {
	const uint8_t *data;
	uint32_t size;
	const struct vmcu_container_model *tables;
	const struct vmcu_container_online *online; /**< NULL: the container has none */
	const struct vmcu_container_stream *stream; /**< NULL: its model keeps nothing */
	struct vmcu_container_release release;      /**< zeros: the container has none */
#if defined(VMCU_EXTERNAL_WEIGHTS)
	const struct vmcu_container_weights *weights; /**< NULL: constants are in the container */
	const struct vmcu_reader *reader;             /**< of those that are not */
	uint8_t read[VMCU_DIGEST_BYTES];              /**< digest of the chunks so far */
	uint8_t *buffer;                              /**< that chunks are read into */
	const uint8_t *chunk;                         /**< the last that was read */
	uint32_t chunk_bytes;
#endif
	int8_t *arena;
	size_t arena_size;
	size_t tail; /**< bytes taken of the arena's end */
	struct vmcu_refusal refusal;
};

/** Reports the fault, and returns @a err. */
int vmcu_refuse(struct vmcu_loading *l, int err, const char *what, uint32_t index);

/** True if @a count entries of @a each bytes are behind the model, aligned. */
bool vmcu_is_table(const struct vmcu_loading *l, uint32_t at, uint32_t count, uint32_t each);

/** True if two digests are equal. */
bool vmcu_same_digest(const uint8_t *a, const uint8_t *b);

/** The text at an offset, or NULL. */
const char *vmcu_text(const struct vmcu_loading *l, uint32_t at);

/** Takes bytes of the arena's end; NULL if there are none, but they are counted. */
void *vmcu_take_tail(struct vmcu_loading *l, size_t bytes);

/** The kernel of a number, which is one of the container's; NULL if it is not linked. */
const struct vmcu_kernel *vmcu_linked(const struct vmcu_loading *l, uint32_t number);

/** Finds all kernels. */
int vmcu_link_kernels(struct vmcu_model *model, struct vmcu_loading *l);

/** Gives cores of 64 bits tables with pointers of their own size; others have them in place. */
int vmcu_widen_tables(struct vmcu_model *model, struct vmcu_loading *l);

/** @name Checks of a model's tables
 * @{
 */
int vmcu_check_tensors(const struct vmcu_model *model, struct vmcu_loading *l);
int vmcu_check_stages(const struct vmcu_model *model, struct vmcu_loading *l);
int vmcu_check_io(const struct vmcu_model *model, struct vmcu_loading *l);
/** @} */

#if defined(VMCU_STREAMS)
/** The same for the state of a model, behind the checks of its layers. */
int vmcu_check_stream(const struct vmcu_model *model, struct vmcu_loading *l);

/** True if the stage that never ends has a beginning and a hop, which takes some of the input. */
bool vmcu_check_hops(const struct vmcu_check *c, const struct vmcu_stage *stage);
#endif

#if defined(VMCU_EXTERNAL_WEIGHTS)
/** Finds the chunks of a model with constants elsewhere, and room for the buffer. */
int vmcu_find_chunks(struct vmcu_model *model, struct vmcu_loading *l);

/** Reads the chunk of a stage, if it has one, for the checks of its layers. */
int vmcu_take_chunk(const struct vmcu_model *model, struct vmcu_loading *l, uint32_t stage);

/** Shows a check the chunk that was read last, which has a kernel's constants; @a l NULL: none. */
void vmcu_show_chunk(struct vmcu_check *c, const struct vmcu_loading *l);

/** Compares the digest of all chunks, once each has been taken. */
int vmcu_check_weights(struct vmcu_loading *l);

/** True if a model's constants are elsewhere. */
static inline bool vmcu_is_external(const struct vmcu_model *model)
{
	return model->chunk_count != 0U;
}
#else
static inline int vmcu_take_chunk(const struct vmcu_model *model, struct vmcu_loading *l,
				  uint32_t stage)
{
	(void)model;
	(void)l;
	(void)stage;
	return 0;
}

static inline void vmcu_show_chunk(struct vmcu_check *c, const struct vmcu_loading *l)
{
	(void)c;
	(void)l;
}

static inline int vmcu_check_weights(struct vmcu_loading *l)
{
	(void)l;
	return 0;
}

static inline int vmcu_find_chunks(struct vmcu_model *model, struct vmcu_loading *l)
{
	(void)model;
	(void)l;
	return 0;
}

static inline bool vmcu_is_external(const struct vmcu_model *model)
{
	(void)model;
	return false;
}
#endif

/** True if a stage's counts of calls share no byte with the outputs of so many layers. */
bool vmcu_check_counts(const struct vmcu_check *c, const struct vmcu_loading *l,
		       const struct vmcu_stage *stage, uint32_t first, uint32_t count);

/** Goes through all calls of a model whose tables are checked. */
int vmcu_replay(const struct vmcu_model *model, struct vmcu_loading *l);

#endif /* VMCU_LOAD_H_ */
