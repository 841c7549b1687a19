# SPDX-License-Identifier: Apache-2.0
"""Instructions of kernels that widen their input on the way, a block of channels at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....quant import wrap_int32
from ...language.evaluate import Machine
from ...language.ir import Ram, Stream
from ...language.packing import Packing
from .blocks import joined_c, order_c, take_biases, take_weights
from .registry import compound, define
from .tile import any_requant, finish, fixed_fast, take_shifts


def bias_c(packing: Packing) -> str:
    lines = ["const int32_t *b = (const int32_t *)*w;", ""]
    lines += [f"acc[{n}] = b[{n}];" for n in range(packing.dense)]
    return "\n".join([*lines, f"*w += {packing.dense} * sizeof(int32_t);"])


@define("FlashLoad", "int32_t *acc, const uint8_t **w", bias_c)
def bias_dense(m: Machine, acc: np.ndarray, stream: Stream) -> None:
    """Starts the accumulators at the biases of a block."""
    acc[:] = m.take(np.int32, len(acc))


def dot_c(packing: Packing) -> str:
    size = packing.dense * packing.lanes
    lines = ["const int8_t *v = (const int8_t *)*w;", ""]
    lines.append(f"*w += {packing.weight_bytes(size)};")
    for i in range(size):
        n, tap = divmod(i, packing.lanes)
        weight = joined_c(packing, packing.dense, n, tap)
        lines.append(f"acc[{n}] = vmcu_mac(acc[{n}], x[{tap}], {weight});")
    return "\n".join(lines)


@define("Dot", "int32_t *acc, const int8_t *x, const uint8_t **w", dot_c)
def dot_dense(m: Machine, acc: np.ndarray, ram: Ram, stream: Stream) -> None:
    """Multiplies as many taps as there are lanes, widened on the way, by those of a block of
    joined channels."""
    acc += take_weights(m, len(acc), 1) @ m.load(ram)


def dot_tail_c(packing: Packing) -> str:
    return f"""
int8_t taps[{packing.lanes}] = {{0}};

for (int32_t i = 0; i < left; i++) {{
	taps[i] = x[i];
}}
if (left > 0) {{
	vmcu_dot_dense(acc, taps, w);
}}
"""


@define(
    "Dot",
    "int32_t *acc, const int8_t *x, int32_t left, const uint8_t **w",
    dot_tail_c,
)
def dot_dense_tail(m: Machine, acc: np.ndarray, ram: Ram, left: int, stream: Stream) -> None:
    """The last taps of a run, fewer than there are lanes or none."""
    if left > 0:
        acc += take_weights(m, len(acc), 1)[:, :left] @ m.load(ram)


def dot_some_c(packing: Packing) -> str:
    lanes = packing.lanes
    if not packing.joined:
        return "(void)joined;\nvmcu_dot_dense_tail(acc, x, count, w);"
    return f"""
static const uint8_t order[] = {{{order_c(packing, packing.dense)}}};
const int8_t *v = (const int8_t *)*w;

if (joined) {{
	vmcu_dot_dense_tail(acc, x, count, w);
	return;
}}
for (int32_t i = 0; i < {packing.dense * lanes}; i++, v++) {{
	if (order[i] % {lanes} < count) {{
		int32_t *a = &acc[order[i] / {lanes}];

		*a = vmcu_mac(*a, x[order[i] % {lanes}], *v);
	}}
}}
*w = (const uint8_t *)v;
"""


@define(
    "Dot",
    "int32_t *acc, const int8_t *x, int32_t count, bool joined, const uint8_t **w",
    dot_some_c,
)
def dot_dense_some(
    m: Machine, acc: np.ndarray, ram: Ram, count: int, joined: int, stream: Stream
) -> None:
    """Up to as many taps as there are lanes times those of a block whose channels are joined or
    not."""
    acc += take_weights(m, len(acc), 1, apart=not joined)[:, :count] @ m.load(ram)


# Bytes of rows of a window, at most, that are copied to be one run: VMCU_STACK_SCRATCH.
COPIED = 256


def are_copied(rows: int, run: int) -> bool:
    """Whether so many rows of a window are copied and so become one run of taps."""
    return rows > 1 and rows * run <= COPIED


SOURCE = "const struct vmcu_source *in, int32_t row, int32_t pixel, int32_t channel"


@compound(
    "Dot",
    f"const struct vmcu_mac_params *p, int32_t *acc, {SOURCE}, const uint8_t **w, bool apart",
    """
