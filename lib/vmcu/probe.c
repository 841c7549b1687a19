/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/access.h>
#include <vmcu/probe.h>

#include "compiled.h"
#include "hooks.h"
#include "rotation.h"

#if defined(VMCU_PROBE)

#define VERSION 1U

VMCU_CALLED void put(const struct vmcu_probe *probe, char byte)
{
	probe->port->write(probe->port->user, byte);
}

static void put_digit(const struct vmcu_probe *probe, unsigned int digit)
{
	put(probe, "0123456789abcdef"[digit]);
}

/** Prints a space and a number without leading zeros. */
VMCU_CALLED void put_number(const struct vmcu_probe *probe, uint32_t value)
{
	int shift = 28;

	put(probe, ' ');
	while (shift > 0 && (value >> shift) == 0U) {
		shift -= 4;
	}
	for (; shift >= 0; shift -= 4) {
		put_digit(probe, (value >> shift) & 0xfU);
	}
}

VMCU_CALLED void put_bytes(const struct vmcu_probe *probe, const int8_t *bytes, uint32_t count)
{
	put(probe, ' ');
	for (uint32_t i = 0U; i < count; i++) {
		put_digit(probe, (uint8_t)bytes[i] >> 4);
		put_digit(probe, (uint8_t)bytes[i] & 0xfU);
	}
}

/** Returns the digest of bytes whose first ones have digest @a crc; 0 for none. */
VMCU_CALLED uint32_t add_bytes(uint32_t crc, const void *bytes, uint32_t count)
{
	const uint8_t *next = bytes;

	crc = ~crc;
	for (uint32_t i = 0U; i < count; i++) {
		crc ^= next[i];
		for (int bit = 0; bit < 8; bit++) {
			crc = (crc >> 1) ^ (0xedb88320U & (0U - (crc & 1U)));
		}
	}
	return ~crc;
}

static uint32_t read_cycles(const struct vmcu_probe *probe)
{
	return (probe->port->cycles == NULL) ? 0U : probe->port->cycles(probe->port->user);
}

/** Bytes of the output that a call has computed. */
struct computed {
	const int8_t *bytes;
	uint32_t count;
};

VMCU_CALLED bool is_last(const struct vmcu_call *call)
{
	const struct vmcu_layer *layer = call->layer;
	const uint16_t row = (layer->descending != 0U) ? 0U : (uint16_t)(layer->rows - 1U);

	return call->y == row && call->x + call->columns == layer->width;
}

/** A layer that sums its input has calls for its input's pixels, and its output at the end. */
static struct computed computed_by(const struct vmcu_call *call)
{
	const struct vmcu_tensor *t = vmcu_call_output(call);
	const struct vmcu_layer *layer = call->layer;

	if (layer->rows == t->height && layer->width == t->width) {
		return (struct computed){vmcu_pixel(call->pool, t, call->y, call->x),
					 (uint32_t)call->columns * t->channels};
	}
	return (struct computed){vmcu_row(call->pool, t, 0U),
				 is_last(call) ? (uint32_t)t->width * t->channels : 0U};
}

static void put_call(const struct vmcu_probe *probe, const struct vmcu_call *call, uint32_t number)
{
	put(probe, probe->mode);
	put_number(probe, number);
	put_number(probe, call->y);
	put_number(probe, call->x);
	put_number(probe, call->columns);
}

/** Reports the bytes that a call of layer @a number has computed. */
static void report_call(const struct vmcu_probe *probe, const struct vmcu_call *call,
			uint32_t number)
{
	struct vmcu_probe_layer *entry = &probe->layers[number];
	const struct computed part = computed_by(call);

	switch (probe->mode) {
	case 'd':
		entry->value = add_bytes(entry->value, part.bytes, part.count);
		if (is_last(call)) {
			put(probe, 'd');
			put_number(probe, number);
			put_number(probe, entry->value);
			put(probe, '\n');
		}
		break;
	case 'c':
		put_number(probe, add_bytes(0U, part.bytes, part.count));
		put(probe, '\n');
		break;
	default:
		put_bytes(probe, part.bytes, part.count);
		put(probe, '\n');
		break;
	}
}

/** True if the mode reports single calls, and this one. */
static bool is_chosen(const struct vmcu_probe *probe, const struct vmcu_call *call, uint32_t number)
{
	if (probe->mode == 'b') {
		return number == probe->first && call->y == probe->last;
	}
	return probe->mode == 'c' && number >= probe->first && number <= probe->last;
}

VMCU_SMALL void vmcu_hook_call(const struct vmcu_context *ctx, const struct vmcu_call *call)
{
	const struct vmcu_probe *probe = ctx->probe;
	const uint32_t number = (uint32_t)(call->layer - ctx->model->layers);
	const bool chosen = probe != NULL && is_chosen(probe, call, number);
	uint32_t start = 0U;

	if (chosen) {
		put_call(probe, call, number);
	}
	if (probe != NULL && probe->mode == 't') {
		start = read_cycles(probe);
	}
	vmcu_kernel_of(ctx->model, call->layer)(call);
	if (probe == NULL || probe->mode == 'n') {
		return;
	}
	probe->layers[number].calls++;
	if (probe->mode == 't') {
		probe->layers[number].value += read_cycles(probe) - start;
	}
	if (chosen || probe->mode == 'd') {
		report_call(probe, call, number);
	}
}

