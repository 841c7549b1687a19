# SPDX-License-Identifier: Apache-2.0

# vmcu_add_model() and vmcu_add_audio() for Zephyr applications, which need no include() since the
# module does it, and for any other CMake project:
#
#   find_package(vmcu REQUIRED PATHS <what `vmcu --root` prints>/cmake)
#   add_executable(firmware main.c)
#   vmcu_add_model(firmware NAME kws MODEL models/kws.tflite RAM 64K)

include_guard(GLOBAL)

# What functions need later is cached: they run in the scope of their caller.
get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(VMCU_ROOT "${root}" CACHE INTERNAL "The vmcu source tree")
# A wheel carries this tree within the compiler, a checkout the compiler within the tree.
set(python "${VMCU_ROOT}/python")
if(NOT EXISTS "${python}")
  get_filename_component(python "${VMCU_ROOT}/../.." ABSOLUTE)
endif()
set(VMCU_PYTHONPATH "${python}" CACHE INTERNAL "The folder of vmcu_tools")

include("${VMCU_ROOT}/cmake/sources.cmake")

# Float products that decide a rounding must not be fused with a sum: every core gives the bytes
# that the compiler's own evaluation gives.
set(VMCU_COMPILE_OPTIONS -ffp-contract=off CACHE INTERNAL "What the runtime is compiled with")

# The compiler. A model is rebuilt when it changes.
file(GLOB_RECURSE sources CONFIGURE_DEPENDS
  "${VMCU_PYTHONPATH}/vmcu_tools/*.py"
  "${VMCU_PYTHONPATH}/vmcu_tools/*.j2"
)
set(VMCU_COMPILER_SOURCES "${sources}" CACHE INTERNAL "The model compiler")

# Finds the interpreter and the packages that the compiler imports, once for each build folder.
function(vmcu_find_python)
  if(VMCU_PYTHON)
    return()
  endif()
  set(python "${PYTHON_EXECUTABLE}")
  if(NOT python)
    find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
    set(python "${Python3_EXECUTABLE}")
  endif()
  execute_process(
    COMMAND "${python}" "${VMCU_ROOT}/scripts/missing_packages.py"
    OUTPUT_VARIABLE missing
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result
  )
  if(result OR missing)
    message(FATAL_ERROR
      "vmcu: ${python} lacks ${missing}\n"
      "Install what the model compiler needs:\n"
      "  ${python} -m pip install -r ${VMCU_ROOT}/scripts/requirements.txt\n"
    )
  endif()
  set(VMCU_PYTHON "${python}" CACHE INTERNAL "The interpreter of the model compiler")
endfunction()

# Of the audio front end; what it changes is in doc/audio.md. Zephyr: CONFIG_VMCU_AUDIO_CMSIS_DSP.
if(NOT ZEPHYR_BASE)
  option(VMCU_AUDIO_CMSIS_DSP "Take CMSIS-DSP's Fourier transform for the audio front end" OFF)
endif()

# Outside Zephyr: the runtime as a static library, made on first use.
function(vmcu_add_runtime)
  if(TARGET vmcu)
    return()
  endif()
  add_library(vmcu STATIC EXCLUDE_FROM_ALL
    ${VMCU_SOURCES} ${VMCU_AUDIO_SOURCES} ${VMCU_LINK_SOURCES})
  set_target_properties(vmcu PROPERTIES C_STANDARD 99)
  # The C compiler with its flags, which say which core it is: projects may have set none for ASM.
  set(assembly ${VMCU_SOURCES})
  list(FILTER assembly INCLUDE REGEX "[.]S$")
  set_source_files_properties(${assembly} PROPERTIES
    LANGUAGE C
    COMPILE_OPTIONS "-x;assembler-with-cpp"
  )
  target_include_directories(vmcu PUBLIC "${VMCU_ROOT}/lib/vmcu/include")
  if(VMCU_AUDIO_CMSIS_DSP)
    if(NOT TARGET CMSISDSP)
      message(FATAL_ERROR
        "vmcu: VMCU_AUDIO_CMSIS_DSP needs CMSIS-DSP's target CMSISDSP: add_subdirectory() its "
        "Source folder in front of vmcu_add_audio()"
      )
    endif()
    target_compile_definitions(vmcu PUBLIC VMCU_AUDIO_CMSIS_DSP)
    target_link_libraries(vmcu PUBLIC CMSISDSP)
  endif()
  target_compile_options(vmcu PRIVATE
    ${VMCU_COMPILE_OPTIONS} -ffunction-sections -fdata-sections
  )
