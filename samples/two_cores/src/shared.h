/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What both images use, at an address that the devicetree fixes. */

#ifndef TWO_CORES_SHARED_H_
#define TWO_CORES_SHARED_H_

#include <stdint.h>

#include <zephyr/devicetree.h>
#include <zephyr/sys/util.h>
#include <zephyr/toolchain.h>

#include <vmcu/workers.h>

#include "digits.h"

struct shared {
	struct vmcu_team_progress progress;
	int8_t pool[VMCU_MODEL_POOL_BYTES(digits)] __aligned(VMCU_POOL_ALIGN);
	int8_t scratch[MAX(VMCU_MODEL_SCRATCH_BYTES(digits), 1)] __aligned(VMCU_POOL_ALIGN);
};

#define SHARED ((struct shared *)DT_REG_ADDR(DT_CHOSEN(vmcu_shared)))

BUILD_ASSERT(sizeof(struct shared) <= DT_REG_SIZE(DT_CHOSEN(vmcu_shared)));

/* Sets up what each image has of its own. */
static inline int init_shared(struct vmcu_team_context *team, struct vmcu_context *ctx)
{
	int err = vmcu_init(ctx, &digits_model, SHARED->pool, sizeof(SHARED->pool));

	if (err != 0) {
		return err;
	}
	return vmcu_team_init(team, ctx, &digits_team, &SHARED->progress, SHARED->scratch,
			      sizeof(SHARED->scratch));
}

#endif /* TWO_CORES_SHARED_H_ */
