/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The first UART of an emulated board, by polling. IMAGE_UART is its address.
 *
 * Registers: "Arm Cortex-M System Design Kit Technical Reference Manual", "PrimeCell UART (PL011)
 * Technical Reference Manual", and the 16550 of QEMU's board `virt`.
 */

#ifndef UART_H_
#define UART_H_

#include <stdint.h>

#if defined(__riscv)
#define DATA         (*(volatile uint8_t *)(IMAGE_UART))
#define STATUS       (*(volatile uint8_t *)(IMAGE_UART + 5U))
#define can_read()   ((STATUS & 1U) != 0U)
#define can_write()  ((STATUS & 0x20U) != 0U)
#define uart_start() ((void)0)
#elif defined(__aarch64__)
#define DATA         (*(volatile uint32_t *)(IMAGE_UART))
#define STATUS       (*(volatile uint32_t *)(IMAGE_UART + 0x18U))
#define can_read()   ((STATUS & 0x10U) == 0U)
#define can_write()  ((STATUS & 0x20U) == 0U)
#define uart_start() (*(volatile uint32_t *)(IMAGE_UART + 0x30U) = 0x301U)
#else
#define DATA        (*(volatile uint32_t *)(IMAGE_UART))
#define STATUS      (*(volatile uint32_t *)(IMAGE_UART + 4U))
#define can_read()  ((STATUS & 2U) != 0U)
#define can_write() ((STATUS & 1U) == 0U)
#define uart_start()                                                                               \
	(*(volatile uint32_t *)(IMAGE_UART + 16U) = 16U,                                           \
	 *(volatile uint32_t *)(IMAGE_UART + 8U) = 3U)
#endif

static int uart_read(void *user)
{
	(void)user;
	while (!can_read()) {
	}
	return (int)(DATA & 0xffU);
}

static void uart_write(void *user, char byte)
{
	(void)user;
	while (!can_write()) {
	}
	DATA = (uint8_t)byte;
}

#endif /* UART_H_ */
