/*
 * SPDX-License-Identifier: Apache-2.0
 */

#ifndef TWO_CORES_INFERENCES_H_
#define TWO_CORES_INFERENCES_H_

#include <vmcu/workers.h>

/* As worker 0, runs inferences with the team and alone, and prints both. err: of the setup. */
int run_inferences(struct vmcu_team_context *team, int err);

#endif /* TWO_CORES_INFERENCES_H_ */
