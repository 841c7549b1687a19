/*
 * SPDX-License-Identifier: Apache-2.0
 */

/** @file @brief A device with two slots, that starts over. */

#ifndef TEST_DEVICE_H_
#define TEST_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#include <vmcu/slots.h>

/** An update as it arrives. */
struct update {
	const char *name; /**< of its model */
	const uint8_t *data;
	size_t size;
};

extern const struct update tiny;
extern const struct update hello;
extern const struct update rows;
extern struct vmcu_slots slots;
/** The product that device_reset() gives the device, 0 at first. */
extern uint32_t device_product;
/** Where nothing that matters is. */
extern uint8_t scratch[4096];

/** A device whose flash is empty. */
void device_new(void);

/** RAM is lost, flash stays. Returns what vmcu_slots_open() does. */
int device_reset(void);

/** Takes an update, which must succeed. */
void device_take(const struct update *update);

/** The model in use gives what this update's vector says. */
void device_runs(const struct update *update);

/** The update's bytes in scratch memory, to be damaged. */
uint8_t *copy_of(const struct update *update);

#endif /* TEST_DEVICE_H_ */