endfunction()

# Defines a macro that a model needs, for the runtime and whatever links it.
function(vmcu_require_macro caller macro)
  get_target_property(imported vmcu IMPORTED)
  if(NOT imported)
    target_compile_definitions(vmcu PUBLIC ${macro})
    return()
  endif()
  get_target_property(macros vmcu INTERFACE_COMPILE_DEFINITIONS)
  if(NOT macro IN_LIST macros)
    message(FATAL_ERROR
      "${caller}: compile the imported target vmcu with -D${macro}, then write "
      "target_compile_definitions(vmcu INTERFACE ${macro})"
    )
  endif()
endfunction()

# True if a model that is compiled with these options keeps state between calls. A file can have
# state without any option. False for files that the compiler refuses: the build prints why.
function(vmcu_keeps_state result model)
  if("${ARGN}" MATCHES "--hop")
    set(${result} TRUE PARENT_SCOPE)
    return()
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${model}")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${VMCU_PYTHONPATH}"
      "${VMCU_PYTHON}" "${VMCU_ROOT}/scripts/keeps_state.py" "${model}" ${ARGN}
    OUTPUT_VARIABLE keeps_state
    OUTPUT_STRIP_TRAILING_WHITESPACE
  )
  set(${result} "${keeps_state}" PARENT_SCOPE)
endfunction()

# Has a command of vmcu_tools write <name>.c and <name>.h, and adds both to a target.
function(vmcu_generate target name inputs comment)
  if(TARGET vmcu_generate_${name})
    message(FATAL_ERROR
      "vmcu: two models or front ends are called '${name}': give one of them another NAME"
    )
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/vmcu/${name}")
  set(outputs "${folder}/${name}.c" "${folder}/${name}.h")
  set(weights "")
  if("--external-weights" IN_LIST ARGN)
    set(weights "${folder}/${name}.weights.bin")
  endif()
  file(MAKE_DIRECTORY "${folder}")
  # The command replaces both files once they are complete, so that a build stopped halfway leaves
  # nothing that looks finished.
  add_custom_command(
    OUTPUT ${outputs}
    BYPRODUCTS ${weights}
    COMMAND ${CMAKE_COMMAND} -E env "PYTHONPATH=${VMCU_PYTHONPATH}"
      "${VMCU_PYTHON}" -m vmcu_tools ${ARGN} -o "${folder}"
    DEPENDS ${inputs} ${VMCU_COMPILER_SOURCES}
    COMMENT "${comment}"
    VERBATIM
  )
  # The header must exist before any source of the target is compiled, also where the target was
  # made by another CMakeLists.txt, as Zephyr's `app` is.
  add_custom_target(vmcu_generate_${name} DEPENDS ${outputs})
  add_dependencies(${target} vmcu_generate_${name})

  target_sources(${target} PRIVATE ${outputs})
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

# The --target of the core that Zephyr builds for, if weights have an order of their own there, else
# nothing.
function(vmcu_core_target result)
  set(core "")
  # Compilers use MVE only together with the registers of the FPU.
  if(CONFIG_ARMV8_1_M_MVEI AND CONFIG_FPU)
    set(core helium)
  elseif(CONFIG_RISCV AND CONFIG_RISCV_ISA_EXT_M AND NOT CONFIG_64BIT)
    set(core rv32)
  elseif(CONFIG_ARMV6_M_ARMV8_M_BASELINE)
    set(core v6m)
  endif()
  set(${result} "${core}" PARENT_SCOPE)
endfunction()

