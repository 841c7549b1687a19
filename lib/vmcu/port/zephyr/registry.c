/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>
#include <string.h>

#include <vmcu/registry.h>

const struct vmcu_model *vmcu_model_find(const char *name)
{
	VMCU_MODEL_FOREACH(entry)
	{
		if (strcmp(entry->model->name, name) == 0) {
			return entry->model;
		}
	}
	return NULL;
}

const struct vmcu_model *vmcu_model_get(size_t index)
{
	VMCU_MODEL_FOREACH(entry)
	{
		if (index-- == 0U) {
			return entry->model;
		}
	}
	return NULL;
}
