/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A link on a UART, whose interrupt stores the received bytes.
 */

#ifndef SPLIT_UART_H_
#define SPLIT_UART_H_

#include <zephyr/device.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/ring_buffer.h>

#include <vmcu/link.h>

/** A UART with a buffer of received bytes. */
struct uart_link {
	struct vmcu_link_port port; /**< for struct vmcu_link */
	const struct device *uart;
	struct ring_buf received;
	struct k_sem bytes; /**< given when bytes have come */
};

/**
 * @brief Initialises a port on a UART whose interrupt API works.
 *
 * The interrupt drops bytes that do not fit into the buffer; the other node sends them again.
 *
 * @param link   Port to set up; it must exist as long as the UART is used.
 * @param uart   UART that no other code uses.
 * @param buffer Memory for received bytes, such as 64 for a UART at 115200 baud.
 * @param size   Bytes at @a buffer.
 *
 * @return 0, or the error of uart_irq_callback_user_data_set().
 */
int uart_link_init(struct uart_link *link, const struct device *uart, uint8_t *buffer, size_t size);

#endif /* SPLIT_UART_H_ */
