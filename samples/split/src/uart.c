/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <zephyr/drivers/uart.h>

#include "uart.h"

static void on_interrupt(const struct device *uart, void *user)
{
	struct uart_link *link = user;
	uint8_t byte;

	(void)uart_irq_update(uart);
	while (uart_irq_rx_ready(uart) > 0 && uart_fifo_read(uart, &byte, 1) == 1) {
		(void)ring_buf_put(&link->received, &byte, 1U);
	}
	k_sem_give(&link->bytes);
}

static int send_bytes(void *user, const void *data, size_t bytes)
{
	const struct uart_link *link = user;
	const uint8_t *from = data;

	for (size_t i = 0; i < bytes; i++) {
		uart_poll_out(link->uart, from[i]);
	}
	return 0;
}

static int receive_bytes(void *user, void *data, size_t bytes, uint32_t timeout_ms)
{
	struct uart_link *link = user;
	uint8_t *to = data;
	size_t got = 0;

	while (got < bytes) {
		const uint32_t more =
			ring_buf_get(&link->received, to + got, (uint32_t)(bytes - got));

		got += more;
		/* An interrupt between the two calls has given the semaphore. */
		if (more == 0U && k_sem_take(&link->bytes, K_MSEC(timeout_ms)) != 0) {
			break;
		}
	}
	return (int)got;
}

int uart_link_init(struct uart_link *link, const struct device *uart, uint8_t *buffer, size_t size)
{
	int err;

	link->port.send = send_bytes;
	link->port.receive = receive_bytes;
	link->port.user = link;
	link->uart = uart;
	ring_buf_init(&link->received, (uint32_t)size, buffer);
	k_sem_init(&link->bytes, 0, 1);
	err = uart_irq_callback_user_data_set(uart, on_interrupt, link);
	if (err == 0) {
		uart_irq_rx_enable(uart);
	}
	return err;
}
