/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* The shell commands, and that Tab knows the models' names. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zephyr/shell/shell.h>
#include <zephyr/shell/shell_dummy.h>
#include <zephyr/ztest.h>

#include <vmcu/counters.h>
#include <vmcu/profile.h>
#include <vmcu/shell.h>
#include <vmcu/vmcu.h>

#include "rows.h"
#include "tiny.h"

#define ROW_ROOM 64

/** Time that each inference takes besides, see test_tracing.c. */
extern int32_t trace_pause_ms;

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(tiny) + ROW_ROOM);

static const char *printed;

/** Runs a line and keeps what it prints. */
static int run(const char *line)
{
	const struct shell *sh = shell_backend_dummy_get_ptr();
	size_t size;
	int err;

	shell_backend_dummy_clear_output(sh);
	err = shell_execute_cmd(sh, line);
	printed = shell_backend_dummy_get_output(sh, &size);
	return err;
}

static bool prints(const char *text)
{
	return strstr(printed, text) != NULL;
}

static void *setup(void)
{
	/* The shell's own thread makes it ready. */
	k_sleep(K_MSEC(100));
	return NULL;
}

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	zassert_ok(vmcu_shell_set_pool(pool, sizeof(pool)));
}

ZTEST(vmcu_shell, test_list)
{
	const char *rows;
	const char *tiny;

	zassert_ok(run("vmcu list"));
	rows = strstr(printed, "rows: pool ");
	tiny = strstr(printed, "tiny: pool ");
	zassert_not_null(rows);
	zassert_not_null(tiny);
	zassert_true(rows < tiny);
	zassert_true(prints(", input in rows"));
}

ZTEST(vmcu_shell, test_info)
{
	char wanted[80];

	zassert_ok(run("vmcu info tiny"));
	snprintf(wanted, sizeof(wanted), "tiny: pool of %u bytes", tiny_model.pool_bytes);
	zassert_true(prints(wanted));
	snprintf(wanted, sizeof(wanted), "input %s: %u x %u x %u, scale 0.",
		 tiny_model.inputs[0].name, VMCU_MODEL_TINY_INPUT0_HEIGHT,
		 VMCU_MODEL_TINY_INPUT0_WIDTH, VMCU_MODEL_TINY_INPUT0_CHANNELS);
	zassert_true(prints(wanted), "%s", printed);
	zassert_true(prints("output "));
}

/** What an inference on zeros gives. */
static void outputs_of_zeros(char *text, size_t size)
{
	static VMCU_POOL_DEFINE(other, VMCU_MODEL_POOL_BYTES(tiny));
	struct vmcu_context ctx;

	zassert_ok(vmcu_init(&ctx, &tiny_model, other, sizeof(other)));
	memset(vmcu_input(&ctx, 0), tiny_model.inputs[0].zero_point, vmcu_input_size(&ctx, 0));
	zassert_ok(vmcu_invoke(&ctx));

	const int8_t *values = vmcu_output(&ctx, 0);

	snprintf(text, size, "%s: %d %d %d ", tiny_model.outputs[0].name, values[0], values[1],
		 values[2]);
}

ZTEST(vmcu_shell, test_run)
{
	char wanted[80];

	zassert_ok(run("vmcu run tiny 3"));
	zassert_true(prints("tiny: 3 inferences on zeros"));
	outputs_of_zeros(wanted, sizeof(wanted));
	zassert_true(prints(wanted), "%s", printed);
	/* The same network, its input in rows. */
	zassert_ok(run("vmcu run rows"));
	zassert_true(prints("rows: 1 inferences on zeros"));
	zassert_true(prints(wanted), "%s", printed);
}

/* The counter of cycles has 32 bits: there it wraps around after 4,295 s. */
ZTEST(vmcu_shell, test_a_run_of_five_thousand_seconds)
{
	Z_TEST_SKIP_IFNDEF(CONFIG_BOARD_NATIVE_SIM);
	trace_pause_ms = 5000000;
	zassert_ok(run("vmcu run tiny"));
	trace_pause_ms = 2500000;
	zassert_true(prints("tiny: 1 inferences on zeros, 50000"), "%s", printed);
	zassert_ok(run("vmcu run tiny 4"));
	trace_pause_ms = 0;
	zassert_true(prints("tiny: 4 inferences on zeros, 25000"), "%s", printed);
}

ZTEST(vmcu_shell, test_counters)
{
	vmcu_counters_reset();
	zassert_ok(run("vmcu counters"));
	zassert_false(prints("inferences"));
	zassert_ok(run("vmcu run tiny 3"));
	zassert_ok(run("vmcu counters"));
	zassert_true(prints("tiny, version 0: 3 inferences, 0 errors, 0 cancelled"), "%s", printed);
	zassert_true(prints("answers: "));
}

