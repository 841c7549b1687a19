/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Shows the commands as if they were typed; then the prompt is yours. */

#include <zephyr/kernel.h>
#include <zephyr/shell/shell.h>
#include <zephyr/shell/shell_uart.h>
#include <zephyr/sys/util.h>

static const char *const lines[] = {
	"vmcu list",     "vmcu info digits",    "vmcu run digits 2",
	"vmcu run rows", "vmcu profile digits", "vmcu pool digits",
};

int main(void)
{
	const struct shell *sh = shell_backend_uart_get_ptr();

	/* The shell's own thread makes it ready. */
	while (!shell_ready(sh)) {
		k_msleep(10);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(lines); i++) {
		shell_print(sh, "> %s", lines[i]);
		(void)shell_execute_cmd(sh, lines[i]);
	}
	return 0;
}
