# SPDX-License-Identifier: Apache-2.0

set(SUPPORTED_EMU_PLATFORMS qemu)

if(CONFIG_BOARD_QEMU_MPS2_M4)
  set(QEMU_CPU_TYPE_${ARCH} cortex-m4)
  set(machine mps2-an386)
else()
  set(QEMU_CPU_TYPE_${ARCH} cortex-m7)
  set(machine mps2-an500)
endif()

set(QEMU_FLAGS_${ARCH} -cpu ${QEMU_CPU_TYPE_${ARCH}} -machine ${machine} -nographic -vga none)

board_set_debugger_ifnset(qemu)