ZTEST(vmcu_shell, test_profile)
{
	char wanted[80];

	zassert_true(tiny_model.layer_count > CONFIG_VMCU_PROFILE_LAYERS);
	zassert_ok(run("vmcu profile tiny"));
	for (uint16_t i = 0; i < tiny_model.layer_count; i++) {
		const struct vmcu_layer *layer = &tiny_model.layers[i];

		/* More where a ring's end makes two calls of one. */
		snprintf(wanted, sizeof(wanted), (layer->splits == 0U) ? "\n%5u %10u " : "\n%5u ",
			 i, layer->rows * DIV_ROUND_UP(layer->width, layer->columns));
		zassert_true(prints(wanted), "%s in %s", wanted, printed);
	}
	snprintf(wanted, sizeof(wanted), "tiny: %u layers, ", tiny_model.layer_count);
	zassert_true(prints(wanted));
}

ZTEST(vmcu_shell, test_pool)
{
	char wanted[80];

	zassert_ok(run("vmcu pool tiny"));
	for (uint16_t i = 0; i < tiny_model.tensor_count; i++) {
		snprintf(wanted, sizeof(wanted), "\n%6u %6u ", i, tiny_model.tensors[i].base);
		zassert_true(prints(wanted));
	}
}

ZTEST(vmcu_shell, test_user_errors)
{
	char wanted[80];

	zassert_equal(run("vmcu run nobody"), -ENOENT);
	zassert_true(prints("there is no model 'nobody'; `vmcu list` lists them"));
	zassert_equal(run("vmcu run tiny many"), -EINVAL);
	zassert_true(prints("'many' is not a number of inferences"));
	zassert_equal(run("vmcu run tiny 0"), -EINVAL);
	zassert_not_equal(run("vmcu run"), 0);

	zassert_ok(vmcu_shell_set_pool(pool, 32));
	zassert_equal(run("vmcu run tiny"), -ENOMEM);
	snprintf(wanted, sizeof(wanted),
		 "tiny needs a pool of %u bytes, the shell has 32: ", VMCU_MODEL_POOL_BYTES(tiny));
	zassert_true(prints(wanted), "%s", printed);
	zassert_ok(vmcu_shell_set_pool(NULL, 0));
	zassert_equal(run("vmcu profile tiny"), -ENOMEM);
	zassert_equal(vmcu_shell_set_pool(&pool[1], 64), -EINVAL);
}

/* A terminal that types `keys` and keeps what the shell writes. */
static const char *keys = "";
static char screen[256];
static size_t written;
static shell_transport_handler_t notify;
static void *notified;

static int terminal_init(const struct shell_transport *transport, const void *config,
			 shell_transport_handler_t handler, void *context)
{
	ARG_UNUSED(transport);
	ARG_UNUSED(config);
	notify = handler;
	notified = context;
	return 0;
}

static int terminal_uninit(const struct shell_transport *transport)
{
	ARG_UNUSED(transport);
	return 0;
}

static int terminal_enable(const struct shell_transport *transport, bool blocking)
{
	ARG_UNUSED(transport);
	ARG_UNUSED(blocking);
	return 0;
}

static int terminal_write(const struct shell_transport *transport, const void *data, size_t length,
			  size_t *count)
{
	const size_t room = sizeof(screen) - 1U - written;

	ARG_UNUSED(transport);
	memcpy(&screen[written], data, MIN(length, room));
	written += MIN(length, room);
	*count = length;
	notify(SHELL_TRANSPORT_EVT_TX_RDY, notified);
	return 0;
}

static int terminal_read(const struct shell_transport *transport, void *data, size_t length,
			 size_t *count)
{
	ARG_UNUSED(transport);
	*count = MIN(length, strlen(keys));
	memcpy(data, keys, *count);
	keys += *count;
	return 0;
}

static const struct shell_transport_api terminal_api = {
	.init = terminal_init,
	.uninit = terminal_uninit,
	.enable = terminal_enable,
	.write = terminal_write,
	.read = terminal_read,
};

static struct shell_transport terminal = {.api = &terminal_api};

SHELL_DEFINE(typed, "> ", &terminal, 1, 0, SHELL_FLAG_OLF_CRLF);

static void type(const char *text)
{
	written = 0;
	memset(screen, 0, sizeof(screen));
	keys = text;
	notify(SHELL_TRANSPORT_EVT_RX_RDY, notified);
	k_sleep(K_MSEC(200));
}

ZTEST(vmcu_shell, test_tab_completes_names)
{
	static const struct shell_backend_config_flags flags = SHELL_DEFAULT_BACKEND_CONFIG_FLAGS;

	zassert_ok(shell_init(&typed, NULL, flags, false, 0));
	k_sleep(K_MSEC(100));
	type("vmcu info \t");
	zassert_not_null(strstr(screen, "rows"), "%s", screen);
	zassert_not_null(strstr(screen, "tiny"), "%s", screen);
	type("t\t");
	zassert_not_null(strstr(screen, "iny"), "%s", screen);
}

ZTEST_SUITE(vmcu_shell, NULL, setup, before, NULL, NULL);
