/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"
#include "vectors.h"

#define GATES 4

/** Of the table, the last entry. */
#define LAST 255

/** A step. */
struct job {
	const struct vmcu_lstm_params *p;
	const uint16_t *table;
	const int8_t *weights;
	const int32_t *biases;
	const int8_t *input;
	const int8_t *hidden; /**< outputs of units before */
	const int8_t *before; /**< the state before; NULL for none */
	int32_t inputs;
	int32_t units;
	int32_t less; /**< outputs in states are so much less */
};

#if defined(VMCU_VECTORS)
#include "lstm_vectors.h"
#else
static int32_t within_16(int32_t x)
{
	return vmcu_at_most(vmcu_at_least(x, INT16_MIN), INT16_MAX);
}

/** The sum of both, which are within 16 bits, within 16 bits. */
static int32_t sum_16(int32_t a, int32_t b)
{
	return within_16(a + b);
}

static int32_t scaled_16(int32_t x, const struct vmcu_factor *f)
{
	return within_16(vmcu_scaled(x, f->multiplier, f->shift));
}

/**
 * Between two entries, which @a bits fractional bits of @a size tell apart; @a last from the last
 * one on.
 */
static int32_t interpolate(const uint16_t *table, int32_t size, int32_t bits, int32_t last)
{
	const int32_t place = vmcu_at_most(size >> bits, LAST - 1);
	const int32_t low = table[place];
	const int32_t part = (size & ((1 << bits) - 1)) * (table[place + 1] - low);
	const int32_t between = low * (1 << bits) + part;

	return last ^ ((last ^ between) & vmcu_below(size >> bits, LAST));
}

/** Sigmoid of x / 2^12, times 2^15. */
static int32_t sigmoid_of(const uint16_t *table, int32_t x)
{
	const int32_t sign = vmcu_sign(x);
	const int32_t found = interpolate(table, 3 * ((x ^ sign) - sign), 9, 0x7FFF << 10);

	return ((found ^ sign) - sign + (sign & ((1 << 25) - 1)) + (1 << 9)) >> 10;
}

/** Tanh of x / 24 / 256, times 2^15. */
static int32_t tanh_of(const uint16_t *table, int32_t x)
{
	const int32_t sign = vmcu_sign(x);
	const int32_t found = interpolate(table, (x ^ sign) - sign, 8, 0xFFFF << 8) - (1 << 23);

	return ((found ^ sign) + (1 << 7)) >> 8;
}

/** A gate's sum, from the sums of the inputs and of the units. */
static int32_t gate_sum(const int32_t *inputs, const int32_t *units,
			const struct vmcu_factor *by_input, const struct vmcu_factor *by_hidden)
{
	return sum_16(scaled_16(*inputs, by_input), scaled_16(*units, by_hidden));
}

/**
 * Adds taps times a unit's weights to the sums of its gates: four taps of each gate after the
 * other, at the end the rest. Returns where the weights go on.
 */
VMCU_APART const int8_t *add_gates(int32_t *sums, const int8_t *x, const int8_t *w, int32_t taps)
{
	int32_t acc[GATES] = {sums[0], sums[1], sums[2], sums[3]};
	const int8_t *const end = x + (taps & ~3);

	for (; x != end; x += 4, w += 4 * GATES) {
		vmcu_dot_rows_4(acc, x, w);
	}
	__builtin_memcpy(sums, acc, sizeof(acc));
	taps &= 3;
	for (int32_t n = 0; taps != 0 && n < GATES; n++, w += taps) {
		sums[n] = vmcu_product_row(sums[n], x, w, taps, 0);
	}
	return w;
}

/**
 * Computes a unit's output from the sums of its gates, input, forget, cell, output, by inputs and
 * by units. @a cell: its own cell, which becomes the next one.
 */
