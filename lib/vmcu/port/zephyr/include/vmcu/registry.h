/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The models of an image, by name: CONFIG_VMCU_REGISTRY.
 *
 * Every model that vmcu_add_model() compiles adds itself to the list. The list is const and in
 * flash. The linker keeps its models and their kernels even if no other code refers to them.
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

/** An entry of the list of models. */
struct vmcu_registered {
	const struct vmcu_model *model;
};

/* The one of vmcu/vmcu.h adds nothing. */
#undef VMCU_MODEL_REGISTER

/** Adds the model called @a name to the list. The C file from `vmcu build` uses this macro. */
#define VMCU_MODEL_REGISTER(name)                                                                  \
	extern const struct vmcu_model name##_model;                                               \
	static const STRUCT_SECTION_ITERABLE(vmcu_registered, vmcu_registered_##name) = {          \
		.model = &name##_model,                                                            \
	}

/** Iterates over all entries in the order of their names. @a entry->model is the model. */
#define VMCU_MODEL_FOREACH(entry) STRUCT_SECTION_FOREACH(vmcu_registered, entry)

/** @brief Returns the model called @a name, NULL if the image has none. */
const struct vmcu_model *vmcu_model_find(const char *name);

/** @brief Returns model @a index in the order of names, from 0; NULL after the last one. */
const struct vmcu_model *vmcu_model_get(size_t index);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_REGISTRY_H_ */
