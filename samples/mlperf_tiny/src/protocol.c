/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 8U

/* Cuts the next word off, "" at the end. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, " ");
	char *end = word + strcspn(word, " ");

	*rest = end + ((*end != '\0') ? 1 : 0);
	*end = '\0';
	return word;
}

/* A decimal number, `absent` for no word, -1 for any other. */
static long number(const char *word, long absent)
{
	char *end;
	const long value = strtol(word, &end, 10);

	return (*word == '\0') ? absent : (*end == '\0') ? value : -1;
}

static void print_bytes(const char *before, const uint8_t *bytes, size_t count, uint8_t offset)
{
	for (size_t i = 0; i < count; i++) {
		printf("%s%02x", (i % LINE_BYTES == 0U) ? before : "-", bytes[i] ^ offset);
		if (i % LINE_BYTES == LINE_BYTES - 1U || i + 1U == count) {
			printf("\n");
		}
	}
}

/* The protocol ignores digits behind the last byte. */
static void load(struct dut *dut, const char *digits)
{
	if (*digits == '\0' || dut->loaded == dut->expected) {
		printf("e-[Command 'db' requires a subcommand, 'db load' before hex digits]\n");
		return;
	}
	for (; *digits != '\0' && dut->loaded < dut->expected; digits += 2) {
		const char pair[] = {digits[0], digits[1], '\0'};

		if (strspn(pair, "0123456789abcdefABCDEF") != 2U) {
			printf("e-[Invalid hex digit '%s']\n", pair);
			return;
		}
		dut->data[dut->loaded] = (uint8_t)strtol(pair, NULL, 16) ^ dut->offset;
		dut->loaded++;
	}
	printf("%s", (dut->loaded == dut->expected) ? "m-load-done\n" : "");
}

static void execute_db(struct dut *dut, char *rest)
{
	const char *word = next_word(&rest);
	const long bytes = number(next_word(&rest), -1);

	if (strcmp(word, "print") == 0) {
		print_bytes("m-buffer-", dut->data, dut->loaded, dut->offset);
	} else if (strcmp(word, "load") != 0) {
		load(dut, word);
	} else if (bytes <= 0 || (size_t)bytes > dut->data_bytes) {
		printf("e-[Command 'db load' must be >0 and <=%lu bytes]\n",
		       (unsigned long)dut->data_bytes);
	} else {
		dut->loaded = 0;
		dut->expected = (size_t)bytes;
		printf("m-[Expecting %ld bytes]\n", bytes);
	}
}

/* Halves are rounded away from zero, as by the reference implementation. */
static int8_t quantised(float real, const struct dut_tensor *tensor)
{
	/* In double, so that the sum is exact. NaN becomes the least value. */
	const double moved = (double)(real / tensor->scale) + ((real < 0.0f) ? -0.5 : 0.5);
	const int whole = (moved > 512.0) ? 512 : (moved > -512.0) ? (int)moved : -512;
	const int value = whole + tensor->zero_point;

	return (int8_t)((value < INT8_MIN) ? INT8_MIN : (value > INT8_MAX) ? INT8_MAX : value);
}

static void print_results(const struct dut *dut)
{
	float sum = 0.0f;

	if (dut->output == NULL) {
		printf("e-[No inference has succeeded]\n");
		return;
	}
	printf("m-results-[");
	for (size_t i = 0; i < dut->out.bytes; i++) {
		const float value = (float)(dut->output[i] - dut->out.zero_point) * dut->out.scale;

		if (dut->reals == NULL) {
			printf("%s%.3f", (i > 0U) ? "," : "", (double)value);
		} else {
			sum += (value - dut->reals[i]) * (value - dut->reals[i]);
		}
	}
	if (dut->reals != NULL) {
		printf("%.3f", (double)(sum / (float)dut->out.bytes));
	}
	printf("]\n");
}

static void print_timestamp(const struct dut *dut)
{
	printf("m-lap-us-%lu\n", (unsigned long)dut->microseconds());
}

static void repeat(struct dut *dut, long times)
{
	for (; times > 0; times--) {
		dut->output = dut->infer();
	}
}

static void infer(struct dut *dut, char *rest)
{
	const long times = number(next_word(&rest), 1);
	const long warmups = number(next_word(&rest), 10);

	if (times <= 0 || warmups < 0 || dut->loaded != dut->data_bytes) {
		printf("e-[Inference requires iterations >0, warmup >=0, %lu bytes]\n",
		       (unsigned long)dut->data_bytes);
		return;
	}
	for (size_t i = 0; dut->reals != NULL && i < dut->in.bytes; i++) {
		dut->input[i] = quantised(dut->reals[i], &dut->in);
	}
	printf("m-warmup-start-%ld\n", warmups);
	repeat(dut, warmups);
	printf("m-warmup-done\nm-infer-start-%ld\n", times);
	print_timestamp(dut);
	repeat(dut, times);
	print_timestamp(dut);
	printf("m-infer-done\n");
	print_results(dut);
}

static void execute(struct dut *dut, char *rest)
{
	const char *word = next_word(&rest);

	if (strcmp(word, "name") == 0) {
		printf("m-name-dut-[vmcu]\n");
	} else if (strcmp(word, "timestamp") == 0) {
		print_timestamp(dut);
	} else if (strcmp(word, "profile") == 0) {
		printf("m-profile-[vmcu]\nm-model-[%s]\n", dut->benchmark);
	} else if (strcmp(word, "help") == 0) {
		printf("name, timestamp, profile, help, db load N, db HEX, db print, "
		       "infer N [W=10], results, output\n");
	} else if (strcmp(word, "db") == 0) {
		execute_db(dut, rest);
	} else if (strcmp(word, "infer") == 0) {
		infer(dut, rest);
	} else if (strcmp(word, "results") == 0) {
		print_results(dut);
	} else if (strcmp(word, "output") == 0 && dut->output != NULL) {
		/* Not in the protocol: bytes, which three decimals do not tell apart. */
		print_bytes("m-output-", (const uint8_t *)dut->output, dut->out.bytes, 0);
	} else if (*word != '\0') {
		printf("e-[Unknown command: %s]\n", word);
	}
}

void dut_receive(struct dut *dut, char character)
{
	if (character == '%') {
		dut->command[dut->length] = '\0';
		if (dut->length == DUT_COMMAND_BYTES) {
			printf("e-[Command has %d characters or more]\n", DUT_COMMAND_BYTES);
		} else {
			execute(dut, dut->command);
		}
		dut->length = 0;
		printf("m-ready\n");
	} else if (character != '\r' && character != '\n' && dut->length < DUT_COMMAND_BYTES) {
		/* Noise must not end the command, nor reach a terminal. */
		dut->command[dut->length] =
			(character >= ' ' && character <= '~') ? character : '?';
		dut->length++;
	}
}
