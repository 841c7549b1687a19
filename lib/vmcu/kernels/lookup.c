/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

#include "vectors.h"

/** Of bytes src[0] to src[bytes - 1]; @a table begins with the byte of the least. */
static void look_up(int8_t *dst, const int8_t *src, const int8_t *table, int32_t bytes)
{
#if defined(VMCU_VECTORS)
	for (; bytes > 0; bytes -= 16, src += 16, dst += 16) {
		const mve_pred16_t some = vctp8q((uint32_t)bytes);
		const uint8x16_t sign = vdupq_n_u8(0x80);
		const uint8x16_t at = veorq_u8((uint8x16_t)vldrbq_z_s8(src, some), sign);

		vstrbq_p_s8(dst, vldrbq_gather_offset_z_s8(table, at, some), some);
	}
#else
	const int8_t *const middle = table - INT8_MIN;

	for (int32_t i = 0; i < bytes; i++) {
		dst[i] = middle[src[i]];
	}
#endif
}

void vmcu_lookup(const struct vmcu_call *call)
{
	const struct vmcu_lookup_params *p = vmcu_params(call);
	const int8_t *table = vmcu_constants(call, p->table);
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);
	const int32_t bytes = call->columns * vmcu_call_output(call)->channels;

	look_up(dst, src, table, bytes);
}
