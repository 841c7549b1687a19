/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Serves a probe of one model over the console's UART, see vmcu/probe.h.
 *
 * With CONFIG_VMCU_CONTAINERS the model is loaded from a container.
 */

#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <vmcu/probe.h>
#include <vmcu/probe_uart.h>
#include <vmcu/vmcu.h>

#if defined(CONFIG_VMCU_CONTAINERS)
#include <vmcu/container.h>
#endif

#include "image_model.h"

#if defined(CONFIG_VMCU_SEVERAL_POOLS)
VMCU_POOLS_DEFINE(pools, image_model);
#elif defined(CONFIG_VMCU_CONTAINERS)
/* Behind the pool, the state of a loaded model: pointers to kernels, of 64 bits its tables, too. */
#define TAIL_BYTES ((sizeof(void *) > 4U) ? 1U << 18 : 1U << 9)

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(image_model) + TAIL_BYTES);

extern const uint8_t image_container[];
extern const size_t image_container_bytes;

static struct vmcu_model loaded;
#else
static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(image_model));
#endif

static int8_t
	input[MAX(VMCU_MODEL_ROW_BYTES(image_model), VMCU_MODEL_ELSEWHERE_BYTES(image_model))];

static struct vmcu_probe_layer layers[VMCU_MODEL_LAYERS(image_model)];

static int bind_context(struct vmcu_context *ctx)
{
#if defined(CONFIG_VMCU_SEVERAL_POOLS)
	return vmcu_init_pools(ctx, &image_model_model, pools, ARRAY_SIZE(pools));
#elif defined(CONFIG_VMCU_CONTAINERS)
	const int err = vmcu_model_load(&loaded, image_container, image_container_bytes, pool,
					sizeof(pool));

	return (err != 0) ? err
			  : vmcu_init(ctx, &loaded, pool, vmcu_arena_head(&loaded, sizeof(pool)));
#else
	return vmcu_init(ctx, &image_model_model, pool, sizeof(pool));
#endif
}

int main(void)
{
	struct vmcu_context ctx;
	struct vmcu_probe_port port;
	struct vmcu_probe probe = {
		.port = &port,
		.layers = layers,
		.layer_count = ARRAY_SIZE(layers),
		.input = input,
	};
	int err = bind_context(&ctx);

	if (err == 0) {
		vmcu_probe_port_init(&port, DEVICE_DT_GET(DT_CHOSEN(zephyr_console)));
		err = vmcu_probe_serve(&ctx, &probe);
	}
	printk("\nthe probe ended with %d\n", err);
	return 0;
}
