/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Prints the words of stored clips of sound, and the network's score of each word. */

#include <stdio.h>
#include <string.h>

#include <vmcu/vmcu.h>

#include "clips.h"
#include "keyword.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(keyword));

static int print_scores(void)
{
	struct vmcu_context ctx;
	int err = vmcu_init(&ctx, &keyword_model, pool, sizeof(pool));

	for (unsigned int clip = 0; err == 0 && clip < CLIPS; clip++) {
		memcpy(vmcu_input(&ctx, 0), clips[clip], sizeof(clips[clip]));
		err = vmcu_invoke(&ctx);

		const int8_t *scores = vmcu_output(&ctx, 0);

		printf("%s:", words[played[clip]]);
		for (unsigned int i = 0; err == 0 && i < VMCU_MODEL_KEYWORD_OUTPUT0_BYTES; i++) {
			printf(" %d", scores[i]);
		}
		printf("\n");
	}
	if (err != 0) {
		printf("keyword: error %d\n", err);
	}
	return err;
}

#if defined(ESP_PLATFORM)
void app_main(void)
{
	(void)print_scores();
}
#else
int main(void)
{
	return print_scores();
}
#endif
