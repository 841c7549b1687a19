/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Runs the vector of an update, as a device does, twice: prints what both calls return. */

#include <vmcu/self_test.h>

#include "../check.h"

#define MOST_BYTES (1U << 20)

static _Alignas(VMCU_CONTAINER_ALIGN) uint8_t update[MOST_BYTES];
static _Alignas(VMCU_CONTAINER_ALIGN) uint8_t arena[MOST_BYTES];

int main(int argc, char **argv)
{
	FILE *file = (argc == 2) ? fopen(argv[1], "rb") : NULL;
	struct vmcu_refusal refusal = {0};
	struct vmcu_model model;
	struct vmcu_context ctx;
	size_t size;
	int err;

	CHECK(file != NULL);
	size = fread(update, 1, sizeof(update), file);
	CHECK(fclose(file) == 0 && size < sizeof(update));
	err = vmcu_model_load_as(&model, update, size, arena, sizeof(arena), NULL, &refusal);
	if (err != 0) {
		printf("%d %s\n", err, refusal.what);
		return 0;
	}
	CHECK(vmcu_init(&ctx, &model, arena, vmcu_arena_head(&model, sizeof(arena))) == 0);
	for (int i = 0; i < 2; i++) {
		printf("%d\n", vmcu_self_test(&ctx, update, size));
	}
	return 0;
}
