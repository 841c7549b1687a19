/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Models enter the list by themselves. */

#include <zephyr/sys/util.h>
#include <zephyr/ztest.h>

#include <vmcu/registry.h>

#include "rows.h"
#include "tiny.h"

ZTEST(vmcu_registry, test_order_of_names)
{
	static const struct vmcu_model *const wanted[] = {&rows_model, &tiny_model};
	size_t count = 0;

	VMCU_MODEL_FOREACH(entry)
	{
		zassert_true(count < ARRAY_SIZE(wanted));
		zassert_equal_ptr(entry->model, wanted[count]);
		zassert_equal_ptr(vmcu_model_get(count), wanted[count]);
		count++;
	}
	zassert_equal(count, ARRAY_SIZE(wanted));
	zassert_is_null(vmcu_model_get(count));
}

ZTEST(vmcu_registry, test_find)
{
	zassert_equal_ptr(vmcu_model_find("tiny"), &tiny_model);
	zassert_equal_ptr(vmcu_model_find("rows"), &rows_model);
	zassert_is_null(vmcu_model_find("tin"));
	zassert_is_null(vmcu_model_find(""));
}

ZTEST_SUITE(vmcu_registry, NULL, NULL, NULL, NULL, NULL);
