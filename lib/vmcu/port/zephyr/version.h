/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief The version of a model, for counters and trace events. */

#ifndef VMCU_VERSION_H_
#define VMCU_VERSION_H_

#include <vmcu/model.h>

#if defined(VMCU_CONTAINERS)
#include <vmcu/container.h>
#endif

/** The version that a model's container states; 0 without one, and for a model of the firmware. */
static inline uint32_t vmcu_model_version(const struct vmcu_model *model)
{
	uint32_t version = 0U;

#if defined(VMCU_CONTAINERS)
	uint32_t product;

	if (model->base != 0U &&
	    vmcu_container_release((const void *)model->base, SIZE_MAX, &product, &version) != 0) {
		version = 0U;
	}
#else
	(void)model;
#endif
	return version;
}

#endif /* VMCU_VERSION_H_ */
