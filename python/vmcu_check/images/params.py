# SPDX-License-Identifier: Apache-2.0
"""The parameter structs of kernels, as vmcu/kernels.h and vmcu/operators.h describe them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from .elf import ImageError, LinkedImage
from .tables import StructLayout

_WINDOW = (
    "kernel_h:H kernel_w:H stride_h:H stride_w:H dilation_h:H dilation_w:H pad_top:h pad_left:h"
)
_BOUNDS = "input_zero:b output_zero:b act_min:b act_max:b"
_FACTOR = "multiplier:i shift:i"
_MAC = f"stream:p {_WINDOW} groups:H depth:H run:H steps:H {_BOUNDS} is_float:B packed:B"
_PRODUCT = "{0}multiplier:i {0}shift:i {0}is_float:B {0}x_zero:b {0}y_zero:b {0}output_zero:b"
_PRODUCT += " {0}act_min:b {0}act_max:b {0}fill:h"
_POOL = f"{_WINDOW} {_FACTOR} rescale:B count_padding:B {_BOUNDS}"

# By kernel, without its prefix and the suffix of its packing: members as far as they are read.
PARAMS: Mapping[str, str] = {
    "dense": _MAC,
    "dense_per_tensor": "stream:p multiplier:i shift:B output_zero:b",
    "conv": _MAC,
    "pointwise": _MAC,
    "depthwise": _MAC,
    "grouped": _MAC,
    "add": "a_scale:i b_scale:i bias:i shift:i",
    **dict.fromkeys(("softmax_tflite", "softmax_onnx"), "exp:p"),
    "average_pool": _POOL,
    "average_pool_sum": _POOL,
    "max_pool": f"{_WINDOW} act_min:b act_max:b",
    "pad": "top:h left:h before:h value:b",
    "concat": "tables:p table_of:p axis:B",
    "attention": f"exp:p table:p score_bias:p sum:p {_WINDOW} {_PRODUCT.format('s_')}"
    f" {_PRODUCT.format('o_')} gain:I bias_head:H bias_row:H heads:H sharing:H weight_zero:b"
    " mask_pad:b mask_rows:B",
    "filter_int16": f"weights:p bias:p {_WINDOW} {_FACTOR} rank:H output_zero:b",
    "look_back": "step:H",
    "move": "rows:p columns:p channels:p run:H",
    "pick": "bytes:p run:H",
    "requantize_wide": f"{_FACTOR} input_zero:h output_zero:h input_bytes:B output_bytes:B",
    "resize": "rows:p columns:p",
    "table_mean": f"table:p {_WINDOW} divisor:i bits:B",
    "transpose_conv": f"weights:p bias:p multiplier:p shift:p scale:p {_WINDOW} groups:H depth:H",
    "dense_update": "weight_multiplier:i weight_shift:i bias_multiplier:i bias_shift:i most:h"
    " first:H input_zero:b",
}

# A kernel's name, its form and the suffix of its packing.
_NAME = re.compile(
    r"vmcu_(?P<kind>dense|conv|pointwise|depthwise|grouped|\w+?)"
    r"(?P<form>_narrow|_[357]_[12]|_any|_fine|_zeros)?"
    r"(?P<packing>_pairs_int4|_helium_int4|_int4|_pairs|_helium)?"
)


@functools.cache
def parts(kernel: str) -> tuple[str, str, str]:
    """Returns a kernel's kind, its form and the suffix of its packing.

    Raises ImageError if this checker has no rule for it.
    """
    match = _NAME.fullmatch(kernel)
    if match is None:
        raise ImageError(f"no rule for the kernel '{kernel}'", "check with a newer vmcu")
    return match["kind"], match["form"] or "", match["packing"] or ""


def read(image: LinkedImage, kernel: str, address: int) -> dict[str, Any]:
    """Returns the parameters of a layer."""
    layout = StructLayout(PARAMS.get(parts(kernel)[0], ""), image.word)
    return layout.decode(image.read(address, layout.bytes)) if layout.members else {}
