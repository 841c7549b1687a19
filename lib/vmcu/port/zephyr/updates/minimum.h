/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The greatest version that a device has taken, at the end of a slot.
 *
 * The record of an update has it behind its own members, in the same write. Blocks behind the
 * record take it where the other slot, which is about to be erased, has a greater one: of a model
 * that was taken and has rotted since.
 */

#ifndef VMCU_MINIMUM_H_
#define VMCU_MINIMUM_H_

#include <stdint.h>

#include <zephyr/storage/flash_map.h>

/** Bytes of a version, and what tells a whole one from an empty or a damaged one. */
#define VMCU_MINIMUM_BYTES 8U
/** Where it is in a record, in bytes from its start. */
#define VMCU_MINIMUM_AT    16U

/** Writes it as a slot has it. */
void vmcu_minimum_put(uint8_t bytes[VMCU_MINIMUM_BYTES], uint32_t version);

/** The greatest one at the end of a slot, 0 if there is none. */
int vmcu_minimum_read(uint8_t slot, uint32_t *version);

/** Adds one behind a slot's record; -ENOSPC if there is no room. */
int vmcu_minimum_add(uint8_t slot, uint32_t version);

#endif /* VMCU_MINIMUM_H_ */
