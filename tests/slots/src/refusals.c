/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What is not right is not used, and the old model stays. */

#include <errno.h>
#include <string.h>

#include <zephyr/storage/flash_map.h>
#include <zephyr/sys/byteorder.h>
#include <zephyr/ztest.h>

#include <vmcu/self_test.h>

#include "device.h"

#define SIZE_AT      8U
#define DIGEST_AT    16U
#define SIGNATURE_AT 48U
#define MODEL_AT     112U
#define BLOCKS_AT    164U

static void before(void *fixture)
{
	ARG_UNUSED(fixture);
	device_new();
	device_take(&tiny);
}

/** Tries what is in scratch memory; the old model must stay. */
static int tried(size_t size)
{
	int err = vmcu_slots_update(&slots, scratch, size);

	if (err == 0) {
		return 0;
	}
	device_runs(&tiny);
	zassert_ok(device_reset());
	device_runs(&tiny);
	return err;
}

static size_t container_bytes(const struct update *update)
{
	return sys_get_le32(&update->data[SIZE_AT]);
}

ZTEST(vmcu_slots_refusals, test_a_flipped_bit)
{
	for (size_t at = 0; at < container_bytes(&hello); at += 23U) {
		if (at >= SIGNATURE_AT && at < MODEL_AT) {
			continue;
		}
		copy_of(&hello)[at] ^= 4U;
		zassert_true(tried(hello.size) < 0, "byte %zu", at);
	}
}

ZTEST(vmcu_slots_refusals, test_an_update_that_is_cut_short)
{
	copy_of(&hello);
	for (size_t size = 0; size < hello.size; size += 37U) {
		zassert_equal(tried(size), -EBADMSG, "%zu bytes", size);
	}
	zassert_equal(tried(hello.size - 1U), -EBADMSG);
}

ZTEST(vmcu_slots_refusals, test_a_vector_that_fails)
{
	const size_t at = ROUND_UP(container_bytes(&hello), VMCU_CONTAINER_ALIGN);
	const size_t digest = at + offsetof(struct vmcu_self_test, digest);

	for (size_t i = digest; i < digest + VMCU_DIGEST_BYTES; i += 5U) {
		copy_of(&hello)[i] ^= 1U;
		zassert_equal(tried(hello.size), -EILSEQ);
	}
	/* Of another model. */
	copy_of(&hello)[at + offsetof(struct vmcu_self_test, input_bytes)]--;
	zassert_equal(tried(hello.size), -EBADMSG);
	copy_of(&hello)[at] ^= 1U;
	zassert_equal(tried(hello.size), -EBADMSG);
}

ZTEST(vmcu_slots_refusals, test_weights_that_give_other_outputs)
{
	/* Sound by its digest, but not the model that the vector is of. */
	const size_t size = container_bytes(&hello);
	uint8_t *bytes = copy_of(&hello);
	const uint32_t first = sys_get_le32(&bytes[sys_get_le32(&bytes[BLOCKS_AT])]);

	/* Behind the head of the dense layer's stream: biases and weights. */
	for (uint32_t i = first + 16U; i < first + 32U; i++) {
		bytes[i] ^= 3U;
	}
	vmcu_sha256(bytes, DIGEST_AT, bytes + MODEL_AT, size - MODEL_AT, bytes + DIGEST_AT);
#if defined(CONFIG_VMCU_CONTAINER_SIGNED)
	zassert_equal(tried(hello.size), -EPERM);
#else
	zassert_equal(tried(hello.size), -EILSEQ);
#endif
}

#if defined(CONFIG_VMCU_CONTAINER_SIGNED)
ZTEST(vmcu_slots_refusals, test_signatures)
{
	for (size_t at = SIGNATURE_AT; at < MODEL_AT; at += 9U) {
		copy_of(&hello)[at] ^= 1U;
		zassert_equal(tried(hello.size), -EPERM);
	}
	copy_of(&hello);
	zassert_ok(tried(hello.size));
}
#endif

ZTEST(vmcu_slots_refusals, test_sizes)
{
	const struct flash_area *area;
	size_t room;

	zassert_ok(flash_area_open(slots.slot[0].area, &area));
	room = area->fa_size - VMCU_SLOT_RECORD_ROOM;
	flash_area_close(area);
	zassert_equal(vmcu_slots_begin(&slots, room + 1U), -EFBIG);
	zassert_equal(vmcu_slots_write(&slots, scratch, 1U), -EINVAL);
	zassert_equal(vmcu_slots_commit(&slots), -EINVAL);
	zassert_ok(vmcu_slots_begin(&slots, room));
	for (size_t at = 0; at < room; at += 64U) {
		zassert_ok(vmcu_slots_write(&slots, scratch, MIN(64U, room - at)));
	}
	zassert_equal(vmcu_slots_write(&slots, scratch, 1U), -EFBIG);
	zassert_equal(vmcu_slots_commit(&slots), -EINVAL);
	device_runs(&tiny);
	/* More than announced, whatever fits. */
	zassert_ok(vmcu_slots_begin(&slots, hello.size - 1U));
	zassert_equal(vmcu_slots_write(&slots, hello.data, hello.size), -EFBIG);
	zassert_equal(vmcu_slots_commit(&slots), -EINVAL);
	device_runs(&tiny);
}

ZTEST_SUITE(vmcu_slots_refusals, NULL, NULL, before, NULL, NULL);
