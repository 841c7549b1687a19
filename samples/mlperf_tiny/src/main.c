/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The serial port, the clock and the model behind the benchmark's protocol. */

#include <errno.h>
#include <stdio.h>

#include <zephyr/console/console.h>
#include <zephyr/kernel.h>

#include <vmcu/vmcu.h>

#include "network.h"
#include "protocol.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(network));
static int8_t input[VMCU_MODEL_NETWORK_INPUT0_BYTES];
/* For the one benchmark whose runner sends reals. */
static float reals[REALS ? VMCU_MODEL_NETWORK_INPUT0_BYTES : 1];
static struct vmcu_context ctx;

static const int8_t *infer(void)
{
	return (vmcu_invoke(&ctx) == 0) ? vmcu_output(&ctx, 0) : NULL;
}

static uint64_t microseconds(void)
{
	return k_ticks_to_us_floor64(k_uptime_ticks());
}

int main(void)
{
	static struct dut dut = {
		.benchmark = BENCHMARK,
		.in = {VMCU_MODEL_NETWORK_INPUT0_BYTES, VMCU_MODEL_NETWORK_INPUT0_SCALE,
		       VMCU_MODEL_NETWORK_INPUT0_ZERO_POINT},
		.out = {VMCU_MODEL_NETWORK_OUTPUT0_BYTES, VMCU_MODEL_NETWORK_OUTPUT0_SCALE,
			VMCU_MODEL_NETWORK_OUTPUT0_ZERO_POINT},
		.input = input,
		.data = REALS ? (uint8_t *)reals : (uint8_t *)input,
		.data_bytes = REALS ? sizeof(reals) : sizeof(input),
		.offset = OFFSET,
		.reals = REALS ? reals : NULL,
		.infer = infer,
		.microseconds = microseconds,
	};

	if (vmcu_init(&ctx, &network_model, pool, sizeof(pool)) != 0 ||
	    vmcu_set_input(&ctx, input) != 0 || console_init() != 0) {
		printf("e-[Initialisation failed]\n");
		return -EIO;
	}
	printf("m-timestamp-mode-performance\nm-init-done\nm-ready\n");
	for (;;) {
		dut_receive(&dut, (char)console_getchar());
	}
}
