# SPDX-License-Identifier: Apache-2.0

# Stops a build whose stacks are too small for what runs on them: an overflow overwrites memory, and
# a board without stack protection then fails without a message.

set(problems "")

# vmcu_check_stack(<symbol> <bytes on top of a thread's> <who> [<another remedy>])
macro(vmcu_check_stack symbol more who)
  math(EXPR least "${CONFIG_VMCU_THREAD_STACK_SIZE} + ${more}")
  if(${symbol} LESS least)
    string(APPEND problems
      "vmcu: ${symbol}=${${symbol}} is too small for the inferences of ${who}: "
      "set ${symbol}=${least} or more in prj.conf${ARGN}\n"
    )
  endif()
endmacro()

if(CONFIG_VMCU_MAIN)
  vmcu_check_stack(CONFIG_MAIN_STACK_SIZE 0 "main()"
    ", or CONFIG_VMCU_MAIN=n if only other threads run inferences"
  )
endif()
if(CONFIG_VMCU_ASYNC)
  vmcu_check_stack(CONFIG_SYSTEM_WORKQUEUE_STACK_SIZE 0 "vmcu_invoke_async()")
endif()
if(CONFIG_VMCU_SHELL)
  vmcu_check_stack(CONFIG_SHELL_STACK_SIZE 1024 "the shell")
endif()
if(problems)
  message(FATAL_ERROR "${problems}")
endif()
