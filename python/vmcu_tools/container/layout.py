# SPDX-License-Identifier: Apache-2.0
"""The layout of a container: doc/container.md in Python.

Every struct lies in it as a 32-bit core has it in memory (ops/values.py), but for pointers, which
are offsets in bytes from the container's start, 0 for NULL; a kernel is a number in the table of
kernels. Data at an offset is aligned to ALIGN.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.structs import IO, LAYER, PART, STAGE, STREAM, TENSOR
from ..ops.values import CStruct

MAGIC = b"VMCU"
# A reader refuses another major version; a minor one adds data that older readers may ignore: 1 has
# ONLINE behind the model. Major version 2 is of models that keep rows from one answer to the next,
# which nobody may pass over: behind ONLINE they have STREAM of emit/structs.py. Major version 3 is
# of models whose constants are in a file of their own: they have all the additions, of which ONLINE
# is zero, and STREAM where no rows are kept. A file has the lowest version that has its data.
MAJOR, MINOR, MINOR_ONLINE = 1, 0, 1
MAJOR_STREAMS, MAJOR_WEIGHTS = 2, 3
# By major version, the minor one from which on a file has RELEASE behind all these.
MINOR_RELEASE = {MAJOR: 2, MAJOR_STREAMS: 1, MAJOR_WEIGHTS: 0}
ALIGN = 8

# The file's first bytes: its magic, version and size. Then the digest, which is of all bytes but
# itself and the signature, and the signature of the digest.
FILE = CStruct(
    "vmcu_container_file", "uint32_t magic; uint16_t major, minor; uint32_t size, signature;"
)
DIGEST = slice(FILE.size, FILE.size + 32)
SIGNATURE = slice(DIGEST.stop, DIGEST.stop + 64)
# Values of `signature` of the file.
UNSIGNED, ED25519, P256 = 0, 1, 2
SIGNATURES = {ED25519: "Ed25519", P256: "ECDSA P-256"}

# A kernel by the name of its function, and the struct of its parameters, NULL if it takes none.
KERNEL = CStruct("vmcu_container_kernel", "const char *name, *params;")
BLOCK = CStruct("vmcu_container_block", "uint32_t start, size;")
MODEL = CStruct(
    "vmcu_container_model",
    "const char *name; uint32_t pool_bytes, circle, step;"
    "const struct vmcu_tensor *tensors; const struct vmcu_layer *layers;"
    "const struct vmcu_stage *stages; const struct vmcu_part *parts;"
    "const uint8_t *schedule; const uint16_t *layer_inputs;"
    "const struct vmcu_io *inputs, *outputs;"
    "const struct vmcu_container_kernel *kernels; const struct vmcu_container_block *blocks;"
    "uint32_t part_count, schedule_count, layer_input_count, block_count;"
    "uint16_t tensor_count, layer_count, stage_count, kernel_count;"
    "uint8_t input_count, output_count; bool streamed; uint8_t requantisers;",
)
MODEL_AT = SIGNATURE.stop
# For planners on the device, by layer and by input of a layer; see planner/places/overlap.py.
STEP = CStruct(
    "vmcu_container_step", "uint32_t scratch; uint16_t distance; uint8_t descends, reserved;"
)
DISTANCE = CStruct(
    "vmcu_container_distance", "int32_t below, below_descending, above, above_descending;"
)
ONLINE = CStruct(
    "vmcu_container_online",
    "const struct vmcu_container_step *steps; const struct vmcu_container_distance *distances;"
    "uint32_t distance_count;",
)
ONLINE_AT = MODEL_AT + MODEL.size
STREAM_AT = ONLINE_AT + ONLINE.size
STREAM_END = STREAM_AT + STREAM.size
# The devices that it is for, and how new it is.
RELEASE = CStruct("vmcu_container_release", "uint32_t product, version;")
RELEASE_AT = STREAM_END
RELEASE_END = RELEASE_AT + RELEASE.size
# Chunks and their buffer; behind it the digest of the chunks, see external.py.
WEIGHTS = CStruct(
    "vmcu_container_weights", "const struct vmcu_chunk *chunks; uint32_t chunk_count, buffer;"
)
WEIGHTS_AT = RELEASE_END
WEIGHTS_END = WEIGHTS_AT + WEIGHTS.size + DIGEST.stop - DIGEST.start
# In a pointer of parameters: the rest is an offset in the buffer.
EXTERNAL = 1 << 31
# Numbers as Python's struct has them.
FORMATS = {"bool": "<B", "float": "<f", "vmcu_long_t": "<q"} | {
    f"{sign}int{8 * size}_t": f"<{code.upper() if sign else code}"
    for size, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
    for sign in ("", "u")
}
# Named constants of C, besides enumerators.
CONSTANTS = {
    "VMCU_SCRATCH_ON_STACK": 2**32 - 1,
    "VMCU_IO_CHANNELS_FIRST": 1,
    "VMCU_IO_HALF_AWAY": 2,
    "VMCU_IO_COLUMNS": 4,
    "VMCU_IO_WIDE": 8,
}
# Bits of `requantisers`: which of the runtime's the model needs.
REQUANTISERS = ("FIXED", "FLOAT")


@dataclass(frozen=True)
class Table:
    """A table of the model: the members of vmcu_container_model with its offset and its number of
    entries. element: a struct, or the bytes of a number."""

    label: str
    count: str
    element: CStruct | int

    @property
    def size(self) -> int:
        return self.element if isinstance(self.element, int) else self.element.size


TABLES = (
    Table("tensors", "tensor_count", TENSOR),
    Table("layers", "layer_count", LAYER),
    Table("stages", "stage_count", STAGE),
    Table("parts", "part_count", PART),
    Table("schedule", "schedule_count", 1),
    Table("layer_inputs", "layer_input_count", 2),
    Table("inputs", "input_count", IO),
    Table("outputs", "output_count", IO),
    Table("kernels", "kernel_count", KERNEL),
    Table("blocks", "block_count", BLOCK),
)
