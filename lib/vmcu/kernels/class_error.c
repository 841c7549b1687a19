/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

/** A probability of 1, in units of 2^-16. */
#define CERTAIN 65536

void vmcu_class_error(const struct vmcu_call *call)
{
	const int32_t classes = vmcu_call_output(call)->channels / 2;
	const int32_t label = *vmcu_input_row(call, 1, 0);
	const bool known = label >= 0 && label < classes;
	const int8_t *src = vmcu_input_row(call, 0, 0);
	int8_t *dst = vmcu_output_start(call);

	for (int32_t n = 0; n < classes; n++, src += 2, dst += 2) {
		const int32_t share = vmcu_int16(src) - INT16_MIN;
		const int32_t error = share - ((n == label) ? CERTAIN : 0);

		vmcu_put_int16(dst, known ? error >> 1 : 0);
	}
}