VMCU_CALLED int read_byte(const struct vmcu_probe *probe)
{
	return probe->port->read(probe->port->user);
}

/** Reads a hexadecimal digit; negative for any other character. */
VMCU_CALLED int read_digit(const struct vmcu_probe *probe)
{
	const int c = read_byte(probe);
	const int letter = c - (int)'a';
	const int digit = c - (int)'0';

	if (letter >= 0 && letter < 6) {
		return letter + 10;
	}
	return (digit < 10) ? digit : -1;
}

/** Reads up to the end of a number, and the character behind it. */
VMCU_CALLED uint16_t read_number(const struct vmcu_probe *probe)
{
	uint32_t value = 0U;

	for (int digit = read_digit(probe); digit >= 0; digit = read_digit(probe)) {
		value = (value << 4) | (uint32_t)digit;
	}
	return (uint16_t)value;
}

/** Writes a row of an input. */
static void read_input(const struct vmcu_context *ctx, const struct vmcu_probe *probe)
{
	const uint16_t index = read_number(probe);
	const uint16_t y = read_number(probe);
	uint32_t left = (uint32_t)vmcu_row_size(ctx, index);
	int8_t *to = vmcu_row_of_input(ctx, index, y);
	uint32_t crc = 0U;

	if (!vmcu_holds_input(ctx->model)) {
		to = &probe->input[ctx->model->elsewhere ? y * left : 0U];
	}
	for (int high = read_digit(probe); high >= 0; high = read_digit(probe)) {
		const uint8_t byte = (uint8_t)((high << 4) | (read_digit(probe) & 0xf));

		crc = add_bytes(crc, &byte, 1U);
		if (to != NULL && left > 0U) {
			*to++ = (int8_t)byte;
			left--;
		}
	}
	put(probe, '=');
	put_number(probe, crc);
}

static void run_model(struct vmcu_context *ctx, const struct vmcu_probe *probe)
{
	const uint32_t start = read_cycles(probe);
	int err;

	if (ctx->model->streamed) {
		err = vmcu_push_row(ctx, probe->input);
	} else {
		(void)vmcu_set_input(ctx, probe->input);
		err = vmcu_invoke(ctx);
	}
	put(probe, '=');
	put_number(probe, (uint32_t)err);
	put_number(probe, read_cycles(probe) - start);
}

static void read_mode(struct vmcu_context *ctx, struct vmcu_probe *probe)
{
	probe->mode = (char)read_byte(probe);
	(void)read_byte(probe);
	probe->first = read_number(probe);
	probe->last = read_number(probe);
	for (uint16_t i = 0U; i < probe->layer_count; i++) {
		probe->layers[i] = (struct vmcu_probe_layer){0};
	}
	vmcu_position(ctx)->rows = 0U;
	put(probe, '=');
}

static void put_outputs(const struct vmcu_context *ctx, const struct vmcu_probe *probe)
{
	const struct vmcu_model *model = ctx->model;

	for (unsigned int i = 0U; i < model->output_count; i++) {
		const struct vmcu_tensor *t = &model->tensors[model->outputs[i].tensor];
		const uint32_t row = (uint32_t)t->width * t->channels;

		for (unsigned int y = 0U; y < vmcu_output_size(ctx, i) / row; y++) {
			put(probe, 'o');
			put_bytes(probe, vmcu_row_of_output(ctx, i, y), row);
			put(probe, '\n');
		}
	}
	put(probe, '=');
}

static void put_values(const struct vmcu_probe *probe, uint32_t layers)
{
	for (uint32_t i = 0U; i < layers; i++) {
		put(probe, 'v');
		put_number(probe, i);
		put_number(probe, probe->layers[i].calls);
		put_number(probe, probe->layers[i].value);
		put(probe, '\n');
	}
	put(probe, '=');
}

static void put_model(const struct vmcu_model *model, const struct vmcu_probe *probe)
{
	put(probe, '=');
	put_number(probe, VERSION);
	put_number(probe, model->layer_count);
	put_number(probe, probe->port->hertz);
	put(probe, ' ');
	for (const char *c = model->name; *c != '\0'; c++) {
		put(probe, *c);
	}
}

VMCU_SMALL int vmcu_probe_serve(struct vmcu_context *ctx, struct vmcu_probe *probe)
{
	int command;

	if (ctx == NULL || ctx->model == NULL || probe == NULL || probe->port == NULL) {
		return -EINVAL;
	}
	if (!vmcu_holds_input(ctx->model) && probe->input == NULL) {
		return -EINVAL;
	}
	if (probe->layer_count < ctx->model->layer_count) {
		return -ENOMEM;
	}
	probe->mode = 'n';
	ctx->probe = probe;
	do {
		bool is_answered = true;

		command = read_byte(probe);
		switch (command) {
		case '?':
			put_model(ctx->model, probe);
			break;
		case 'm':
			read_mode(ctx, probe);
			break;
		case 'i':
			read_input(ctx, probe);
			break;
		case 'r':
			run_model(ctx, probe);
			break;
		case 'o':
			put_outputs(ctx, probe);
			break;
		case 'v':
			put_values(probe, ctx->model->layer_count);
			break;
		case 'q':
			put(probe, '=');
			break;
		default:
			is_answered = false;
			break;
		}
		if (is_answered) {
			put(probe, '\n');
		}
	} while (command >= 0 && command != 'q');
	ctx->probe = NULL;
	return 0;
}

#endif /* VMCU_PROBE */
