# SPDX-License-Identifier: Apache-2.0
"""Sums of two tensors with MVE: the upper half of a product with a byte at a word's top is
vmcu_scaled_byte()."""

from __future__ import annotations

from vmcu_tools.kernels.integer_sum import FINER
from vmcu_tools.kernels.targets.portable.sums import add_vectors

from ...assembly import Function, leave, save
from ..thumb import prototypes

KEPT = ("r4", "lr")
SLOTS = {8: "SCALES", 16: "BIAS"}
SCALES, BIAS = (f"[sp, #{at}]" for at in SLOTS)


def add_run() -> Function:
    """Four bytes in a turn, the last ones maybe fewer."""
    code = [
        *save(KEPT),
        f"ldrd r4, r12, {SCALES}",
        "vdup.32 q2, r4",
        "vdup.32 q3, r12",
        f"ldrd r4, r12, {BIAS}",
        "wlstp.32 lr, r3, <done>",
        "<turn>:",
        "vldrb.s32 q0, [r0], #4",
        "vldrb.s32 q1, [r1], #4",
        f"vshl.i32 q0, q0, #{32 - FINER}",
        f"vshl.i32 q1, q1, #{32 - FINER}",
        "vmulh.s32 q0, q0, q2",
        "vmulh.s32 q1, q1, q3",
        "vadd.i32 q0, q0, r4",
        "vadd.i32 q0, q0, q1",
        "vshl.s32 q0, r12",
        "vqmovnb.s32 q0, q0",
        "vqmovnb.s16 q0, q0",
        "vstrb.32 q0, [r2], #4",
        "letp lr, <turn>",
        "<done>:",
        leave(KEPT),
    ]
    summary = "Sums of `bytes` of each of two tensors; `shift` is to the left."
    return Function("vmcu_add_run", summary, code, SLOTS)


FUNCTIONS = [add_run()]
DECLARED = prototypes(
    FUNCTIONS,
    "void ",
    "const int8_t *a, const int8_t *b, int8_t *out, int32_t bytes, int32_t a_scale, "
    "int32_t b_scale, int32_t bias, int32_t shift",
)
HELPERS = {"add_run": f"/* In sums_helium.S. */\n{DECLARED}"}
OWN = {
    add_vectors: """
const struct vmcu_add_params *p = vmcu_params(call);
const int8_t *const a = vmcu_input_start(call, 0);
const int8_t *const b = vmcu_input_start(call, 1);
int8_t *const out = vmcu_output_start(call);
const int32_t channels = vmcu_call_output(call)->channels;
const int32_t bytes = call->columns * channels;
/* From the last pixel back, one by one. */
const int32_t run = (call->layer->descending != 0) ? channels : bytes;

for (int32_t at = bytes - run; at >= 0; at -= run) {
	vmcu_add_run(a + at, b + at, out + at, run, p->a_scale, p->b_scale, p->bias,
		     -(int32_t)p->shift);
}
"""
}
