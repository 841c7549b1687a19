# SPDX-License-Identifier: Apache-2.0

# The C files of the runtime, by folder; a test compares them with the folders.

# The runtime, besides kernels. The linker drops kernels that no model refers to.
set(runtime
  convert.c
  executor.c
  guard.c
  stage.c
  stream.c
)

# What loads models from containers. container/all.c, a list of all kernels, is an option.
set(containers
  container/arena.c
  container/check.c
  container/counts.c
  container/endless.c
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

# Functions need them later, in the scope of their callers.
foreach(list runtime containers audio)
  list(TRANSFORM ${list} PREPEND "${VMCU_ROOT}/lib/vmcu/")
endforeach()
# A file in their folder is all that kernels take.
file(GLOB kernels CONFIGURE_DEPENDS
  "${VMCU_ROOT}/lib/vmcu/kernels/*.c"
  "${VMCU_ROOT}/lib/vmcu/kernels/gen/*.c"
)
list(APPEND runtime ${kernels})
set(VMCU_SOURCES ${runtime} CACHE INTERNAL "The runtime")
set(VMCU_CONTAINER_SOURCES ${containers} CACHE INTERNAL "The loader of containers")
set(VMCU_AUDIO_SOURCES ${audio} CACHE INTERNAL "The audio front end")
