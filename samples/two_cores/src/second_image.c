/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The second core's image: does its part of each inference. */

#include "shared.h"

int main(void)
{
	struct vmcu_context ctx;
	struct vmcu_team_context team;
	int err = init_shared(&team, &ctx);

	while (err == 0) {
		err = vmcu_team_run(&team, 1);
	}
	return err;
}
