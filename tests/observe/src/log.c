/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* A log backend that keeps what is logged. */

#include <string.h>

#include <zephyr/logging/log_backend.h>
#include <zephyr/logging/log_output.h>
#include <zephyr/sys/util.h>

#include "log.h"

static char text[2048];
static size_t length;

static int keep(uint8_t *data, size_t bytes, void *context)
{
	const size_t room = sizeof(text) - 1U - length;

	ARG_UNUSED(context);
	memcpy(&text[length], data, MIN(bytes, room));
	length += MIN(bytes, room);
	return (int)bytes;
}

static uint8_t line[64];

LOG_OUTPUT_DEFINE(output, keep, line, sizeof(line));

static void process(const struct log_backend *const backend, union log_msg_generic *msg)
{
	ARG_UNUSED(backend);
	log_output_msg_process(&output, &msg->log, LOG_OUTPUT_FLAG_LEVEL);
}

static void panic(const struct log_backend *const backend)
{
	ARG_UNUSED(backend);
}

static const struct log_backend_api api = {.process = process, .panic = panic};

LOG_BACKEND_DEFINE(keeper, api, true);

void log_clear(void)
{
	length = 0U;
}

bool log_has(const char *wanted)
{
	text[length] = '\0';
	return strstr(text, wanted) != NULL;
}
