# SPDX-License-Identifier: Apache-2.0

# What the example needs of ESP-IDF, on a computer.

function(idf_component_register)
  cmake_parse_arguments(arg "" "" "SRCS;SRC_DIRS;INCLUDE_DIRS;REQUIRES" ${ARGN})
  foreach(folder ${arg_SRC_DIRS})
    if(NOT IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/${folder}")
      message(FATAL_ERROR "no folder ${folder}")
    endif()
    file(GLOB sources "${folder}/*.c" "${folder}/*.cpp" "${folder}/*.S")
    list(APPEND arg_SRCS ${sources})
  endforeach()
  get_filename_component(name "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
  add_library(${name} STATIC ${arg_SRCS})
  target_include_directories(${name} PUBLIC ${arg_INCLUDE_DIRS})
  target_link_libraries(${name} PUBLIC ${arg_REQUIRES})
  set(COMPONENT_LIB ${name} PARENT_SCOPE)
endfunction()

macro(project name)
  _project(${name} LANGUAGES C ASM)
  add_compile_definitions(ESP_PLATFORM)
  add_subdirectory(components/vmcu)
  add_subdirectory(main)
  file(WRITE "${CMAKE_BINARY_DIR}/start.c"
    "void app_main(void);\nint main(void)\n{\n\tapp_main();\n\treturn 0;\n}\n"
  )
  add_executable(${name}.elf "${CMAKE_BINARY_DIR}/start.c")
  target_link_libraries(${name}.elf PRIVATE main)
endmacro()
