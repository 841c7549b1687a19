/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief The two slots of the board. */

#ifndef SAMPLE_SLOTS_H_
#define SAMPLE_SLOTS_H_

#include <zephyr/devicetree.h>

#include <vmcu/partitions.h>
#include <vmcu/slots.h>

#if defined(CONFIG_FLASH_SIMULATOR)
#include <zephyr/drivers/flash/flash_simulator.h>
#endif

#if defined(CONFIG_BOOTLOADER_MCUBOOT)
/* MCUboot erases the slots of its images. */
#define ENDS_BEFORE(a, b) (PARTITION_OFFSET(a) + PARTITION_SIZE(a) <= PARTITION_OFFSET(b))
#define ARE_APART(a, b)   (ENDS_BEFORE(a, b) || ENDS_BEFORE(b, a))
#define IS_FREE(model)                                                                             \
	(ARE_APART(model, boot_partition) && ARE_APART(model, slot0_partition) &&                  \
	 ARE_APART(model, slot1_partition))
BUILD_ASSERT(IS_FREE(model_a) && IS_FREE(model_b), "a model overlaps a partition of MCUboot");
#endif

/** Where the core reads a partition of the flash that it has. */
static inline const void *address_of(uintptr_t start, size_t offset)
{
#if defined(CONFIG_FLASH_SIMULATOR)
	const struct device *flash = PARTITION_DEVICE(model_a);
	size_t size;

	ARG_UNUSED(start);
	return (const uint8_t *)flash_simulator_get_memory(flash, &size) + offset;
#else
	return (const void *)(start + offset);
#endif
}

static inline void find_slots(struct vmcu_slots *slots)
{
	const uintptr_t start = DT_REG_ADDR(DT_GPARENT(DT_NODELABEL(model_a)));

	slots->slot[0].area = PARTITION_ID(model_a);
	slots->slot[0].mapped = address_of(start, PARTITION_OFFSET(model_a));
	slots->slot[1].area = PARTITION_ID(model_b);
	slots->slot[1].mapped = address_of(start, PARTITION_OFFSET(model_b));
}

#endif /* SAMPLE_SLOTS_H_ */
