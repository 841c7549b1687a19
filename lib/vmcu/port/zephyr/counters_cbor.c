/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <zephyr/sys/time_units.h>

/* Behind Zephyr's headers: it defines MAX() and others where they are not. */
#include <zcbor_encode.h>

#include <vmcu/counters.h>

/** Keys of a map, the entry of the histogram included. */
#define KEYS 9U

static bool put(zcbor_state_t *state, const char *key, uint64_t value)
{
	return zcbor_tstr_put_term(state, key, SIZE_MAX) && zcbor_uint64_put(state, value);
}

static bool put_model(zcbor_state_t *state, const struct vmcu_counters *c)
{
	bool ok = zcbor_map_start_encode(state, KEYS) && zcbor_tstr_put_lit(state, "model") &&
		  zcbor_tstr_put_term(state, c->name, SIZE_MAX) &&
		  put(state, "version", c->version) && put(state, "runs", c->runs) &&
		  put(state, "errors", c->errors) && put(state, "cancelled", c->cancelled) &&
		  put(state, "least_us", k_cyc_to_us_near64(c->least)) &&
		  put(state, "mean_us", k_cyc_to_us_near64(vmcu_counters_mean(c))) &&
		  put(state, "most_us", k_cyc_to_us_near64(c->most)) &&
		  zcbor_tstr_put_lit(state, "answers") &&
		  zcbor_list_start_encode(state, VMCU_COUNTERS_ANSWERS);

	for (size_t i = 0; ok && i < VMCU_COUNTERS_ANSWERS; i++) {
		ok = zcbor_uint32_put(state, c->answers[i]);
	}
	return ok && zcbor_list_end_encode(state, VMCU_COUNTERS_ANSWERS) &&
	       zcbor_map_end_encode(state, KEYS);
}

int vmcu_counters_encode(uint8_t *to, size_t size, size_t *used)
{
	struct vmcu_counters counters;
	bool ok;

	ZCBOR_STATE_E(state, 3, to, size, 1);

	ok = zcbor_list_start_encode(state, CONFIG_VMCU_COUNTERS_MODELS);
	for (size_t i = 0; ok && vmcu_counters_get(i, &counters) == 0; i++) {
		ok = put_model(state, &counters);
	}
	ok = ok && zcbor_list_end_encode(state, CONFIG_VMCU_COUNTERS_MODELS);
	*used = ok ? (size_t)(state->payload - to) : 0U;
	return ok ? 0 : -ENOMEM;
}