VMCU_CALLED int32_t step_unit(const struct vmcu_lstm_params *p, const uint16_t *table,
			      const int32_t *x, const int32_t *h, int32_t *cell)
{
	const int32_t entering =
		sigmoid_of(table, gate_sum(&x[0], &h[0], &p->input_input, &p->input_hidden));
	const int32_t staying =
		sigmoid_of(table, gate_sum(&x[1], &h[1], &p->forget_input, &p->forget_hidden));
	const int32_t shape =
		tanh_of(table, 3 * gate_sum(&x[2], &h[2], &p->cell_input, &p->cell_hidden));
	const int32_t shown =
		sigmoid_of(table, gate_sum(&x[3], &h[3], &p->output_input, &p->output_hidden));
	const int32_t next = sum_16(scaled_16(staying * *cell, &p->kept),
				    scaled_16(entering * shape, &p->taken));

	*cell = vmcu_at_most(vmcu_at_least(next, -p->clip), p->clip);
	const int32_t half = ((int32_t)1 << p->tanh_shift) >> 1;
	const int32_t seen = tanh_of(table, (*cell * p->tanh_multiplier + half) >> p->tanh_shift);
	const int32_t given = vmcu_scaled(seen * shown, p->given.multiplier, p->given.shift);

	return vmcu_saturate(given, p->zero, INT8_MIN, INT8_MAX);
}

/** A unit's cell, as a state has it. */
static int32_t cell_of(const int8_t *bytes)
{
	return (int16_t)(uint16_t)((uint8_t)bytes[0] | (uint32_t)(uint8_t)bytes[1] << 8);
}

/** Computes all units. */
static void step_all(const struct job *job, int8_t *dst)
{
	const struct vmcu_lstm_params *p = job->p;
	const int8_t *src = job->before;
	const int32_t units = job->units;
	const int8_t *w = job->weights;
	const int32_t *biases = job->biases;

	for (int32_t unit = 0; unit < units; unit++, biases += 2 * GATES) {
		int32_t x[GATES] = {biases[0], biases[1], biases[2], biases[3]};
		int32_t h[GATES] = {biases[4], biases[5], biases[6], biases[7]};
		int32_t cell = (src == NULL) ? 0 : cell_of(&src[units + 2 * unit]);

		w = add_gates(x, job->input, w, job->inputs);
		w = add_gates(h, job->hidden, w, units);
		dst[unit] = (int8_t)(uint8_t)(step_unit(p, job->table, x, h, &cell) - job->less);
		dst[units + 2 * unit] = (int8_t)(uint8_t)((uint32_t)cell & 0xFFU);
		dst[units + 2 * unit + 1] = (int8_t)(uint8_t)(((uint32_t)cell >> 8) & 0xFFU);
	}
}
#endif

/** Copies the outputs of units in the state before, NULL for none. */
static void copy_hidden(const struct job *job, int8_t *hidden)
{
	const int8_t *src = job->before;

	for (int32_t unit = 0; unit < job->units; unit++) {
		hidden[unit] =
			(src == NULL) ? job->p->zero : (int8_t)(uint8_t)(src[unit] + job->less);
	}
}

/** The state before a call; NULL for none. */
static const int8_t *state_before(const struct vmcu_call *call)
{
	const struct vmcu_tensor *state = vmcu_call_input(call, 1);

	if (state != vmcu_call_output(call)) {
		return vmcu_row(call->pool, state, call->y);
	}
	return (call->y == 0U) ? NULL : vmcu_row(call->pool, state, call->y - 1U);
}

void vmcu_lstm(const struct vmcu_call *call)
{
	const struct vmcu_lstm_params *p = vmcu_params(call);
	const struct job job = {
		.p = p,
		.table = vmcu_constants(call, p->sigmoid),
		.weights = vmcu_constants(call, p->weights),
		.biases = vmcu_constants(call, p->biases),
		.input = vmcu_input_row(call, 0, call->y),
		.hidden = call->scratch,
		.before = state_before(call),
		.inputs = vmcu_call_input(call, 0)->channels,
		.units = vmcu_call_output(call)->channels,
		.less = (vmcu_call_input(call, 1) == vmcu_call_output(call)) ? 0 : p->zero,
	};

	copy_hidden(&job, call->scratch);
	step_all(&job, vmcu_output_start(call));
}
