/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <zephyr/sys/byteorder.h>
#include <zephyr/sys/crc.h>
#include <zephyr/sys/util.h>

#include <vmcu/slots.h>

#include "minimum.h"

void vmcu_minimum_put(uint8_t bytes[VMCU_MINIMUM_BYTES], uint32_t version)
{
	sys_put_le32(version, bytes);
	/* Inverted: of bytes that are all ones the CRC is all ones, too. */
	sys_put_le32(~crc32_ieee(bytes, sizeof(version)), &bytes[sizeof(version)]);
}

static bool get_version(const uint8_t bytes[VMCU_MINIMUM_BYTES], uint32_t *version)
{
	*version = sys_get_le32(bytes);
	return ~crc32_ieee(bytes, sizeof(*version)) == sys_get_le32(&bytes[sizeof(*version)]);
}

static bool is_erased(const struct flash_area *area, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (bytes[i] != flash_area_erased_val(area)) {
			return false;
		}
	}
	return true;
}

/**
 * @brief Visits the places of copies, from the slot's end down.
 *
 * Below the record an update may have any bytes: there only erased blocks and copies may follow its
 * end, @a size, and the first erased block is the last one visited.
 *
 * @param version Raised to the greatest one found.
 *
 * @return The first erased place, or -1.
 */
static off_t visit_copies(const struct flash_area *area, uint32_t size, uint32_t *version)
{
	const off_t record = (off_t)(area->fa_size - VMCU_SLOT_RECORD_ROOM);
	const off_t lowest = (size == 0U) ? record : (off_t)size;
	const off_t step = (off_t)ROUND_UP(VMCU_MINIMUM_BYTES, flash_area_align(area));
	off_t empty = -1;

	for (off_t at = (off_t)area->fa_size - step; at >= lowest; at -= step) {
		uint8_t block[VMCU_SLOT_BLOCK_MAX];
		uint32_t found;

		if ((at >= record && at < record + (off_t)VMCU_SLOT_BLOCK_MAX) ||
		    flash_area_read(area, at, block, (size_t)step) != 0) {
			continue;
		}
		if (is_erased(area, block, (size_t)step)) {
			empty = (empty < 0) ? at : empty;
			if (at < record) {
				break;
			}
		} else if (get_version(block, &found)) {
			*version = MAX(*version, found);
		}
	}
	return empty;
}

bool vmcu_minimum_recorded(const struct flash_area *area, uint32_t *version)
{
	off_t at = (off_t)(area->fa_size - VMCU_SLOT_RECORD_ROOM + VMCU_MINIMUM_AT);
	uint8_t bytes[VMCU_MINIMUM_BYTES];

	for (int n = 0; n < VMCU_MINIMUM_COPIES; n++, at += VMCU_MINIMUM_BYTES) {
		if (flash_area_read(area, at, bytes, sizeof(bytes)) == 0 &&
		    get_version(bytes, version)) {
			return true;
		}
	}
	return false;
}

uint32_t vmcu_minimum_read(uint8_t slot, uint32_t size)
{
	const struct flash_area *area;
	uint32_t version;

	if (flash_area_open(slot, &area) != 0) {
		return 0U;
	}
	if (!vmcu_minimum_recorded(area, &version)) {
		version = 0U;
	}
	(void)visit_copies(area, size, &version);
	flash_area_close(area);
	return version;
}

int vmcu_minimum_add(uint8_t slot, uint32_t size, uint32_t version)
{
	uint8_t block[VMCU_SLOT_BLOCK_MAX];
	const struct flash_area *area;
	uint32_t found = 0U;
	off_t at;
	int err = flash_area_open(slot, &area);

	if (err != 0) {
		return err;
	}
	memset(block, flash_area_erased_val(area), sizeof(block));
	vmcu_minimum_put(block, version);
	at = visit_copies(area, size, &found);
	err = (at < 0) ? -ENOSPC
		       : flash_area_write(area, at, block,
					  ROUND_UP(VMCU_MINIMUM_BYTES, flash_area_align(area)));
	flash_area_close(area);
	return err;
}