if (apart) {
	*w = vmcu_dense_some(acc, in, row, pixel, channel, *w, false);
} else {
	*w = vmcu_dense_sums(p, acc, in, row, pixel, channel, *w);
	vmcu_seconds(acc, 4, 1);
}
""",
)
def sums_dense(m: Machine, p: int, acc: np.ndarray, ram: Ram, stream: Stream, apart: int) -> None:
    """The sums of a block: all taps, widened on the way, times their weights, and the biases."""
    add_up(m, acc, ram, bool(apart))


def add_up(m: Machine, acc: np.ndarray, ram: Ram, apart: bool = False) -> None:
    """Sets the sums of a block, whose channels are joined or apart."""
    acc[:] = take_biases(m, len(acc), apart)
    rows = m.load(ram, m.names["p->input_zero"])
    if are_copied(*rows.shape):
        rows = rows.reshape(1, -1)
    for taps in rows:
        steps = -(-len(taps) // m.packing.lanes)
        acc += take_weights(m, len(acc), steps, apart)[:, : len(taps)] @ taps


HELPERS = {
    "dense_whole": """
/* Whether blocks are computed in place: where there is no faster way. */
#define VMCU_DENSE_IN_PLACE 1
#define VMCU_DENSE_SUMS     VMCU_INLINE

/*
 * As many channels as there is a faster way for; returns how many are left. Asked for none, it
 * leaves the sums of a block, as words, and returns zero if it does.
 */
VMCU_INLINE int32_t vmcu_dense_whole(const struct vmcu_mac_params *p, const struct vmcu_source *in,
				     const int8_t *x, const uint8_t **w, int8_t **out,
				     int32_t channels)
{
	(void)p;
	(void)in;
	(void)x;
	(void)w;
	(void)out;
	return (channels == 0) ? 1 : channels;
}
""",
}


def whole_dense(run: str, more: str = "") -> str:
    """The helper of a target with a function for whole blocks of whole words. more: arguments."""
    return f"""
/* What is left of blocks is rare. */
#define VMCU_DENSE_IN_PLACE 0
#define VMCU_DENSE_SUMS     VMCU_CALLED

/*
 * As many channels as are whole blocks of whole words; returns how many are left. Asked for none,
 * it leaves the sums of a block, as words, and returns zero if it does.
 */
VMCU_INLINE int32_t vmcu_dense_whole(const struct vmcu_mac_params *p, const struct vmcu_source *in,
				    const int8_t *x, const uint8_t **w, int8_t **out,
				    int32_t channels)
{{
	const int32_t whole = channels & ~3;

	if (vmcu_source_rows(in) > 1 || (in->run & 3) != 0) {{
		return (channels == 0) ? 1 : channels;
	}}
	if (whole > 0 || channels == 0) {{
		*w = {run}(*w, x, in->run >> 2, *out, whole, vmcu_half(p){more});
	}}
	*out += whole;
	return channels - whole;
}}
"""


RUN_DENSE = """
const int32_t half = vmcu_half(p);

/* None where there is no fixed point. */
if (taken > 0) {
	const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;

	taken = vmcu_dense_whole(p, in, x, w, out, taken);
}
for (; taken > 0; taken -= 4) {
	int32_t acc[4];

	*w = vmcu_dense_sums(p, acc, in, row, pixel, channel, *w);
	if (VMCU_DENSE_IN_PLACE && taken >= 4) {
		vmcu_store_fixed_1x4(acc, w, out, 0, half);
		continue;
	}
	vmcu_seconds(acc, 4, 1);
	*w = vmcu_store_some(p, acc, 4, 1, *w, *out, 0, vmcu_min(taken, 4));
	*out += 4;
}
"""


@compound(
    "RAMStore",
    f"const struct vmcu_mac_params *p, {SOURCE}, const uint8_t **w, int8_t **out, int32_t taken",
    RUN_DENSE,
)
def run_dense(m: Machine, p: int, source: Ram, stream: Stream, ram: Ram, taken: int) -> None:
    """So many channels, block by block from bias to store, in fixed point; the last block may be
    the tensor's last and a partial one."""
    size = m.packing.dense
    for first in range(0, taken, size):
        acc = np.zeros(size, np.int64)
        add_up(m, acc, source)
        multiplier = m.take(np.int32, size)
        values = fixed_fast(m, wrap_int32(acc), multiplier, take_shifts(m, size))
        m.store(replace(ram, channel=ram.channel + first), values)


