# SPDX-License-Identifier: Apache-2.0

# A sample without Zephyr, for this computer or for an emulated Arm MPS2 board. Include it in front
# of project(); plain_sample() is for the program behind it.

set(CPU "" CACHE STRING "cortex-m3, cortex-m4 or cortex-m7; empty for this computer")

set(FLAGS_cortex-m3)
set(FLAGS_cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16)
set(FLAGS_cortex-m7 -mfloat-abi=hard -mfpu=fpv5-sp-d16)
set(MACHINE_cortex-m3 mps2-an385)
set(MACHINE_cortex-m4 mps2-an386)
set(MACHINE_cortex-m7 mps2-an500)

if(CPU)
  if(NOT MACHINE_${CPU})
    message(FATAL_ERROR "CPU must be cortex-m3, cortex-m4 or cortex-m7, not '${CPU}'")
  endif()
  set(CMAKE_SYSTEM_NAME Generic)
  set(CMAKE_SYSTEM_PROCESSOR arm)
  set(CMAKE_C_COMPILER arm-none-eabi-gcc)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
endif()

add_compile_options(-O2 -g -Wall -Wextra -Werror)
if(CPU)
  add_compile_options(-mthumb -mcpu=${CPU} ${FLAGS_${CPU}})
endif()

set(PLAIN_SAMPLE "${CMAKE_CURRENT_LIST_DIR}")

# Makes a program one for CPU, and the target `run`, which runs it.
function(plain_sample program)
  set_target_properties(${program} PROPERTIES C_STANDARD 99)
  if(CPU)
    set(port ${VMCU_ROOT}/lib/vmcu/port/freestanding)
    target_sources(${program} PRIVATE
      ${PLAIN_SAMPLE}/newlib.c ${port}/startup.c ${port}/semihosting.c
    )
    target_include_directories(${program} PRIVATE ${port})
    target_link_options(${program} PRIVATE
      -mthumb -mcpu=${CPU} ${FLAGS_${CPU}} --specs=nano.specs -nostartfiles
      -T${port}/linker.ld -Wl,--gc-sections
    )
    set(emulator qemu-system-arm -M ${MACHINE_${CPU}} -nographic -monitor none -serial none
      -semihosting-config enable=on,target=native -kernel
    )
  endif()
  add_custom_target(run COMMAND ${emulator} $<TARGET_FILE:${program}> USES_TERMINAL VERBATIM)
endfunction()
