/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Two slots in a flash that fails. An update is here a version, a product, a size and a sum, in
 * place of a container and its vector.
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
#define PRODUCT      7U
#define POWERED      (-1)
#define NOTHING      (-1)

/** The bytes of an update, the same for each version and product but for these. */
struct image {
	uint32_t sum; /**< of all that follows */
	uint32_t version;
	uint32_t product;
	uint32_t size;
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
	bool ecc;       /**< blocks that a cut has torn cannot be read */
	bool torn[2][SLOT_BYTES];
} flash = {.areas = {{0, SLOT_BYTES}, {1, SLOT_BYTES}}};

static struct vmcu_slots slots;
static uint8_t arena[64];
static uint8_t copy[SLOT_BYTES];

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
	bool bad = area->fa_id == 0U && flash.bad != 0 && at <= flash.bad &&
		   flash.bad < at + (off_t)size;

	CHECK(at >= 0 && (size_t)at + size <= SLOT_BYTES);
	for (size_t i = 0; i < size; i++) {
		bad = bad || flash.torn[area->fa_id][(size_t)at + i];
	}
	if (flash.left == 0 || flash.unreadable == area->fa_id || bad) {
		memset(to, flash.erased, size);
		return -EIO;
	}
	memcpy(to, &flash.bytes[area->fa_id][at], size);
	return 0;
}

/** What a cut leaves of flash with ECC reads as an error until it is erased. */
static void tear(uint8_t slot, size_t at, size_t size)
{
	memset(&flash.torn[slot][at], flash.ecc ? 1 : 0, size);
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
			tear(area->fa_id, (size_t)at + i - i % flash.block, flash.block);
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
	for (size_t page = (size_t)at; page < (size_t)at + size; page += PAGE_BYTES) {
		memset(&flash.bytes[area->fa_id][page], flash.erased,
		       (flash.left == 0) ? PAGE_BYTES / 2 : PAGE_BYTES);
		memset(&flash.torn[area->fa_id][page], 0, PAGE_BYTES);
		if (flash.left == 0) {
			tear(area->fa_id, page, PAGE_BYTES);
			return -EIO;
		}
		flash.left -= (flash.left > 0) ? 1 : 0;
	}
	return 0;
}

/** The sum of an update's bytes behind its own. */
static uint32_t sum_behind(const uint8_t *bytes, size_t size)
{
	uint32_t sum = 1U;

	for (size_t i = sizeof(sum); i < size; i++) {
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
	if (size < sizeof(image) || image.size != size || image.sum != sum_behind(bytes, size)) {
		refusal->what = "digest";
		return -EBADMSG;
	}
	*model = (struct vmcu_model){.name = "m", .pool_bytes = image.version};
#if defined(VMCU_EXTERNAL_WEIGHTS)
	if (options->reader == NULL) {
		refusal->what = "reader";
		return -EINVAL;
	}
	model->chunk_count = 1U;
#endif
	if (options->product != 0U && image.product != options->product) {
		return -EXDEV;
	}
	return (image.version < options->minimum) ? -EACCES : 0;
}

int vmcu_container_release(const void *data, size_t size, uint32_t *product, uint32_t *version)
{
	struct image image;

	ARG_UNUSED(size);
	memcpy(&image, data, sizeof(image));
	*product = image.product;
	*version = image.version;
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
#if defined(VMCU_EXTERNAL_WEIGHTS)
	ctx->reader = NULL;
#endif
	return 0;
}

#if defined(VMCU_EXTERNAL_WEIGHTS)
/** Of the weights of each slot; they are not read here. */
static const struct vmcu_reader readers[2];
/** Slots that have none. */
static bool bare[2];

int vmcu_set_reader(struct vmcu_context *ctx, const struct vmcu_reader *reader)
{
	CHECK(reader != NULL);
	ctx->reader = reader;
	return 0;
}
#endif

int vmcu_self_test(struct vmcu_context *ctx, const void *data, size_t size)
{
	ARG_UNUSED(data);
	ARG_UNUSED(size);
	CHECK(ctx->model != NULL);
#if defined(VMCU_EXTERNAL_WEIGHTS)
	CHECK(ctx->reader != NULL);
#endif
	return 0;
}

static int reset(void)
{
	flash.left = POWERED;
	memset(&slots, 0x77, sizeof(slots));
	slots.minimum = 0U;
	slots.product = PRODUCT;
	slots.arena = arena;
	slots.arena_size = sizeof(arena);
	/* The core reads nothing of flash with ECC itself: what is torn would be a fault. */
	slots.copy = flash.ecc ? copy : NULL;
	slots.copy_size = sizeof(copy);
	for (uint8_t i = 0; i < 2U; i++) {
		slots.slot[i] = (struct vmcu_slot){
			.area = i,
			.mapped = flash.ecc ? NULL : flash.bytes[i],
#if defined(VMCU_EXTERNAL_WEIGHTS)
			.reader = bare[i] ? NULL : &readers[i],
#endif
		};
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
	memset(flash.torn, 0, sizeof(flash.torn));
	CHECK(reset() == -ENOENT);
}

static const uint8_t *image_of(uint32_t version, size_t size)
{
	static uint8_t bytes[SLOT_BYTES];
	struct image image = {.version = version, .product = PRODUCT, .size = (uint32_t)size};

	memset(bytes, 0x3c, sizeof(bytes));
	memcpy(bytes, &image, sizeof(image));
	image.sum = sum_behind(bytes, size);
	memcpy(bytes, &image, sizeof(image.sum));
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
