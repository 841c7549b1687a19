/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Serves `vmcu verify --serial` and `vmcu bench --measure`: VMCU_PROBE.
 *
 * The host sends inputs over any byte stream, such as a UART. The probe runs the model and answers
 * with a digest of each layer's outputs, with single bytes, or with each layer's cycles. The host
 * compares them with the model file, and so names the first layer that a board computes wrongly.
 *
 * The host sends one command a line. Numbers are hexadecimal. The last line of an answer starts
 * with '='; the host ignores lines that start with another character than those below.
 *
 * | command       | answer                                                                    |
 * |---------------|---------------------------------------------------------------------------|
 * | ?             | = version, layers, counter's Hz, model's name                             |
 * | mMODE A B     | = ; resets digests, times and a stream; chooses what the next runs report |
 * | iINPUT ROW BYTES | = digest of BYTES; writes a row of an input, or the next row to push   |
 * | r             | runs the model, or pushes the row: = result, cycles                       |
 * | o             | o BYTES, one line a row of the outputs; =                                 |
 * | v             | v layer, calls, value: one line a layer; =                                |
 * | q             | = ; vmcu_probe_serve() returns                                            |
 *
 * | MODE | the run reports                                                                       |
 * |------|---------------------------------------------------------------------------------------|
 * | n    | nothing                                                                               |
 * | t    | nothing; the values of v are cycles                                                   |
 * | d    | d layer, digest: when the layer's last row is computed                                |
 * | c    | c layer, row, column, columns, then, after the kernel, digest: calls of layers A to B |
 * | b    | b layer, row, column, columns, then BYTES: calls of row B of layer A                  |
 *
 * A digest is the CRC-32 of IEEE 802.3 of the output's bytes, in the order in which they are
 * computed.
 */

#ifndef VMCU_PROBE_H_
#define VMCU_PROBE_H_

#include <stdint.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_probe Probe
 * @{
 */

/** The byte stream to the host, and a counter of cycles. */
struct vmcu_probe_port {
	int (*read)(void *user); /**< waits for the next byte; negative if the stream ended */
	void (*write)(void *user, char byte);
	uint32_t (*cycles)(void *user); /**< NULL: no counter, all times are 0 */
	uint32_t hertz;                 /**< of the counter */
	void *user;
};

/** Figures of one layer since the last command m. */
struct vmcu_probe_layer {
	uint32_t calls;
	uint32_t value; /**< cycles in mode t, else a digest */
};

/** A probe. The caller owns it and sets the first four members, the others to 0. */
struct vmcu_probe {
	const struct vmcu_probe_port *port;
	struct vmcu_probe_layer *layers; /**< one for each layer of the model */
	/** A row of the input if the caller pushes rows, the whole input if it is external. Other
	 * models do not use it.
	 */
	int8_t *input;
	uint16_t layer_count;
	uint16_t first;
	uint16_t last;
	char mode;
};

/**
 * @brief Answers the host until it sends q, or until the stream ends.
 *
 * @param ctx   Context that vmcu_init() has set up. No other code runs it meanwhile.
 * @param probe See struct vmcu_probe.
 *
 * @retval 0       The host has ended the session.
 * @retval -EINVAL A pointer that the model needs is NULL, or @a ctx was not set up.
 * @retval -ENOMEM The model has more layers than @a probe.
 */
int vmcu_probe_serve(struct vmcu_context *ctx, struct vmcu_probe *probe);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_PROBE_H_ */