@compound(
    "RAMStore",
    "const struct vmcu_mac_params *p, int32_t *acc, const uint8_t **w, int8_t **out, int32_t left",
    """
*w = vmcu_exact_block(p, acc, 4, 1, *w, *out, 0, left);
*out += 4;
""",
)
def store_dense_any(
    m: Machine, p: int, acc: np.ndarray, stream: Stream, ram: Ram, left: int
) -> None:
    """Requantises and stores up to a block of channels, for any shift, range and accumulator, in
    fixed point or float."""
    m.store(ram, finish(m, acc, any_requant(m, len(acc)), 1))


# The divisor of numbers of taps where a layer has one factor: the loop needs no other code.
TURN = 8


def sums_c(packing: Packing) -> str:
    if packing.lanes * 2 != TURN:
        return ""
    seconds = range(1, packing.dense, 2) if packing.joined else ()
    lines = [f"acc[{n}] = vmcu_second(acc[{n}], acc[{n - 1}]);" for n in seconds]
    return f"""
vmcu_bias_dense(acc, w);
for (; depth > 0; depth -= {TURN}, x += {TURN}) {{
	vmcu_dot_dense(acc, x, w);
	vmcu_dot_dense(acc, x + {packing.lanes}, w);
}}
""" + "\n".join(lines)


@define("Dot", "int32_t *acc, const int8_t *x, int32_t depth, const uint8_t **w", sums_c)
def sums_dense_whole(m: Machine, acc: np.ndarray, ram: Ram, depth: int, stream: Stream) -> None:
    """The sums of a block of joined channels: whole turns of taps times their weights, and the
    biases."""
    acc[:] = _sums_whole(m, len(acc), ram, depth)


def _sums_whole(m: Machine, channels: int, ram: Ram, depth: int) -> np.ndarray:
    biases = take_biases(m, channels)
    weights = take_weights(m, channels, -(-depth // m.packing.lanes))
    sums: np.ndarray = biases + weights[:, :depth] @ m.load(ram)
    return sums


PER_TENSOR = "const struct vmcu_dense_per_tensor_params *p"


def store_per_tensor_c(packing: Packing) -> str:
    lines = ["const int32_t multiplier = p->multiplier, shift = p->shift;"]
    lines += ["const int32_t bias = vmcu_wrapping_shift(2 * p->output_zero + 1, shift);", ""]
    for n in range(packing.dense):
        made = "vmcu_fixed_second" if packing.joined and n % 2 else "vmcu_fixed"
        lines.append(f"out[{n}] = {made}(acc[{n}], multiplier, bias, shift);")
    return "\n".join(lines)


@define("RAMStore", f"{PER_TENSOR}, const int32_t *acc, int8_t *out", store_per_tensor_c)
def store_dense_per_tensor(m: Machine, p: int, acc: np.ndarray, ram: Ram) -> None:
    """Requantises and stores a block of channels with the layer's factor, in fixed point."""
    _store_per_tensor(m, acc, ram)


def _store_per_tensor(m: Machine, acc: np.ndarray, ram: Ram) -> None:
    multiplier, shift = (np.array(m.names[f"p->{name}"]) for name in ("multiplier", "shift"))
    m.store(ram, fixed_fast(m, wrap_int32(acc), multiplier, shift))


def run_per_tensor_c(packing: Packing) -> str:
    size = packing.dense
    return f"""
for (; channels > 0; channels -= {size}, out += {size}) {{
	int32_t acc[{size}];

	vmcu_sums_dense_whole(acc, x, depth, w);
	vmcu_store_dense_per_tensor(p, acc, out);
}}
"""


@define(
    "RAMStore",
    f"{PER_TENSOR}, const int8_t *x, int32_t depth, const uint8_t **w, int8_t *out, "
    "int32_t channels",
    run_per_tensor_c,
)
def run_dense_per_tensor(
    m: Machine, p: int, source: Ram, depth: int, stream: Stream, ram: Ram, channels: int
) -> None:
    """All blocks of a pixel, from bias to store, with the layer's factor."""
    size = m.packing.dense
    for first in range(0, channels, size):
        acc = _sums_whole(m, size, source, depth)
        _store_per_tensor(m, acc, replace(ram, channel=ram.channel + first))
