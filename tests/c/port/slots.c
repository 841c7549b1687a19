/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Flash that fails at each byte of an update, again and again, and in one block. */

#include "slots_device.h"

/** The update of the model in use is damaged; after a reset the other one runs. */
static void damage(void)
{
	flash.bytes[slots.used][UPDATE_BYTES / 2] ^= 1U;
	(void)reset();
}

/** A device that runs version 1; version 3, which it had accepted, is damaged. */
static void damaged_device(uint32_t block, uint8_t erased)
{
	new_device(block, erased);
	CHECK(update(1U) == 0 && update(3U) == 0);
	damage();
	CHECK(running() == 1U && slots.minimum == 3U);
}

/** Power fails at each byte and each page of an update that raises the version. */
static void test_each_byte(uint32_t block, uint8_t erased)
{
	bool failed = true;

	for (int left = 0; failed; left++) {
		new_device(block, erased);
		CHECK(update(1U) == 0);
		flash.left = left;
		failed = update(3U) != 0;
		CHECK(reset() == 0);
		CHECK(running() == 3U || (failed && running() == 1U));
		CHECK(slots.minimum == running());
		if (running() == 3U) {
			/* However its record was written, its version is stored. */
			damage();
			CHECK(running() == 1U && slots.minimum == 3U);
			CHECK(update(2U) == -EACCES);
		}
		CHECK(update(3U) == 0 && reset() == 0 && running() == 3U);
	}
}

/** The same where the version has to be copied first. */
static void test_each_byte_of_a_copy(uint32_t block, uint8_t erased)
{
	bool failed = true;

	for (int left = 0; failed; left++) {
		damaged_device(block, erased);
		flash.left = left;
		failed = update(4U) != 0;
		CHECK(reset() == 0);
		CHECK(running() == 4U || (failed && running() == 1U));
		CHECK(slots.minimum == MAX(running(), 3U));
		CHECK(update(2U) == -EACCES);
		CHECK(update(4U) == 0 && reset() == 0 && running() == 4U);
	}
}

/** Power fails in one copy after the other, and none ends. */
static void test_copies(uint32_t block, uint8_t erased)
{
	damaged_device(block, erased);
	CHECK(vmcu_slots_begin(&slots, UPDATE_BYTES) == 0);
	/* The first is behind the record, where damage to that does not matter. */
	CHECK(flash.bytes[0][SLOT_BYTES - MAX(block, 8U)] == 3U);
	damaged_device(block, erased);
	for (int i = 0; i < 30; i++) {
		flash.left = 2;
		CHECK(update(3U) == -EIO);
		CHECK(reset() == 0 && running() == 1U && slots.minimum == 3U);
	}
	CHECK(update(2U) == -EACCES);
	CHECK(reset() == 0 && slots.minimum == 3U);
	CHECK(update(3U) == 0 && reset() == 0 && running() == 3U);
}

/** A slot with few free bytes has few blocks for copies: those behind the record, and two or more.
 */
static void test_full_slot(uint32_t block, uint8_t erased)
{
	const size_t most = SLOT_BYTES - VMCU_SLOT_RECORD_ROOM - 64U;
	const uint32_t copies = (32U + 64U) / MAX(block, 8U);
	int err = 0;

	new_device(block, erased);
	CHECK(vmcu_slots_update(&slots, image_of(1U, most), most) == 0);
	CHECK(update(3U) == 0);
	damage();
	for (uint32_t i = 0; i <= copies; i++) {
		flash.left = 2;
		err = update(3U);
		CHECK(err == ((i < copies) ? -EIO : -ENOSPC));
		CHECK(reset() == 0 && running() == 1U && slots.minimum == 3U);
	}
}

/** Earlier releases wrote copies from the record up. */
static void test_copy_of_an_earlier_release(uint32_t block, uint8_t erased)
{
	uint8_t *record = &flash.bytes[0][SLOT_BYTES - VMCU_SLOT_RECORD_ROOM];

	damaged_device(block, erased);
	memcpy(&record[32], &flash.bytes[1][SLOT_BYTES - VMCU_SLOT_RECORD_ROOM + 16U], 8U);
	memset(flash.bytes[1], erased, SLOT_BYTES);
	CHECK(reset() == 0 && running() == 1U && slots.minimum == 3U);
}

/** Nobody but vmcu says which version is the least: not an update that it has refused. */
static void test_refused_update(uint32_t block, uint8_t erased)
{
	const size_t most = SLOT_BYTES - VMCU_SLOT_RECORD_ROOM;
	static uint8_t bytes[SLOT_BYTES];

	new_device(block, erased);
	CHECK(update(1U) == 0 && update(9U) == 0);
	/* The bytes of a whole slot, whose copies of a version would be found. */
	for (size_t at = 0; at < most; at += 8U) {
		memcpy(&bytes[at], &flash.bytes[1][SLOT_BYTES - VMCU_SLOT_RECORD_ROOM + 16U], 8U);
	}
	new_device(block, erased);
	CHECK(update(1U) == 0);
	CHECK(vmcu_slots_update(&slots, bytes, most) == -EBADMSG);
	CHECK(reset() == 0 && running() == 1U && slots.minimum == 1U);
	CHECK(update(2U) == 0);
}

