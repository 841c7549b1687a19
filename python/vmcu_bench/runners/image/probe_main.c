/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Serves `vmcu verify --serial emulated` over the UART of an emulated board.
 *
 * The build passes IMAGE_HEADER and IMAGE_NAME as for main.c, and IMAGE_UART, see uart.h.
 */

#include <vmcu/probe.h>

#include "bound.h"
#include "uart.h"

#define LAYERS_OF(name) VMCU_MODEL_LAYERS(name)

static struct vmcu_probe_layer layers[LAYERS_OF(IMAGE_NAME)];

int main(void)
{
	static int8_t row[ROW_BYTES];
	const struct vmcu_probe_port port = {.read = uart_read, .write = uart_write};
	struct vmcu_probe probe = {
		.port = &port,
		.layers = layers,
		.layer_count = LAYERS_OF(IMAGE_NAME),
		.input = (ELSEWHERE_BYTES > 0U) ? elsewhere + 1 : row,
	};

	if (bind_model() != EXIT_DONE) {
		return EXIT_INIT;
	}
	uart_start();
	return (vmcu_probe_serve(&context, &probe) == 0) ? EXIT_DONE : EXIT_INVOKE;
}
