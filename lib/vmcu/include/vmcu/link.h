/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief One network on several microcontrollers: CONFIG_VMCU_LINK.
 *
 * `vmcu split` writes a table for each node. A node receives the inputs of its layers, computes
 * them and sends the outputs. Each message is a frame that the receiver acknowledges:
 *
 * | Bytes  | Field                                                     |
 * |--------|-----------------------------------------------------------|
 * | 0      | 0xa5 data, 0x5a acknowledgement                           |
 * | 1      | session                                                   |
 * | 2, 3   | sequence number in this session and direction, from 1 on  |
 * | 4, 5   | inference number, from 0 on                               |
 * | 6, 7   | part: which tensor or rows                                |
 * | 8..11  | length of the payload; 0 in an acknowledgement            |
 * | 12..15 | CRC-32 (IEEE 802.3) of bytes 0 to 11 and the payload      |
 *
 * Numbers are little-endian; the payload follows. See doc/split.md.
 */

#ifndef VMCU_LINK_H_
#define VMCU_LINK_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_link Several microcontrollers
 * @{
 */

/** Bytes of a frame's header. */
#define VMCU_LINK_HEADER 16

/** A wire to another node. Both functions can block. */
struct vmcu_link_port {
	/** @brief Sends all bytes. @return 0 or a negative errno. */
	int (*send)(void *user, const void *data, size_t bytes);
	/**
	 * @brief Receives until all bytes are there or none comes for @a timeout_ms.
	 *
	 * @return Bytes received, fewer after a timeout, or a negative errno.
	 */
	int (*receive)(void *user, void *data, size_t bytes, uint32_t timeout_ms);
	void *user; /**< passed to both functions */
};

/** A link to another node. The caller owns it and sets the first four members. */
struct vmcu_link {
	const struct vmcu_link_port *port;
	uint32_t timeout_ms; /**< longest wait for a frame, and for its acknowledgement */
	uint32_t gap_ms;     /**< longest silence within a frame */
	/** Waits, and transmissions of a frame, until a call fails. timeout_ms * tries has to
	 * exceed the time of an inference.
	 */
	uint16_t tries;
	uint8_t session;
	uint16_t sent;     /**< sequence number of the last message */
	uint16_t received; /**< the same of the other direction */
};

/**
 * @brief Sends a message and waits for its acknowledgement.
 *
 * @retval 0          The other node has the bytes.
 * @retval -ETIMEDOUT It did not acknowledge them.
 * @return Any other error of the port.
 */
int vmcu_link_send(struct vmcu_link *link, uint16_t inference, uint16_t part, const void *data,
		   uint32_t bytes);

/**
 * @brief Receives a message and acknowledges it.
 *
 * Ignores all other frames, but acknowledges the previous message again. @a data is not valid if
 * the call fails.
 *
 * @retval 0          The bytes at @a data are those that the other node sent.
 * @retval -EBADMSG   The message did not come, or only damaged.
 * @retval -ETIMEDOUT No frame came.
 * @return Any other error of the port.
 */
int vmcu_link_receive(struct vmcu_link *link, uint16_t inference, uint16_t part, void *data,
		      uint32_t bytes);

/** The kind of a step of a node. */
enum vmcu_node_kind {
	VMCU_NODE_RECEIVE,     /**< receives @a bytes into input @a index, from @a offset on */
	VMCU_NODE_SEND_INPUT,  /**< sends @a bytes of input @a index, from @a offset on */
	VMCU_NODE_SEND_OUTPUT, /**< the same of output @a index */
	VMCU_NODE_INVOKE,      /**< runs the model */
	VMCU_NODE_PUSH,        /**< pushes the row at @a offset of the input */
	/** copies output 0, @a bytes, to @a offset of input 0 of model @a index, the next one */
	VMCU_NODE_NEXT,
};

/** A step of a node's inference. */
struct vmcu_node_step {
	uint8_t kind; /**< enum vmcu_node_kind */
	uint8_t index;
	uint8_t link; /**< index of the link in the caller's array */
	uint16_t part;
	uint32_t offset;
	uint32_t bytes;
};

/** The work of a node, which `vmcu split` writes. */
struct vmcu_node_table {
	const struct vmcu_model *const *models; /**< they run in turn, in one pool */
	const struct vmcu_node_step *steps;
	const uint8_t *peers; /**< by link, the number of the node at its other end */
	uint32_t ram_bytes;   /**< of the pool and the rows in front of it */
	/** Bytes of rows that are pushed, in front of the pool; 0: the pool holds the inputs. */
	uint32_t row_bytes;
	uint16_t step_count;
	uint8_t model_count;
	uint8_t link_count;
};

/** A node. The caller owns it. */
struct vmcu_node {
	const struct vmcu_node_table *table;
	struct vmcu_link *links;
	uint8_t *memory;
	size_t size;
	struct vmcu_context ctx;
	uint16_t inference;
	uint8_t model; /**< index of the model that the context has */
	bool failed;
};

/**
 * @brief Binds a node to its links and its memory.
 *
 * @param node   Node to set up.
 * @param table  Table from `vmcu split`.
 * @param links  As many links as @a table has peers, in that order.
 * @param memory Aligned to VMCU_POOL_ALIGN.
 * @param size   Bytes at @a memory: NAME_RAM_BYTES of the node's header.
 *
 * @retval 0       Ready, in session 0.
 * @retval -EINVAL A pointer is NULL or the memory is misaligned.
 * @retval -ENOMEM The memory is too small.
 */
int vmcu_node_init(struct vmcu_node *node, const struct vmcu_node_table *table,
		   struct vmcu_link *links, void *memory, size_t size);

/**
 * @brief Starts again with inference 0 and clear states. All nodes of a network have to.
 *
 * @param node    Node that vmcu_node_init() has set up.
 * @param session The same number at all nodes, unlike the last ones: frames of other sessions are
 *                ignored.
 *
 * @retval 0 Done.
 * @return The error of vmcu_init().
 */
int vmcu_node_restart(struct vmcu_node *node, uint8_t session);

/**
 * @brief Returns the address of an input that the application writes before vmcu_node_run().
 *
 * @param node  Node that vmcu_node_init() has set up.
 * @param index Number of the input; 0 for a model that keeps state, which has all rows there.
 *
 * @return NULL if there is none. Outputs are not valid after this call.
 */
int8_t *vmcu_node_input(struct vmcu_node *node, unsigned int index);

/**
 * @brief Runs one inference: receives, computes, sends. Afterwards vmcu_output() of the node's
 * context returns the outputs.
 *
 * @retval 0          Done.
 * @retval -EINVAL    vmcu_node_input() was not called, for a node with several models.
 * @retval -ECANCELED An earlier inference has failed: vmcu_node_restart() all nodes.
 * @return Any error of vmcu_link_send(), vmcu_link_receive() and vmcu_invoke().
 */
int vmcu_node_run(struct vmcu_node *node);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_LINK_H_ */