static void test_unreadable_slots(uint32_t block, uint8_t erased)
{
	new_device(block, erased);
	CHECK(update(1U) == 0);
	flash.unreadable = 1;
	CHECK(reset() == 0 && running() == 1U);
	flash.unreadable = 0;
	CHECK(reset() == -EIO && running() == 0U);
	flash.unreadable = NOTHING;
	flash.closed = 1;
	CHECK(reset() == 0 && running() == 1U);
	CHECK(update(3U) == -ENODEV);
	flash.closed = 0;
	CHECK(reset() == -ENODEV);
	flash.closed = NOTHING;
	CHECK(reset() == 0 && update(3U) == 0);
	/* The version that only the unreadable slot stores is found before that is erased. */
	flash.unreadable = 1;
	CHECK(reset() == 0 && running() == 1U && slots.minimum == 1U);
	flash.unreadable = NOTHING;
	CHECK(update(2U) == -EACCES && running() == 1U);
	CHECK(reset() == 0 && slots.minimum == 3U);
}

/** A block that cannot be read, where a copy was cut, hides neither the model nor the next copy. */
static void test_an_unreadable_copy(uint32_t block, uint8_t erased)
{
	damaged_device(block, erased);
	flash.bad = SLOT_BYTES - 4;
	CHECK(reset() == 0 && running() == 1U && slots.minimum == 3U);
	CHECK(vmcu_slots_begin(&slots, UPDATE_BYTES) == 0);
	CHECK(reset() == 0 && running() == 1U && slots.minimum == 3U);
}

/** Without a model nothing is copied: the slot with the greatest version is not erased first. */
static void test_no_model(uint32_t block, uint8_t erased)
{
	for (int newest = 0; newest < 2; newest++) {
		new_device(block, erased);
		CHECK(update(1U) == 0 && update(3U) == 0);
		CHECK(newest == 1 || update(4U) == 0);
		flash.bytes[0][UPDATE_BYTES / 2] ^= 1U;
		flash.bytes[1][UPDATE_BYTES / 2] ^= 1U;
		CHECK(reset() == -EBADMSG && running() == 0U);
		/* Nor is there a place for a copy. */
		memset(&flash.bytes[0][SLOT_BYTES - 32], 0x3c, 32U);
		memset(&flash.bytes[1][SLOT_BYTES - 32], 0x3c, 32U);
		flash.left = 5;
		CHECK(update(4U) == -EIO);
		CHECK(reset() != 0 && slots.minimum == ((newest == 0) ? 4U : 3U));
		CHECK(update(4U) == 0 && reset() == 0 && running() == 4U);
	}
}

/** An application that lowers the minimum during an update gets an older model. The device keeps
 * the greatest version.
 */
static void test_lower_minimum(uint32_t block, uint8_t erased)
{
	new_device(block, erased);
	CHECK(update(1U) == 0 && update(3U) == 0);
	slots.minimum = 0U;
	CHECK(update(2U) == -EACCES);
	CHECK(vmcu_slots_begin(&slots, UPDATE_BYTES) == 0);
	slots.minimum = 0U;
	CHECK(vmcu_slots_write(&slots, image_of(2U, UPDATE_BYTES), UPDATE_BYTES) == 0);
	CHECK(vmcu_slots_commit(&slots) == 0 && running() == 2U);
	memset(flash.bytes[1], erased, SLOT_BYTES);
	CHECK(reset() == 0 && running() == 2U && slots.minimum == 3U);
}

/** No more bytes than announced. */
static void test_size(uint32_t block, uint8_t erased)
{
	const uint8_t *bytes;

	new_device(block, erased);
	CHECK(update(1U) == 0);
	bytes = image_of(2U, UPDATE_BYTES);
	for (size_t size = 0; size < UPDATE_BYTES; size += 199U) {
		CHECK(vmcu_slots_begin(&slots, size) == 0);
		CHECK(vmcu_slots_write(&slots, bytes, size) == 0);
		CHECK(vmcu_slots_write(&slots, &bytes[size], 1U) == -EFBIG);
		CHECK(vmcu_slots_write(&slots, bytes, 0U) == -EINVAL);
		CHECK(vmcu_slots_commit(&slots) == -EINVAL);
		CHECK(running() == 1U);
	}
	CHECK(vmcu_slots_begin(&slots, SLOT_BYTES - VMCU_SLOT_RECORD_ROOM + 1U) == -EFBIG);
	CHECK(vmcu_slots_begin(&slots, UPDATE_BYTES) == 0);
	for (size_t at = 0; at < UPDATE_BYTES; at++) {
		CHECK(vmcu_slots_write(&slots, &bytes[at], 1U) == 0);
	}
	CHECK(vmcu_slots_commit(&slots) == 0 && running() == 2U);
}

int main(void)
{
	static void (*const tests[])(uint32_t block, uint8_t erased) = {
		test_each_byte,
		test_each_byte_of_a_copy,
		test_copies,
		test_full_slot,
		test_copy_of_an_earlier_release,
		test_refused_update,
		test_unreadable_slots,
		test_an_unreadable_copy,
		test_no_model,
		test_lower_minimum,
		test_size,
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		for (uint32_t block = 1U; block <= VMCU_SLOT_BLOCK_MAX; block *= 2U) {
			tests[i](block, 0xffU);
			tests[i](block, 0U);
		}
	}
	return 0;
}
