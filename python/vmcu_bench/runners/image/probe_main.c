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

/** As main() of main.c, whose code stays as it is: where kernels are placed changes their cycles.
 */
static enum exit_code bind_model(void)
{
	fill_pools();
	if (bind_context(&context) != 0) {
		io_print("vmcu_init failed\n");
		return EXIT_INIT;
	}
	if (context.model->elsewhere && vmcu_set_input(&context, elsewhere + 1) != 0) {
		io_print("vmcu_set_input failed\n");
		return EXIT_INIT;
	}
#if defined(VMCU_EXTERNAL_WEIGHTS)
	if (vmcu_set_reader(&context, &reader) != 0) {
		io_print("vmcu_set_reader failed\n");
		return EXIT_INIT;
	}
#endif
	return EXIT_DONE;
}

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