# Compiles a model into a target at build time.
#
#   vmcu_add_model(<target> NAME <name> MODEL <file>
#                  [RAM <bytes>] [MEMORY <name>=<bytes>,...]
#                  [STREAM_INPUT | INPUT_ELSEWHERE | HOP <rows> [TIME <axis>] | STATE <in>:<out>...]
#                  [ROTATE] [EXTERNAL_WEIGHTS <rate>,...] [WORKERS 2] [ARGS <argument>...])
#   vmcu_add_model(<target> NAME <name> MODEL <file> TRAIN_CLASSES <count> [RAM <bytes>]
#                  [ARGS <argument>...])
#
# NAME         C identifier: <name>.h declares <name>_model, see vmcu/vmcu.h.
# MODEL        .onnx or .tflite file, relative to the current source folder.
# RAM          The fastest plan in so many bytes, such as 64K; the build fails if there is none.
# MEMORY       Pools in several memories, the fast ones first, such as dtcm=64K,sram=320K; Zephyr:
#              CONFIG_VMCU_SEVERAL_POOLS=y.
# STREAM_INPUT The input comes row by row, by vmcu_push_row(), and never exists whole.
# INPUT_ELSEWHERE
#              The input is read where vmcu_set_input() says, and no part of the pool.
# HOP          The window moves by so many rows from one answer to the next, and what both need is
#              kept.
# TIME         The axis of the input that is time to HOP: h, or w, of which a column is pushed.
# STATE        Inputs of the file, each with the output whose value of the call before it is given.
# ROTATE       The pool's origin advances after each inference; Zephyr: CONFIG_VMCU_POOL_ROTATE=y.
# EXTERNAL_WEIGHTS
#              The weights are in <build folder>/vmcu/<name>/<name>.weights.bin, which a struct
#              vmcu_reader reads, such as 8MB/s,latency=100us,ram=20K; Zephyr:
#              CONFIG_VMCU_EXTERNAL_WEIGHTS=y.
# WORKERS      Two cores share an inference, by <name>_team, see vmcu/workers.h.
# TRAIN_CLASSES
#              Compiles with `vmcu train-head` instead of `vmcu build`: the last dense layer of so
#              many classes is trained on the device; <name>_weights.h has its first weights.
# ARGS         Handed to the command as they are. Zephyr: with the --target of vmcu_core_target(),
#              unless there is a --target or a --format.
#
# Models that keep state between calls, by HOP, STATE or of their own: Zephyr:
# CONFIG_VMCU_STREAMS=y; elsewhere this defines VMCU_STREAMS.
function(vmcu_add_model target)
  set(flags STREAM_INPUT INPUT_ELSEWHERE ROTATE)
  set(values NAME MODEL RAM MEMORY HOP TIME TRAIN_CLASSES EXTERNAL_WEIGHTS WORKERS)
  cmake_parse_arguments(arg "${flags}" "${values}" "STATE;ARGS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vmcu_add_model: what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT arg_NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "vmcu_add_model: NAME must be a C identifier, not '${arg_NAME}'")
  endif()
  if(NOT arg_MODEL)
    message(FATAL_ERROR "vmcu_add_model(${target} NAME ${arg_NAME}): MODEL is missing")
  endif()
  get_filename_component(model "${arg_MODEL}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT EXISTS "${model}")
    message(FATAL_ERROR "vmcu_add_model(${target} NAME ${arg_NAME}): there is no ${model}")
  endif()
  if(ZEPHYR_BASE AND NOT CONFIG_VMCU)
    message(FATAL_ERROR "vmcu_add_model(${target} NAME ${arg_NAME}): set CONFIG_VMCU=y in prj.conf")
  endif()
  vmcu_find_python()

  set(command build)
  set(options ${arg_ARGS})
  set(inputs "${model}")
  if(arg_TRAIN_CLASSES)
    set(command train-head)
    list(APPEND options --classes "${arg_TRAIN_CLASSES}")
  endif()
  if(arg_RAM)
    list(APPEND options --ram "${arg_RAM}")
  endif()
  if(arg_MEMORY)
    list(APPEND options --memory "${arg_MEMORY}")
    if(ZEPHYR_BASE AND arg_MEMORY MATCHES "," AND NOT CONFIG_VMCU_SEVERAL_POOLS)
      message(FATAL_ERROR
        "vmcu_add_model(${target} NAME ${arg_NAME} MEMORY): set CONFIG_VMCU_SEVERAL_POOLS=y in prj.conf"
      )
    endif()
  endif()

  if(arg_STREAM_INPUT)
    list(APPEND options --stream-input)
  endif()

  if(arg_INPUT_ELSEWHERE)
    list(APPEND options --external-input)
  endif()

  if(arg_HOP)
    list(APPEND options --hop "${arg_HOP}")
  endif()
  if(arg_TIME)
    list(APPEND options --time "${arg_TIME}")
  endif()
  foreach(pair IN LISTS arg_STATE)
    list(APPEND options --state "${pair}")
  endforeach()
  set(streams "${CONFIG_VMCU_STREAMS}")
  if(NOT streams AND command STREQUAL "build")
    vmcu_keeps_state(streams "${model}" ${options})
    if(streams AND ZEPHYR_BASE)
      message(FATAL_ERROR
        "vmcu_add_model(${target} NAME ${arg_NAME}): ${arg_MODEL} keeps state between calls: "
        "set CONFIG_VMCU_STREAMS=y in prj.conf"
      )
    endif()
  endif()

  if(arg_ROTATE)
    list(APPEND options --rotate)
    if(ZEPHYR_BASE AND NOT CONFIG_VMCU_POOL_ROTATE)
      message(FATAL_ERROR
        "vmcu_add_model(${target} NAME ${arg_NAME} ROTATE): set CONFIG_VMCU_POOL_ROTATE=y in prj.conf"
      )
    endif()
  endif()

  if(arg_EXTERNAL_WEIGHTS)
    list(APPEND options --external-weights "${arg_EXTERNAL_WEIGHTS}")
    if(ZEPHYR_BASE AND NOT CONFIG_VMCU_EXTERNAL_WEIGHTS)
      message(FATAL_ERROR
        "vmcu_add_model(${target} NAME ${arg_NAME} EXTERNAL_WEIGHTS): set CONFIG_VMCU_EXTERNAL_WEIGHTS=y in prj.conf"
      )
    endif()
  endif()

  if(arg_WORKERS)
    list(APPEND options --workers "${arg_WORKERS}")
  endif()

  if(NOT "${options}" MATCHES "--target|--format")
    vmcu_core_target(core)
    if(core)
      list(APPEND options --target ${core})
    endif()
  endif()

  # Milliseconds, if the compiler knows the board.
  if(BOARD AND command STREQUAL "build" AND NOT "${options}" MATCHES "--board")
    # Qualifiers begin with a slash up to Zephyr 4.3.
    string(REGEX REPLACE "^/?(.+)$" "/\\1" qualifiers "${BOARD_QUALIFIERS}")
    set(board "${BOARD}${qualifiers}")
    file(STRINGS "${VMCU_PYTHONPATH}/vmcu_tools/boards/boards.csv" known REGEX "^${board},")
    if(known)
      list(APPEND options --board "${board}")
    endif()
  endif()

  vmcu_generate(${target} ${arg_NAME} "${inputs}" "vmcu: compiling ${arg_MODEL}"
    ${command} "${model}" --name "${arg_NAME}" ${options}
    --report "${CMAKE_CURRENT_BINARY_DIR}/vmcu/${arg_NAME}/report.txt"
  )
  if(NOT ZEPHYR_BASE)
    vmcu_add_runtime()
    set(caller "vmcu_add_model(${target} NAME ${arg_NAME})")
    if(arg_ROTATE)
      vmcu_require_macro("${caller}" VMCU_POOL_ROTATE)
    endif()
    if(streams)
      vmcu_require_macro("${caller}" VMCU_STREAMS)
    endif()
    if(arg_MEMORY MATCHES ",")
      vmcu_require_macro("${caller}" VMCU_SEVERAL_POOLS)
    endif()
    if(arg_EXTERNAL_WEIGHTS)
      vmcu_require_macro("${caller}" VMCU_EXTERNAL_WEIGHTS)
    endif()
    target_link_libraries(${target} PRIVATE vmcu)
  endif()
endfunction()

# Computes the tables of an audio front end into a target at build time.
#
#   vmcu_add_audio(<target> NAME <name> [ARGS <argument>...])
#
# NAME C identifier: <name>.h declares it, see vmcu/audio.h. Zephyr: CONFIG_VMCU_AUDIO=y.
# ARGS Handed to `vmcu audio` as they are, such as --set channels=32.
function(vmcu_add_audio target)
  cmake_parse_arguments(arg "" "NAME" "ARGS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vmcu_add_audio: what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT arg_NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
    message(FATAL_ERROR "vmcu_add_audio: NAME must be a C identifier, not '${arg_NAME}'")
  endif()
  if(ZEPHYR_BASE AND NOT CONFIG_VMCU_AUDIO)
    message(FATAL_ERROR "vmcu_add_audio(${target} NAME ${arg_NAME}): set CONFIG_VMCU_AUDIO=y in prj.conf")
  endif()
  vmcu_find_python()
  vmcu_generate(${target} ${arg_NAME} "" "vmcu: tables of ${arg_NAME}"
    audio --name "${arg_NAME}" ${arg_ARGS} --quiet
  )
  if(NOT ZEPHYR_BASE)
    vmcu_add_runtime()
    target_link_libraries(${target} PRIVATE vmcu)
  endif()
endfunction()
