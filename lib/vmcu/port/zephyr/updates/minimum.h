/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The greatest version that a device has accepted, at the end of a slot.
 *
 * A record contains it. If the other slot, which the runtime is about to erase, stores a greater
 * one, the runtime copies that: it is the version of a model that was accepted and later damaged.
 * A copy that a power failure interrupts stays where it is, and the next one has another place: the
 * blocks behind the record, then those between record and update, from the record down.
 */

#ifndef VMCU_MINIMUM_H_
#define VMCU_MINIMUM_H_

#include <stdbool.h>
#include <stdint.h>

#include <zephyr/storage/flash_map.h>

/** Bytes of a version and its CRC. */
#define VMCU_MINIMUM_BYTES  8U
/** Offset of the first of its copies in a record, which are next to each other. */
#define VMCU_MINIMUM_AT     16U
#define VMCU_MINIMUM_COPIES 2

/** Writes a version and its CRC. */
void vmcu_minimum_put(uint8_t bytes[VMCU_MINIMUM_BYTES], uint32_t version);

/** Reads the version of a slot's record; false if none of its copies is readable. */
bool vmcu_minimum_recorded(const struct flash_area *area, uint32_t *version);

/**
 * @brief Returns the greatest version at the end of a slot, 0 if no version is readable.
 *
 * @param slot Partition of the slot.
 * @param size Bytes of its update; 0 if it has no complete record.
 */
uint32_t vmcu_minimum_read(uint8_t slot, uint32_t size);

/** Adds a copy to a slot, see vmcu_minimum_read(); -ENOSPC if there is no erased block. */
int vmcu_minimum_add(uint8_t slot, uint32_t size, uint32_t version);

#endif /* VMCU_MINIMUM_H_ */
