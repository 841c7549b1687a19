/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Four units of an LSTM at once, with MVE. Included by lstm.c.
 */

#ifndef VMCU_KERNELS_LSTM_VECTORS_H_
#define VMCU_KERNELS_LSTM_VECTORS_H_

/** Units that are computed at once: a lane each. */
#define UNITS 4

/** The sums of gates: input, forget, cell, output. */
typedef int32_t gates_t[GATES][UNITS];

/** The sum of both, each and in the end within 16 bits. */
VMCU_INLINE int32x4_t sum_16(int32x4_t a, int32x4_t b)
{
	const int16x8_t sum =
		vqaddq_s16(vqmovnbq_s32((int16x8_t)a, a), vqmovnbq_s32((int16x8_t)b, b));

	return vmovlbq_s16(sum);
}

VMCU_INLINE int32x4_t scaled_by(int32x4_t x, const struct vmcu_factor *f)
{
	return vmcu_fixed_four(x, f->multiplier, f->shift);
}

/** Between two entries, of which @a place is the first; @a bits fractional bits tell them apart. */
VMCU_INLINE int32x4_t interpolate(const uint16_t *table, int32x4_t size, uint32x4_t place,
				  int32_t bits)
{
	const int32x4_t low = (int32x4_t)vldrhq_gather_shifted_offset_u32(table, place);
	const int32x4_t next = (int32x4_t)vldrhq_gather_shifted_offset_u32(table + 1, place);
	const int32x4_t part = vandq_s32(size, vdupq_n_s32((1 << bits) - 1));

	return vaddq_s32(vshlq_r_s32(low, bits), vmulq_s32(part, vsubq_s32(next, low)));
}

/** @a found - @a middle, for a negative @a x in place of its mirror image. */
VMCU_INLINE int32x4_t mirror(int32x4_t x, int32x4_t found, int32_t middle)
{
	return veorq_s32(vsubq_n_s32(found, middle), vshrq_n_s32(x, 31));
}

/** Sigmoid of x / 2^12, within 16 bits and so far from the table's end, times 2^15. */
VMCU_INLINE int32x4_t sigmoid_of(const uint16_t *table, int32x4_t x)
{
	const int32x4_t size = vabsq_s32(vmulq_n_s32(x, 3));
	const int32x4_t found = interpolate(table, size, vshrq_n_u32((uint32x4_t)size, 9), 9);

	return vrshrq_n_s32(vaddq_n_s32(mirror(x, found, 1 << 24), 1 << 24), 10);
}

/** Tanh of x / 24 / 256, times 2^15. */
VMCU_INLINE int32x4_t tanh_of(const uint16_t *table, int32x4_t x)
{
	const int32x4_t size = vabsq_s32(x);
	const uint32x4_t place = vminq_u32(vshrq_n_u32((uint32x4_t)size, 8), vdupq_n_u32(LAST - 1));
	const mve_pred16_t beyond = vcmpgeq_n_s32(size, LAST << 8);
	const int32x4_t found =
		vdupq_m_n_s32(interpolate(table, size, place, 8), 0xFFFF << 8, beyond);

	return vrshrq_n_s32(mirror(x, found, 1 << 23), 8);
}

/** A gate's sums, from those of the inputs and of the units. */
VMCU_INLINE int32x4_t gate_sums(const int32_t *inputs, const int32_t *units,
				const struct vmcu_factor *by_input,
				const struct vmcu_factor *by_hidden)
{
	return sum_16(scaled_by(vldrwq_s32(inputs), by_input),
		      scaled_by(vldrwq_s32(units), by_hidden));
}

/** Up to three fours of a gate. */
VMCU_INLINE int8x16_t fours_of(const int8_t *w, mve_pred16_t inside)
{
	const uint32x4_t at = vmulq_n_u32(vidupq_n_u32(0, 1), 4 * GATES);

	return (int8x16_t)vldrwq_gather_offset_z_s32((const int32_t *)w, at, inside);
}

/**
 * Computes a unit's sums for its gates: taps times weights, four taps of each gate after the other,
 * at the end the rest. Returns where the weights go on.
 */
