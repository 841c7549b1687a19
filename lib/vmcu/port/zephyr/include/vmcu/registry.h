/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The models of an image, by name: CONFIG_VMCU_REGISTRY.
 *
 * Every model that vmcu_add_model() compiles enters itself. The list is const and in flash; models
 * in it stay linked, with their kernels, also where nothing else refers to them.
 */

#ifndef VMCU_REGISTRY_H_
#define VMCU_REGISTRY_H_

#include <zephyr/sys/iterable_sections.h>

#include <vmcu/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_registry Registry
 * @{
 */

/** An entry of the list. */
struct vmcu_registered {
	const struct vmcu_model *model;
};

/* That of vmcu/vmcu.h, which enters nothing. */
#undef VMCU_MODEL_REGISTER

/** Enters the model called @a name; the C file that `vmcu build` writes does so. */
#define VMCU_MODEL_REGISTER(name)                                                                  \
	extern const struct vmcu_model name##_model;                                               \
	static const STRUCT_SECTION_ITERABLE(vmcu_registered, vmcu_registered_##name) = {          \
		.model = &name##_model,                                                            \
	}

/** Visits all entries in the order of their names; @a entry->model is the model. */
#define VMCU_MODEL_FOREACH(entry) STRUCT_SECTION_FOREACH(vmcu_registered, entry)

/** @brief The model called @a name, NULL if the image has none. */
const struct vmcu_model *vmcu_model_find(const char *name);

/** @brief Model number @a index in the order of names, NULL behind the last. */
const struct vmcu_model *vmcu_model_get(size_t index);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_REGISTRY_H_ */
