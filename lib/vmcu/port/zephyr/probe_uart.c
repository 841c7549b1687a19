/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <zephyr/drivers/uart.h>
#include <zephyr/kernel.h>
#include <zephyr/timing/timing.h>

#include <vmcu/probe_uart.h>

static int read_byte(void *user)
{
	const struct device *uart = user;
	unsigned char byte;

	while (uart_poll_in(uart, &byte) != 0) {
		if (IS_ENABLED(CONFIG_ARCH_POSIX)) {
			/* Time stands still in a busy loop. */
			k_sleep(K_TICKS(1));
		}
	}
	return byte;
}

static void write_byte(void *user, char byte)
{
	const struct device *uart = user;

	uart_poll_out(uart, (unsigned char)byte);
}

static uint32_t read_cycles(void *user)
{
	timing_t start = 0;
	timing_t now = timing_counter_get();

	ARG_UNUSED(user);
	return (uint32_t)timing_cycles_get(&start, &now);
}

void vmcu_probe_port_init(struct vmcu_probe_port *port, const struct device *uart)
{
	timing_init();
	timing_start();
	*port = (struct vmcu_probe_port){
		.read = read_byte,
		.write = write_byte,
		.cycles = read_cycles,
		.hertz = (uint32_t)timing_freq_get(),
		.user = (void *)(uintptr_t)uart,
	};
}
