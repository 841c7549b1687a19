# SPDX-License-Identifier: Apache-2.0
"""The structs of lib/vmcu/include/vmcu/model.h that tables are made of, and the sizes of
structs."""

from __future__ import annotations

from ..ops.values import CStruct
from ..plan.pools import MOST_POOLS

TENSOR = CStruct("vmcu_tensor", "uint32_t base, ring, phase; uint16_t height, width, channels;")
LAYER = CStruct(
    "vmcu_layer",
    "vmcu_kernel_t kernel; const void *params; const uint16_t *inputs;"
    "uint8_t input_count, descending; uint16_t output; uint32_t scratch;"
    "uint16_t rows, width, columns; uint8_t splits;",
)
PART = CStruct("vmcu_part", "uint32_t start; uint16_t length, times;")
STAGE = CStruct(
    "vmcu_stage",
    "const uint8_t *schedule; const struct vmcu_part *parts; uint32_t progress;"
    "uint16_t part_count, first, count, taken;",
)
IO = CStruct(
    "vmcu_io", "const char *name; float scale; int8_t zero_point; uint8_t flags; uint16_t tensor;"
)
MODEL = CStruct(
    "vmcu_model",
    "const char *name; uint32_t pool_bytes; const struct vmcu_tensor *tensors;"
    "const struct vmcu_layer *layers; const struct vmcu_stage *stages;"
    "const struct vmcu_io *inputs, *outputs; uint16_t tensor_count, layer_count, stage_count;"
    "uint8_t input_count, output_count; bool streamed, elsewhere;",
)
STREAM = CStruct(
    "vmcu_stream",
    "const uint16_t *calls, *again; uint32_t model, state, state_bytes; uint16_t rows, states;",
)
# By which struct vmcu_model is larger in a build for models that keep their state.
STREAM_BYTES = 4
# The header of vmcu_state_save() in front of the state; struct vmcu_position at its end.
STATE_HEAD = CStruct("head", "uint32_t magic, model, bytes, sum; uint16_t rows, part, time, entry;")
# By which struct vmcu_model is larger in a build for pools that rotate.
ROTATION_BYTES = 8
# By which it is larger in a build for several pools: their sizes, how many there are, padding.
POOLS_BYTES = 4 * MOST_POOLS + 4
CHUNK = CStruct("vmcu_chunk", "uint32_t offset, bytes, to, digest; uint16_t stage, start;")
# By which it is larger in a build for external weights: chunks, buffer, how many, padding.
WEIGHTS_BYTES = 12
# An array of C is a member for each of its elements here.
TEAM = CStruct(
    "vmcu_team",
    "const struct vmcu_model *model; const uint16_t *entries, *second_entries;"
    "uint32_t counts, second_counts, scratch_bytes;",
)
