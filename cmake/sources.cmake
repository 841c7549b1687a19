# SPDX-License-Identifier: Apache-2.0

# The C and assembly files of the runtime, by folder; a test compares them with the folders.

# The runtime. The linker drops kernels that no model refers to.
set(runtime
  convert.c
  executor.c
  guard.c
  stage.c
  stream.c
  kernels/arg_max.c
  kernels/binary.c
  kernels/concat.c
  kernels/fetch.c
  kernels/float_sum.c
  kernels/hardmax.c
  kernels/l2_norm.c
  kernels/layer_norm.c
  kernels/log_softmax_onnx.c
  kernels/log_softmax_tflite.c
  kernels/look_back.c
  kernels/lookup.c
  kernels/move.c
  kernels/pad.c
  kernels/pooling_sum.c
  kernels/recall.c
  kernels/recomputed.c
  kernels/requantize.c
  kernels/reshape.c
  kernels/resize.c
  kernels/softmax.c
  kernels/support.c
  kernels/table_mean.c
  kernels/transpose_conv.c
  kernels/gen/add.c
  kernels/gen/blocks_dsp.S
  kernels/gen/blocks_v7m.S
  kernels/gen/conv.c
  kernels/gen/dense.c
  kernels/gen/dense_dsp.S
  kernels/gen/depthwise.c
  kernels/gen/places_dsp.S
  kernels/gen/pooling.c
  kernels/gen/products.c
  kernels/gen/strips_dsp.S
  kernels/gen/tile_dsp.S
)

# What loads models from containers. container/all.c, a list of all kernels, is an option.
set(containers
  container/arena.c
  container/check.c
  container/endless.c
  container/greedy.c
  container/link.c
  container/load.c
  container/macs.c
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
)

# The audio front end.
set(audio
  audio/audio.c
  audio/channels.c
  audio/transform.c
)

# Functions need them later, in the scope of their callers.
foreach(list runtime containers audio)
  list(TRANSFORM ${list} PREPEND "${VMCU_ROOT}/lib/vmcu/")
endforeach()
set(VMCU_SOURCES ${runtime} CACHE INTERNAL "The runtime")
set(VMCU_CONTAINER_SOURCES ${containers} CACHE INTERNAL "The loader of containers")
set(VMCU_AUDIO_SOURCES ${audio} CACHE INTERNAL "The audio front end")
