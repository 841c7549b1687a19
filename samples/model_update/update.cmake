# SPDX-License-Identifier: Apache-2.0

# vmcu_add_update(<target> NAME <name> MODEL <file> [KEY <pem>] [ARGS <argument>...])
#
# Makes an update of a model, as a device gets it, and <name>.update.inc of its bytes. KEY signs
# it; ARGS are those of `vmcu build`. With --external-weights, the bytes of the weights file are
# <name>.weights.inc.
function(vmcu_add_update target)
  cmake_parse_arguments(arg "" "NAME;MODEL;KEY" "ARGS" ${ARGN})
  vmcu_find_python()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/updates)
  file(MAKE_DIRECTORY ${folder})
  set(container ${folder}/${arg_NAME}.vmcu)
  set(update ${folder}/${arg_NAME}.update)
  set(vmcu ${CMAKE_COMMAND} -E env PYTHONPATH=${VMCU_PYTHONPATH} ${VMCU_PYTHON} -m vmcu_tools)
  set(weights)
  if("--external-weights" IN_LIST arg_ARGS)
    set(weights ${folder}/${arg_NAME}.weights.bin)
  endif()
  set(sign)
  if(arg_KEY)
    set(sign COMMAND ${vmcu} container sign ${container} --key ${arg_KEY})
  endif()
  add_custom_command(
    OUTPUT ${update} ${weights}
    COMMAND ${vmcu} build ${arg_MODEL} --name ${arg_NAME} --format container -o ${folder} ${arg_ARGS}
      --report ${folder}/${arg_NAME}.txt
    ${sign}
    COMMAND ${vmcu} container update ${container} --model ${arg_MODEL} -o ${update}
    DEPENDS ${arg_MODEL} ${arg_KEY} ${VMCU_COMPILER_SOURCES}
    COMMENT "vmcu: an update of ${arg_NAME}"
    VERBATIM
  )
  generate_inc_file_for_target(
    ${target} ${update} ${ZEPHYR_BINARY_DIR}/include/generated/${arg_NAME}.update.inc
  )
  if(weights)
    generate_inc_file_for_target(
      ${target} ${weights} ${ZEPHYR_BINARY_DIR}/include/generated/${arg_NAME}.weights.inc
    )
  endif()
endfunction()
