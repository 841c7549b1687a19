/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifndef QEMU_MPS2_PINCTRL_SOC_H_
#define QEMU_MPS2_PINCTRL_SOC_H_

#include <stdint.h>

/* The UART's driver asks for it from Zephyr 4.1 on; an emulated board has no pins. */
typedef uint8_t pinctrl_soc_pin_t;

#endif /* QEMU_MPS2_PINCTRL_SOC_H_ */
