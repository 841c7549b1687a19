/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Two slots in a flash that fails: at each byte of an update, again and again, and in one block. An
 * update is here a version, a size and a sum, in place of a container and its vector.
 */

#include <errno.h>
#include <string.h>

#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/util.h>

#include <vmcu/self_test.h>
#include <vmcu/slots.h>

#include "../check.h"

#define SLOT_BYTES   2048
#define PAGE_BYTES   512
#define UPDATE_BYTES 600
#define POWERED      (-1)
#define NOTHING      (-1)

/** The bytes of an update, the same for each version but for the first. */
struct image {
	uint32_t version;
	uint32_t size;
	uint32_t sum;
};

static struct {
	uint8_t bytes[2][SLOT_BYTES];
	struct flash_area areas[2];
	uint32_t block;
	uint8_t erased;
	int left;       /**< bytes and pages that change before power fails, or POWERED */
	int unreadable; /**< slot that cannot be read, or NOTHING */
	int closed;     /**< slot that cannot be opened, or NOTHING */
	off_t bad;      /**< in slot 0, what cannot be read; 0: nothing */
} flash = {.areas = {{0, SLOT_BYTES}, {1, SLOT_BYTES}}};

static struct vmcu_slots slots;
static uint8_t arena[64];

int flash_area_open(uint8_t id, const struct flash_area **area)
{
	*area = &flash.areas[id];
	return (flash.closed == id) ? -ENODEV : 0;
}

void flash_area_close(const struct flash_area *area)
{
	ARG_UNUSED(area);
}

uint32_t flash_area_align(const struct flash_area *area)
{
	ARG_UNUSED(area);
	return flash.block;
}

uint8_t flash_area_erased_val(const struct flash_area *area)
{
	ARG_UNUSED(area);
	return flash.erased;
}

int flash_area_read(const struct flash_area *area, off_t at, void *to, size_t size)
{
	const bool bad = area->fa_id == 0U && flash.bad != 0 && at <= flash.bad &&
			 flash.bad < at + (off_t)size;

	CHECK(at >= 0 && (size_t)at + size <= SLOT_BYTES);
	if (flash.left == 0 || flash.unreadable == area->fa_id || bad) {
		memset(to, flash.erased, size);
		return -EIO;
	}
	memcpy(to, &flash.bytes[area->fa_id][at], size);
	return 0;
}

int flash_area_write(const struct flash_area *area, off_t at, const void *from, size_t size)
{
	uint8_t *to = &flash.bytes[area->fa_id][at];
	const uint8_t *bytes = from;

	CHECK(at >= 0 && (size_t)at + size <= SLOT_BYTES);
	CHECK((uint32_t)at % flash.block == 0U && size % flash.block == 0U);
	CHECK(area->fa_id != 0U || flash.bad == 0 || at > flash.bad ||
	      flash.bad >= at + (off_t)size);
	for (size_t i = 0; i < size; i++) {
		if (flash.left == 0) {
			/* Some bits of the next byte. */
			to[i] ^= (uint8_t)((to[i] ^ bytes[i]) & 0x5aU);
			return -EIO;
		}
		CHECK(to[i] == flash.erased);
		to[i] = bytes[i];
		flash.left -= (flash.left > 0) ? 1 : 0;
	}
	return 0;
}

int flash_area_erase(const struct flash_area *area, off_t at, size_t size)
{
	for (uint8_t *page = &flash.bytes[area->fa_id][at]; size > 0U; size -= PAGE_BYTES) {
		memset(page, flash.erased, (flash.left == 0) ? PAGE_BYTES / 2 : PAGE_BYTES);
		if (flash.left == 0) {
			return -EIO;
		}
		page += PAGE_BYTES;
		flash.left -= (flash.left > 0) ? 1 : 0;
	}
	return 0;
}

static uint32_t sum_of(const uint8_t *bytes, size_t size)
{
	uint32_t sum = 1U;

	for (size_t i = 0; i < size; i++) {
		sum = sum * 31U + bytes[i];
	}
	return sum;
}

int vmcu_model_load_as(struct vmcu_model *model, const void *data, size_t size, void *memory,
		       size_t memory_size, const struct vmcu_load_options *options,
		       struct vmcu_refusal *refusal)
{
	const uint8_t *bytes = data;
	struct image image;

	CHECK(memory == arena && memory_size == sizeof(arena));
	memcpy(&image, bytes, sizeof(image));
	if (size < sizeof(image) || image.size != size ||
	    image.sum != sum_of(&bytes[sizeof(image)], size - sizeof(image))) {
		refusal->what = "digest";
		return -EBADMSG;
	}
	*model = (struct vmcu_model){.name = "m", .pool_bytes = image.version};
	return (image.version < options->minimum) ? -EACCES : 0;
}

int vmcu_container_release(const void *data, size_t size, uint32_t *product, uint32_t *version)
{
	ARG_UNUSED(size);
	*product = 0U;
	memcpy(version, data, sizeof(*version));
	return 0;
}

size_t vmcu_arena_head(const struct vmcu_model *model, size_t size)
{
	ARG_UNUSED(model);
	return size;
}

int vmcu_init(struct vmcu_context *ctx, const struct vmcu_model *model, void *pool, size_t size)
{
	ARG_UNUSED(pool);
	ARG_UNUSED(size);
	ctx->model = model;
	return 0;
}

int vmcu_self_test(struct vmcu_context *ctx, const void *data, size_t size)
{
	ARG_UNUSED(data);
	ARG_UNUSED(size);
	CHECK(ctx->model != NULL);
	return 0;
}

static int reset(void)
{
	flash.left = POWERED;
	memset(&slots, 0x77, sizeof(slots));
	slots.minimum = 0U;
	slots.product = 0U;
	slots.arena = arena;
	slots.arena_size = sizeof(arena);
	for (uint8_t i = 0; i < 2U; i++) {
		slots.slot[i] = (struct vmcu_slot){i, flash.bytes[i]};
	}
	return vmcu_slots_open(&slots);
}

static void new_device(uint32_t block, uint8_t erased)
{
	flash.block = block;
	flash.erased = erased;
	flash.unreadable = NOTHING;
	flash.closed = NOTHING;
	flash.bad = 0;
	memset(flash.bytes, erased, sizeof(flash.bytes));
	CHECK(reset() == -ENOENT);
}

static const uint8_t *image_of(uint32_t version, size_t size)
{
	static uint8_t bytes[SLOT_BYTES];
	struct image image = {.version = version, .size = (uint32_t)size};

	memset(bytes, 0x3c, sizeof(bytes));
	image.sum = sum_of(&bytes[sizeof(image)], size - sizeof(image));
	memcpy(bytes, &image, sizeof(image));
	return bytes;
}

static int update(uint32_t version)
{
	return vmcu_slots_update(&slots, image_of(version, UPDATE_BYTES), UPDATE_BYTES);
}

static uint32_t running(void)
{
	return (slots.ctx.model == NULL) ? 0U : slots.model.pool_bytes;
}

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
