/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include "load.h"
#include "online.h"

#include "../compiled.h"

/** "VMCU". */
#define MAGIC                 0x55434d56U
/** Another major version is refused; a minor one adds data that this one may ignore. */
#define MAJOR                 1U
/** Of models that keep rows, which nobody may pass over. */
#define MAJOR_STREAMS         2U
/** Of models whose constants are elsewhere, with rows or without. */
#define MAJOR_WEIGHTS         3U
/** The minor versions of each from which on a container has a release. */
#define MINOR_RELEASE         2U
#define MINOR_STREAMS_RELEASE 1U

static bool is_digest(const struct vmcu_container_file *file)
{
	const uint8_t *bytes = (const uint8_t *)file;
	uint8_t digest[VMCU_DIGEST_BYTES];

	vmcu_sha256(bytes, VMCU_DIGEST_AT, bytes + VMCU_MODEL_AT, file->size - VMCU_MODEL_AT,
		    digest);
	return vmcu_same_digest(digest, file->digest);
}

static bool is_known(uint16_t major)
{
	bool known = major == MAJOR;

#if defined(VMCU_STREAMS)
	known = known || major == MAJOR_STREAMS;
#endif
#if defined(VMCU_EXTERNAL_WEIGHTS)
	known = known || major == MAJOR_WEIGHTS;
#endif
	return known;
}

static int check_file(struct vmcu_loading *l, const struct vmcu_container_file *file, size_t size)
{
	if (size < sizeof(*file) || file->magic != MAGIC) {
		return vmcu_refuse(l, -EBADMSG, "magic number", 0U);
	}
	if (!is_known(file->major)) {
		return vmcu_refuse(l, -ENOTSUP, "version", file->major);
	}
	if (file->size < sizeof(*file) || file->size > size || file->size > INT32_MAX) {
		return vmcu_refuse(l, -EBADMSG, "size", file->size);
	}
	if (!is_digest(file)) {
		return vmcu_refuse(l, -EBADMSG, "digest", 0U);
	}
#if defined(VMCU_CONTAINER_SIGNED)
	if (file->signature == 0U || !vmcu_container_authentic(file->digest, file->signed_by)) {
		return vmcu_refuse(l, -EPERM, "signature", file->signature);
	}
#endif
	return 0;
}

static int check_tables(struct vmcu_loading *l)
{
	const struct vmcu_container_model *m = l->tables;
	const struct {
		const char *what;
		uint32_t at;
		uint32_t count;
		uint32_t each;
	} tables[] = {
		{"tensors", m->tensors, m->tensor_count, sizeof(struct vmcu_tensor)},
		{"layers", m->layers, m->layer_count, VMCU_LAYER_BYTES},
		{"stages", m->stages, m->stage_count, VMCU_STAGE_BYTES},
		{"parts", m->parts, m->part_count, sizeof(struct vmcu_part)},
		{"schedule", m->schedule, m->schedule_count, 1U},
		{"layer inputs", m->layer_inputs, m->layer_input_count, sizeof(uint16_t)},
		{"inputs", m->inputs, m->input_count, VMCU_IO_BYTES},
		{"outputs", m->outputs, m->output_count, VMCU_IO_BYTES},
		{"kernels", m->kernels, m->kernel_count, sizeof(struct vmcu_container_kernel)},
	};

	for (uint32_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (!vmcu_is_table(l, tables[i].at, tables[i].count, tables[i].each)) {
			return vmcu_refuse(l, -EBADMSG, tables[i].what, tables[i].at);
		}
	}
	if (vmcu_text(l, m->name) == NULL) {
		return vmcu_refuse(l, -EBADMSG, "name", m->name);
	}
	if ((m->requantisers & 1U) != 0U && vmcu_requant_is_float(false)) {
		return vmcu_refuse(l, -ENOTSUP, "fixed-point requantiser", m->requantisers);
	}
	if ((m->requantisers & 2U) != 0U && !vmcu_requant_is_float(true)) {
		return vmcu_refuse(l, -ENOTSUP, "float requantiser", m->requantisers);
	}
	return 0;
}

