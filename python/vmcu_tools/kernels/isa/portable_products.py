# SPDX-License-Identifier: Apache-2.0
"""Products of two activations in portable C99."""

from __future__ import annotations

from .product_instructions import WIDE

START = "start[0] = vmcu_product_start(x, count, x_zero, y_zero);"

DOT_ROW = "\n".join(f"acc[0] = vmcu_mac(acc[0], x[{i}] - x_zero, y[{i}]);" for i in range(4))

DOT_COLUMN = "const int32_t tap = x[0] - x_zero;\n\n" + "\n".join(
    f"acc[{n}] = vmcu_mac(acc[{n}], tap, y[{n}]);" for n in range(WIDE)
)

DOT_ROWS = "acc[0] = vmcu_product_row(acc[0], x, y, count, x_zero);"

DOT_COLUMNS = """
int32_t sums[] = {acc[0], acc[1], acc[2], acc[3]};

vmcu_product_columns(sums, x, y, count, pitch, lanes, x_zero);
acc[0] = sums[0];
acc[1] = sums[1];
acc[2] = sums[2];
acc[3] = sums[3];
"""

SOFTMAX = """
const struct vmcu_softmax_params softmax = {
	.exp = p->stream,
	.output_zero = INT8_MIN,
	.act_min = INT8_MIN,
	.act_max = INT8_MAX,
};

vmcu_softmax_tflite_pixel(&softmax, row, row, count);
"""


def store(width: int) -> str:
    """A call, with a copy of the accumulators: their own address must not escape from registers."""
    sums = ", ".join(f"acc[{n}]" for n in range(width))
    return f"const int32_t sums[] = {{{sums}}};\n\nvmcu_product_store(q, sums, out, lanes);"


BODIES = {
    "start_product": START,
    "dot_row_4": DOT_ROW,
    "dot_column_4": DOT_COLUMN,
    "dot_rows": DOT_ROWS,
    "dot_columns": DOT_COLUMNS,
    "softmax_kept": SOFTMAX,
    **{f"broadcast_{w}": "\n".join(f"acc[{n}] = start[0];" for n in range(w)) for w in (WIDE, 1)},
    **{f"store_product_{w}": store(w) for w in (WIDE, 1)},
}
