/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The first core's image: starts the second core, then runs inferences with it. */

#include <string.h>

#include <zephyr/kernel.h>

#include <soc.h>

#include "inferences.h"
#include "shared.h"

int main(void)
{
	struct vmcu_context ctx;
	struct vmcu_team_context team;
	int err;

	memset(&SHARED->progress, 0, sizeof(SHARED->progress));
	err = init_shared(&team, &ctx);
	if (err == 0) {
		wakeup_cpu1();
	}
	/* QEMU's system timer stands still for a while at its first tick. */
	k_msleep(100);
	return run_inferences(&team, err);
}
