# SPDX-License-Identifier: Apache-2.0
"""The C structs in an image, as doc/container.md, vmcu/model.h, vmcu/kernels.h and vmcu/operators.h
describe them: members `name:type`. A type is a code of numpy, or p, a pointer.

Layouts are those of the C ABI: each member is aligned to its size.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

TENSOR = "base:I ring:I phase:I height:H width:H channels:H"
LAYER = (
    "kernel:p params:p inputs:p input_count:B descending:B output:H scratch:I rows:H width:H"
    " columns:H splits:B"
)
PART = "start:I length:H times:H"
STAGE = "schedule:p parts:p progress:I part_count:H first:H count:H taken:H"
PORT = "name:p scale:f zero_point:b flags:B tensor:H"
STREAM = "calls:p again:p model:I state:I state_bytes:I rows:H states:H"
MODEL = (
    "name:p pool_bytes:I tensors:p layers:p stages:p inputs:p outputs:p tensor_count:H"
    " layer_count:H stage_count:H input_count:B output_count:B streamed:B elsewhere:B"
)
# Members of a model that options of the runtime add, in their order. A model's symbol names them
# (see VMCU_CONFIGURED in vmcu/config.h).
OPTIONS = {
    "_with_rotate": "circle:I step:I",
    "_with_streams": "stream:p",
    "_with_several_pools": "pool0:I pool1:I pool2:I pool3:I pool_count:B",
    "_with_external_weights": "chunks:p weights:p chunk_count:H",
    "_with_containers": "base:p kernels:p tail:I",
}
CONTAINER_FILE = "magic:I major:H minor:H size:I signature:I"
CONTAINER_MODEL = (
    "name:I pool_bytes:I circle:I step:I tensors:I layers:I stages:I parts:I schedule:I"
    " layer_inputs:I inputs:I outputs:I kernels:I blocks:I part_count:I schedule_count:I"
    " layer_input_count:I block_count:I tensor_count:H layer_count:H stage_count:H kernel_count:H"
    " input_count:B output_count:B streamed:B requantisers:B"
)
CONTAINER_KERNEL = "name:I params:I"

_WINDOW = (
    "kernel_h:H kernel_w:H stride_h:H stride_w:H dilation_h:H dilation_w:H pad_top:h pad_left:h"
)
_BOUNDS = "input_zero:b output_zero:b act_min:b act_max:b"
_FACTOR = "multiplier:i shift:i"
_MAC = f"stream:p {_WINDOW} groups:H depth:H run:H steps:H {_BOUNDS} is_float:B packed:B"
_PRODUCT = "{0}multiplier:i {0}shift:i {0}is_float:B {0}x_zero:b {0}y_zero:b {0}output_zero:b"
_PRODUCT += " {0}act_min:b {0}act_max:b {0}fill:h"
_POOL = f"{_WINDOW} {_FACTOR} rescale:B count_padding:B {_BOUNDS}"
_SOFTMAX = "exp:p gain:I output_zero:b act_min:b act_max:b"
_WITHIN = [f"{side}_{member}" for side in ("inner", "outer") for member in _MAC.split()]

# Parameters by kind of kernel: members as far as they are read.
PARAMS: Mapping[str, str] = {
    **dict.fromkeys(("dense", "conv", "pointwise", "depthwise", "grouped"), _MAC),
    "dense_per_tensor": "stream:p multiplier:i shift:B output_zero:b",
    "recomputed": " ".join(_WITHIN) + " inner_kernel:p outer_kernel:p ring:I scratch:I height:H"
    " width:H channels:H columns:H by_pixel:B",
    "add": "a_scale:i b_scale:i bias:i shift:i",
    **dict.fromkeys(
        ("softmax_tflite", "softmax_onnx"), "exp:p gain:I output_zero:b act_min:b act_max:b"
    ),
    **dict.fromkeys(("average_pool", "average_pool_sum"), _POOL),
    "max_pool": f"{_WINDOW} act_min:b act_max:b",
    "pad": "top:h left:h before:h value:b",
    "concat": "tables:p table_of:p axis:B",
    "attention": f"exp:p table:p score_bias:p sum:p {_WINDOW} {_PRODUCT.format('s_')}"
    f" {_PRODUCT.format('o_')} gain:I bias_head:H bias_row:H heads:H sharing:H weight_zero:b"
    " mask_pad:b mask_rows:B",
    "filter_int16": f"weights:p bias:p {_WINDOW} {_FACTOR} rank:H output_zero:b",
    "look_back": "step:H",
    "lookup": "table:p",
    "lstm": "weights:p biases:p sigmoid:p "
    + " ".join(f"multiplier{n}:i shift{n}:i" for n in range(8)),
    "move": "rows:p columns:p channels:p run:H",
    "pick": "bytes:p run:H",
    "requantize_wide": f"{_FACTOR} input_zero:h output_zero:h input_bytes:B output_bytes:B",
    "resize": "rows:p columns:p",
    "table_mean": f"table:p {_WINDOW} divisor:i bits:B",
    "transpose_conv": f"weights:p bias:p multiplier:p shift:p scale:p {_WINDOW} groups:H depth:H",
    "dense_update": "weight_multiplier:i weight_shift:i bias_multiplier:i bias_shift:i most:h"
    " first:H input_zero:b",
}


@functools.cache
def layout(members: str, word: int) -> np.dtype[Any]:
    """Returns the layout of a struct."""
    pairs = [member.split(":") for member in members.split()]
    return np.dtype(
        [(name, f"u{word}" if kind == "p" else kind) for name, kind in pairs], align=True
    )
