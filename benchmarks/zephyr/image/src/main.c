/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "semihosting.h"

int run_image(void);

int main(void)
{
	vmcu_semihosting_exit(run_image());
}
