/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief Handlers of shell commands that run no model, and how a command finds one. */

#ifndef VMCU_SHELL_MODELS_H_
#define VMCU_SHELL_MODELS_H_

#include <stdbool.h>

#include <zephyr/shell/shell.h>

#include <vmcu/model.h>

/** The model of that name; NULL after a message if the image has none. */
const struct vmcu_model *vmcu_shell_find_model(const struct shell *sh, const char *name);

/** True for a model that has one pool, of which the shell can tell; else false after a message. */
bool vmcu_shell_has_one_pool(const struct shell *sh, const struct vmcu_model *model);

int vmcu_shell_list(const struct shell *sh, size_t argc, char **argv);
int vmcu_shell_info(const struct shell *sh, size_t argc, char **argv);
int vmcu_shell_pool(const struct shell *sh, size_t argc, char **argv);

#if defined(CONFIG_VMCU_COUNTERS)
int vmcu_shell_counters(const struct shell *sh, size_t argc, char **argv);
#else
#define vmcu_shell_counters NULL
#endif

#endif /* VMCU_SHELL_MODELS_H_ */