static void fill_model(struct vmcu_model *model, const struct vmcu_loading *l)
{
	const struct vmcu_container_model *m = l->tables;

	model->name = vmcu_text(l, m->name);
	model->pool_bytes = m->pool_bytes;
	model->tensors = (const struct vmcu_tensor *)(const void *)&l->data[m->tensors];
	model->tensor_count = m->tensor_count;
	model->layer_count = m->layer_count;
	model->stage_count = m->stage_count;
	model->input_count = m->input_count;
	model->output_count = m->output_count;
	model->streamed = m->streamed != 0U;
	model->base = (uintptr_t)l->data;
#if defined(VMCU_POOL_ROTATE)
	model->circle = m->circle;
	model->step = m->step;
#endif
}

/** Finds the additions behind the model. */
static int find_additions(struct vmcu_loading *l, const struct vmcu_container_file *file)
{
	const struct {
		struct vmcu_container_online online;
		struct vmcu_container_stream stream;
		struct vmcu_container_release release;
		struct vmcu_container_weights weights;
	} *const behind = (const void *)(file + 1);
	const uint32_t left = l->size - (uint32_t)sizeof(*file);
	const bool keeps = file->major == MAJOR_STREAMS;

#if defined(VMCU_EXTERNAL_WEIGHTS)
	if (file->major == MAJOR_WEIGHTS) {
		if (left < sizeof(*behind)) {
			return vmcu_refuse(l, -EBADMSG, "weights", left);
		}
		l->release = behind->release;
		l->weights = &behind->weights;
		l->stream = (behind->stream.rows != 0U) ? &behind->stream : NULL;
		return 0;
	}
#endif
	if (file->minor >= (keeps ? MINOR_STREAMS_RELEASE : MINOR_RELEASE)) {
		if (left < offsetof(__typeof__(*behind), weights)) {
			return vmcu_refuse(l, -EBADMSG, "release", left);
		}
		l->release = behind->release;
	}
	if (!keeps) {
		if (file->minor != 0U && left >= sizeof(behind->online)) {
			l->online = &behind->online;
		}
		return 0;
	}
	if (left < offsetof(__typeof__(*behind), release)) {
		return vmcu_refuse(l, -EBADMSG, "stream", left);
	}
	l->stream = &behind->stream;
	return 0;
}

/** The container is for this product, and no older than this device allows. */
static int check_release(struct vmcu_loading *l, const struct vmcu_load_options *options)
{
	if (options->product != 0U && l->release.product != options->product) {
		return vmcu_refuse(l, -ENODEV, "product", l->release.product);
	}
	if (l->release.version < options->minimum) {
		return vmcu_refuse(l, -EACCES, "version of the model", l->release.version);
	}
	return 0;
}

/** Takes the container's plan, or makes one; 1: not the one that was asked for. */
static int make_plan(struct vmcu_model *model, struct vmcu_loading *l, enum vmcu_planner planner)
{
	if (planner == VMCU_PLAN_BUILT) {
		return 0;
	}
#if defined(VMCU_ONLINE_PLANNER)
	return vmcu_online_plan(model, l, planner);
#else
	(void)model;
	return vmcu_refuse(l, -ENOTSUP, "planner", (uint32_t)planner);
#endif
}

/** All that a container says, and the plan, are as they should be. */
static int check_model(struct vmcu_model *model, struct vmcu_loading *l)
{
	int err = vmcu_check_tensors(model, l);

	if (err == 0) {
		err = vmcu_check_stages(model, l);
	}
	if (err == 0) {
		err = vmcu_check_weights(l);
	}
#if defined(VMCU_STREAMS)
	if (err == 0) {
		err = vmcu_check_stream(model, l);
	}
#endif
	if (err == 0) {
		err = vmcu_check_io(model, l);
	}
	if (err == 0 &&
	    (uint64_t)model->pool_bytes + VMCU_POOL_GUARD_BYTES + l->tail > l->arena_size) {
		err = vmcu_refuse(l, -ENOMEM, "arena",
				  model->pool_bytes + VMCU_POOL_GUARD_BYTES + (uint32_t)l->tail);
	}
	return err;
}

