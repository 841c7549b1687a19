# SPDX-License-Identifier: Apache-2.0

# The C and assembly files of the runtime, by folder; a test compares them with the folders.

# The runtime. The linker drops kernels that no model refers to.
set(runtime
  convert.c
  executor.c
  guard.c
  probe.c
  stage.c
  stream.c
  weights.c
  workers.c
  kernels/fetch.c
  kernels/float_sum.c
  kernels/pooling_sum.c
  kernels/recomputed.c
  kernels/softmax.c
  kernels/support.c
  kernels/svdf.c
  kernels/gen/add.c
  kernels/gen/add_helium.c
  kernels/gen/blocks_dsp.S
  kernels/gen/blocks_dsp_dual.S
  kernels/gen/blocks_dsp_int4.S
  kernels/gen/blocks_dsp_int4_dual.S
  kernels/gen/blocks_helium.S
  kernels/gen/blocks_helium_int4.S
  kernels/gen/blocks_rv32.S
  kernels/gen/blocks_rv32_int4.S
  kernels/gen/blocks_v6m.S
  kernels/gen/blocks_v6m_int4.S
  kernels/gen/blocks_v7m.S
  kernels/gen/blocks_v7m_int4.S
  kernels/gen/conv.c
  kernels/gen/conv_helium.c
  kernels/gen/conv_helium_int4.c
  kernels/gen/conv_int4.c
  kernels/gen/conv_pairs.c
  kernels/gen/conv_pairs_int4.c
  kernels/gen/dense.c
  kernels/gen/dense_dsp.S
  kernels/gen/dense_dsp_dual.S
  kernels/gen/dense_dsp_int4.S
  kernels/gen/dense_dsp_int4_dual.S
  kernels/gen/dense_helium.c
  kernels/gen/dense_helium_int4.c
  kernels/gen/dense_int4.c
  kernels/gen/dense_pairs.c
  kernels/gen/dense_pairs_int4.c
  kernels/gen/dense_rv32.S
  kernels/gen/depthwise.c
  kernels/gen/depthwise_helium.c
  kernels/gen/depthwise_pairs.c
  kernels/gen/grouped_dsp_int4.S
  kernels/gen/grouped_dsp_int4_dual.S
  kernels/gen/grouped_helium_int4.c
  kernels/gen/grouped_int4.c
  kernels/gen/pixels_helium.S
  kernels/gen/places_dsp.S
  kernels/gen/places_dsp_dual.S
  kernels/gen/pooling.c
  kernels/gen/pooling_helium.c
  kernels/gen/products.c
  kernels/gen/strips_dsp.S
  kernels/gen/strips_dsp_dual.S
  kernels/gen/strips_rv32.S
  kernels/gen/strips_v6m.S
  kernels/gen/sums_helium.S
  kernels/gen/tile_dsp.S
  kernels/gen/tile_dsp_dual.S
  kernels/gen/windows_helium.S
)

# Kernels with a file of their own are listed by the header that the ops generate.
set(operators "${VMCU_ROOT}/lib/vmcu/include/vmcu/operators.h")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${operators}")
file(READ "${operators}" text)
string(REGEX MATCHALL "entry\\(vmcu_[a-z0-9_]+\\)" entries "${text}")
foreach(entry ${entries})
  string(REGEX REPLACE "entry\\(vmcu_(.*)\\)" "kernels/\\1.c" file "${entry}")
  if(EXISTS "${VMCU_ROOT}/lib/vmcu/${file}")
    list(APPEND runtime ${file})
  endif()
endforeach()

# What loads models from containers. container/all.c, a list of all kernels, is an option.
set(containers
  container/arena.c
  container/check.c
  container/counts.c
  container/endless.c
  container/external.c
  container/file.c
  container/gap.c
  container/greedy.c
  container/hops.c
  container/link.c
  container/load.c
  container/macs.c
  container/marks.c
  container/online.c
  container/pixels.c
  container/reads.c
  container/replay.c
  container/segments.c
  container/sha256.c
  container/strips.c
  container/tables.c
  container/walk.c
  container/windows.c
  container/gen/kernels.c
)

# The audio front end.
set(audio
  audio/audio.c
  audio/channels.c
  audio/transform.c
)

# Messages between microcontrollers.
set(link
  link/link.c
  link/node.c
)

# Functions need them later, in the scope of their callers.
foreach(list runtime containers audio link)
  list(TRANSFORM ${list} PREPEND "${VMCU_ROOT}/lib/vmcu/")
endforeach()
set(VMCU_SOURCES ${runtime} CACHE INTERNAL "The runtime")
set(VMCU_CONTAINER_SOURCES ${containers} CACHE INTERNAL "The loader of containers")
set(VMCU_AUDIO_SOURCES ${audio} CACHE INTERNAL "The audio front end")
set(VMCU_LINK_SOURCES ${link} CACHE INTERNAL "Messages between microcontrollers")