VMCU_APART const int8_t *sum_gates(int32_t *sums, const int32_t *biases, const int8_t *x,
				   const int8_t *w, int32_t taps)
{
	const int32_t fours = taps & 12;
	const int32_t rest = taps & 3;
	int32_t input = biases[0];
	int32_t forget = biases[1];
	int32_t cell = biases[2];
	int32_t output = biases[3];

	for (int32_t n = taps >> 4; n > 0; n--, x += 16, w += 16 * GATES) {
		const int8x16_t some = vldrbq_s8(x);
		const int32x4x4_t gates = vld4q_s32((const int32_t *)w);

		input = vmladavaq_s8(input, some, (int8x16_t)gates.val[0]);
		forget = vmladavaq_s8(forget, some, (int8x16_t)gates.val[1]);
		cell = vmladavaq_s8(cell, some, (int8x16_t)gates.val[2]);
		output = vmladavaq_s8(output, some, (int8x16_t)gates.val[3]);
	}
	if (fours != 0) {
		const mve_pred16_t inside = vctp8q((uint32_t)fours);
		const int8x16_t some = vldrbq_z_s8(x, inside);

		input = vmladavaq_s8(input, some, fours_of(&w[0], inside));
		forget = vmladavaq_s8(forget, some, fours_of(&w[4], inside));
		cell = vmladavaq_s8(cell, some, fours_of(&w[8], inside));
		output = vmladavaq_s8(output, some, fours_of(&w[12], inside));
		x += fours;
		w += fours * GATES;
	}
	if (rest != 0) {
		const mve_pred16_t inside = vctp8q((uint32_t)rest);
		const int8x16_t some = vldrbq_z_s8(x, inside);

		input = vmladavaq_s8(input, some, vldrbq_z_s8(w, inside));
		forget = vmladavaq_s8(forget, some, vldrbq_z_s8(w + rest, inside));
		cell = vmladavaq_s8(cell, some, vldrbq_z_s8(w + 2 * rest, inside));
		output = vmladavaq_s8(output, some, vldrbq_z_s8(w + 3 * rest, inside));
		w += rest * GATES;
	}
	sums[0 * UNITS] = input;
	sums[1 * UNITS] = forget;
	sums[2 * UNITS] = cell;
	sums[3 * UNITS] = output;
	return w;
}

/** The cells of some units, as a state has them. */
VMCU_INLINE int32x4_t cells_of(const int8_t *bytes, mve_pred16_t some)
{
	const uint32x4_t at = vidupq_n_u32(0, 2);
	const int32x4_t low =
		(int32x4_t)vldrbq_gather_offset_z_u32((const uint8_t *)bytes, at, some);
	const int32x4_t high = vldrbq_gather_offset_z_s32(bytes + 1, at, some);

	return vorrq_s32(low, vshlq_n_s32(high, 8));
}

VMCU_INLINE void put_cells(int8_t *bytes, int32x4_t cells, mve_pred16_t some)
{
	const uint32x4_t at = vidupq_n_u32(0, 2);

	vstrbq_scatter_offset_p_s32(bytes, at, cells, some);
	vstrbq_scatter_offset_p_s32(bytes + 1, at, vshrq_n_s32(cells, 8), some);
}

/**
 * Computes the outputs of units from the sums of their gates, by inputs and by units. @a cells:
 * their own, which become the next ones.
 */
VMCU_INLINE int32x4_t step_units(const struct vmcu_lstm_params *p, const uint16_t *table,
				 const gates_t x, const gates_t h, int32x4_t *cells)
{
	const int32x4_t entering =
		sigmoid_of(table, gate_sums(x[0], h[0], &p->input_input, &p->input_hidden));
	const int32x4_t staying =
		sigmoid_of(table, gate_sums(x[1], h[1], &p->forget_input, &p->forget_hidden));
	const int32x4_t shape = gate_sums(x[2], h[2], &p->cell_input, &p->cell_hidden);
	const int32x4_t shown =
		sigmoid_of(table, gate_sums(x[3], h[3], &p->output_input, &p->output_hidden));
	const int32x4_t taken = vmulq_s32(entering, tanh_of(table, vmulq_n_s32(shape, 3)));
	int32x4_t next = sum_16(scaled_by(vmulq_s32(staying, *cells), &p->kept),
				scaled_by(taken, &p->taken));
	int32x4_t seen;

	next = vmaxq_s32(vminq_s32(next, vdupq_n_s32(p->clip)), vdupq_n_s32(-p->clip));
	*cells = next;
	seen = vrshlq_n_s32(vmulq_n_s32(next, p->tanh_multiplier), -p->tanh_shift);
	seen = scaled_by(vmulq_s32(tanh_of(table, seen), shown), &p->given);
	seen = vqaddq_n_s32(seen, p->zero);
	return vmaxq_s32(vminq_s32(seen, vdupq_n_s32(INT8_MAX)), vdupq_n_s32(INT8_MIN));
}

/** Computes all units. */
static void step_all(const struct job *job, int8_t *dst)
{
	const struct vmcu_lstm_params *p = job->p;
	const int8_t *src = job->before;
	const int32_t units = job->units;
	const int8_t *w = job->weights;
	const int32_t *biases = job->biases;
	int32_t x[GATES][UNITS] = {0};
	int32_t h[GATES][UNITS] = {0};

	for (int32_t unit = 0; unit < units; unit += UNITS) {
		const mve_pred16_t some = vctp32q((uint32_t)(units - unit));
		int32x4_t cells = vdupq_n_s32(0);
		int32x4_t given;

		for (int32_t i = 0; i < vmcu_min(UNITS, units - unit); i++, biases += 2 * GATES) {
			w = sum_gates(&x[0][i], &biases[0], job->input, w, job->inputs);
			w = sum_gates(&h[0][i], &biases[GATES], job->hidden, w, units);
		}
		if (src != NULL) {
			cells = cells_of(&src[units + 2 * unit], some);
		}
		given = step_units(p, job->table, x, h, &cells);
		vstrbq_p_s32(&dst[unit], vsubq_n_s32(given, job->less), some);
		put_cells(&dst[units + 2 * unit], cells, some);
	}
}

#endif /* VMCU_KERNELS_LSTM_VECTORS_H_ */
