/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From reset to main() on cores without an operating system: Cortex-M, RISC-V, AArch64.
 */

#include <stdint.h>

#include "semihosting.h"

#define CPACR             (*(volatile uint32_t *)0xe000ed88U)
#define CPACR_FPU_ENABLED (0xfU << 20)

#define CCR             (*(volatile uint32_t *)0xe000ed14U)
#define CCR_UNALIGN_TRP (1U << 3)

#define EXIT_FAULT 125

/* From linker.ld. */
extern const uint32_t vmcu_data_load[];
extern uint32_t vmcu_data_start[];
extern uint32_t vmcu_data_end[];
extern uint32_t vmcu_bss_start[];
extern uint32_t vmcu_bss_end[];
extern uint32_t vmcu_stack_top[];

int main(void);

void vmcu_fault(void);
void vmcu_reset_handler(void) __attribute__((noreturn));

/* Where RISC-V goes is a multiple of four. */
__attribute__((aligned(4))) void vmcu_fault(void)
{
	vmcu_semihosting_print("fault\n");
	vmcu_semihosting_exit(EXIT_FAULT);
}

void vmcu_reset_handler(void)
{
	const uint32_t *from = vmcu_data_load;

#if defined(__ARM_FP) && !defined(__aarch64__)
	CPACR |= CPACR_FPU_ENABLED;
	__asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
#if defined(__ARM_ARCH_6M__)
	/* Cores of ARMv6-M always fault at unaligned addresses; so shall others that run their
	 * code. */
	CCR |= CCR_UNALIGN_TRP;
#endif
	for (uint32_t *to = vmcu_data_start; to < vmcu_data_end; to++) {
		*to = *from++;
	}
	for (uint32_t *to = vmcu_bss_start; to < vmcu_bss_end; to++) {
		*to = 0;
	}
	vmcu_semihosting_exit(main());
}

#if defined(__riscv)
/** The first code in memory, where the emulated board starts. */
__attribute__((section(".vectors"), naked, used)) static void begin(void)
{
	__asm__ volatile(".option push\n\t.option arch, +zicsr\n\t"
			 "la sp, vmcu_stack_top\n\t"
			 "la t0, %0\n\t"
			 "csrw mtvec, t0\n\t"
			 "j vmcu_reset_handler\n\t"
			 ".option pop"
			 :
			 : "i"(vmcu_fault));
}
#elif defined(__aarch64__)
/*
 * The first code in memory, which allows floating point; then sixteen exceptions, 128 bytes each.
 */
__asm__(".section .vectors, \"ax\"\n\t"
	".global vmcu_begin\n"
	"vmcu_begin:\n\t"
	"mov x0, #(3 << 20)\n\t"
	"msr cpacr_el1, x0\n\t"
	"adr x0, 1f\n\t"
	"msr vbar_el1, x0\n\t"
	"isb\n\t"
	"ldr x0, =vmcu_stack_top\n\t"
	"mov sp, x0\n\t"
	"b vmcu_reset_handler\n\t"
	".ltorg\n\t"
	".p2align 11\n"
	"1:\n\t"
	".rept 16\n\t"
	"b vmcu_fault\n\t"
	".p2align 7\n\t"
	".endr");
#else
/** Stack pointer, reset, then NMI and the four faults; nothing else is ever enabled. */
__attribute__((section(".vectors"), used)) static const uintptr_t vectors[] = {
	(uintptr_t)vmcu_stack_top, (uintptr_t)vmcu_reset_handler, (uintptr_t)vmcu_fault,
	(uintptr_t)vmcu_fault,     (uintptr_t)vmcu_fault,         (uintptr_t)vmcu_fault,
	(uintptr_t)vmcu_fault,
};
#endif
