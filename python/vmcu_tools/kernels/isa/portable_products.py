# SPDX-License-Identifier: Apache-2.0
"""Products of two activations in portable C99."""

from __future__ import annotations

from .product_instructions import WIDTHS

START = """
int32_t sum = 0;

for (int32_t i = 0; i < count; i++) {
	sum += x[i] - x_zero;
}
start[0] = -y_zero * sum;
"""

DOT_ROWS = "\n".join(f"acc[0] = vmcu_mac(acc[0], x[{i}] - x_zero, y[{i}]);" for i in range(4))

DOT_ROWS_TAIL = """
for (int32_t i = 0; i < left; i++) {
	acc[0] = vmcu_mac(acc[0], x[i] - x_zero, y[i]);
}
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


def dot_columns(width: int) -> str:
    lines = ["const int32_t tap = x[0] - x_zero;", ""]
    return "\n".join(
        [*lines, *(f"acc[{n}] = vmcu_mac(acc[{n}], tap, y[{n}]);" for n in range(width))]
    )


def store(width: int) -> str:
    lines = []
    for n in range(width):
        scaled = f"vmcu_product_scale(q, acc[{n}])"
        lines.append(f"out[{n}] = vmcu_saturate({scaled}, q->output_zero,")
        lines.append("\t\t       q->act_min, q->act_max);")
    return "\n".join(lines)


BODIES = {
    "start_product": START,
    "dot_rows": DOT_ROWS,
    "dot_rows_tail": DOT_ROWS_TAIL,
    "softmax_kept": SOFTMAX,
    **{f"broadcast_{w}": "\n".join(f"acc[{n}] = start[0];" for n in range(w)) for w in WIDTHS},
    **{f"dot_columns_{w}": dot_columns(w) for w in WIDTHS},
    **{f"store_product_{w}": store(w) for w in WIDTHS},
}
