/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A probe's port on a UART of Zephyr: CONFIG_VMCU_PROBE.
 */

#ifndef VMCU_PROBE_UART_H_
#define VMCU_PROBE_UART_H_

#include <zephyr/device.h>

#include <vmcu/probe.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief Initialises a port that polls a UART and counts cycles with Zephyr's timing API.
 *
 * @param port Port to write.
 * @param uart UART that no other code reads, such as
 *             DEVICE_DT_GET(DT_CHOSEN(zephyr_console)). A console can print to it between runs.
 *
 * @ingroup vmcu_probe
 */
void vmcu_probe_port_init(struct vmcu_probe_port *port, const struct device *uart);

#ifdef __cplusplus
}
#endif

#endif /* VMCU_PROBE_UART_H_ */
