/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* From an ELF file loaded by QEMU to main() on a Cortex-A, with the sections of linker.ld. */

#include <stdint.h>

#include "semihosting.h"

extern const uint32_t vmcu_data_load[];
extern uint32_t vmcu_data_start[];
extern uint32_t vmcu_data_end[];
extern uint32_t vmcu_bss_start[];
extern uint32_t vmcu_bss_end[];

int main(void);

static __attribute__((used)) void start(void)
{
	const uint32_t *from = vmcu_data_load;

	for (uint32_t *to = vmcu_data_start; to < vmcu_data_end; to++) {
		*to = *from++;
	}
	for (uint32_t *to = vmcu_bss_start; to < vmcu_bss_end; to++) {
		*to = 0;
	}
	vmcu_semihosting_exit(main());
}

/* In the state that the core begins in. */
__asm__(".arm\n\t"
	".global vmcu_reset_handler\n\t"
	".type vmcu_reset_handler, %function\n"
	"vmcu_reset_handler:\n\t"
	"ldr sp, =vmcu_stack_top\n\t"
	"blx start\n\t"
	".ltorg");