/** Goes through all calls, if this build can. */
static int replay_calls(const struct vmcu_model *model, struct vmcu_loading *l)
{
#if defined(VMCU_CONTAINER_REPLAY)
	return vmcu_replay(model, l);
#else
	(void)model;
	return vmcu_refuse(l, -ENOTSUP, "replay", 0U);
#endif
}

/** The parts of loading, in the order in which they may rely on each other. */
static int load_parts(struct vmcu_model *model, struct vmcu_loading *l,
		      const struct vmcu_container_file *file, size_t size,
		      const struct vmcu_load_options *options)
{
	int err = check_file(l, file, size);
	int planned = 0;

	if (err == 0) {
		l->size = file->size;
		err = find_additions(l, file);
	}
	if (err == 0 && options != NULL) {
		err = check_release(l, options);
	}
	if (err == 0) {
		err = check_tables(l);
	}
	if (err != 0) {
		return err;
	}
	fill_model(model, l);
	err = vmcu_find_chunks(model, l);
	if (err == 0) {
		err = vmcu_link_kernels(model, l);
	}
	if (err == 0) {
		err = vmcu_widen_tables(model, l);
	}
	if (err == 0 && options != NULL) {
		planned = make_plan(model, l, options->planner);
		err = (planned < 0) ? planned : 0;
	}
	if (err == 0) {
		err = check_model(model, l);
	}
	if (err == 0 && options != NULL && options->replay) {
		err = replay_calls(model, l);
	}
	model->tail = (uint32_t)l->tail;
	return (err == 0) ? planned : err;
}

VMCU_SMALL int vmcu_model_load_as(struct vmcu_model *model, const void *data, size_t size,
				  void *arena, size_t arena_size,
				  const struct vmcu_load_options *options,
				  struct vmcu_refusal *refusal)
{
	struct vmcu_loading l = {
		.data = data,
		.tables = (const struct vmcu_container_model *)((uintptr_t)data + VMCU_MODEL_AT),
		.arena = arena,
		.arena_size = arena_size & ~(size_t)7U,
#if defined(VMCU_EXTERNAL_WEIGHTS)
		.reader = (options == NULL) ? NULL : options->reader,
#endif
	};
	int err = -EINVAL;

	if (model != NULL) {
		__builtin_memset(model, 0, sizeof(*model));
	}
	if (model == NULL || data == NULL || arena == NULL ||
	    (uintptr_t)data % VMCU_CONTAINER_ALIGN != 0U ||
	    (uintptr_t)arena % VMCU_POOL_ALIGN != 0U) {
		l.refusal.what = "argument";
	} else {
		err = load_parts(model, &l, data, size, options);
	}
	if (err < 0 && model != NULL) {
		__builtin_memset(model, 0, sizeof(*model));
	}
	if (err < 0 && refusal != NULL) {
		*refusal = l.refusal;
	}
	return err;
}

int vmcu_container_release(const void *data, size_t size, uint32_t *product, uint32_t *version)
{
	struct vmcu_loading l = {.data = data};
	const struct vmcu_container_file *file = data;

	if (data == NULL || product == NULL || version == NULL ||
	    (uintptr_t)data % VMCU_CONTAINER_ALIGN != 0U) {
		return -EINVAL;
	}
	if (size < sizeof(*file) || file->magic != MAGIC || file->size > size ||
	    file->size < sizeof(*file) || !is_known(file->major)) {
		return -EBADMSG;
	}
	l.size = file->size;
	if (find_additions(&l, file) != 0) {
		return -EBADMSG;
	}
	*product = l.release.product;
	*version = l.release.version;
	return 0;
}

int vmcu_model_load(struct vmcu_model *model, const void *data, size_t size, void *arena,
		    size_t arena_size)
{
	return vmcu_model_load_as(model, data, size, arena, arena_size, NULL, NULL);
}

int vmcu_model_load_saying(struct vmcu_model *model, const void *data, size_t size, void *arena,
			   size_t arena_size, struct vmcu_refusal *refusal)
{
	return vmcu_model_load_as(model, data, size, arena, arena_size, NULL, refusal);
}
