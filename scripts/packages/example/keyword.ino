/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Prints the word of a stored clip of sound, and the network's score of each word. */

#include <Arduino.h>
#include <vmcu.h>

#include "clips.h"
#include "keyword.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(keyword));
static struct vmcu_context context;
static unsigned int clip;

void setup()
{
	Serial.begin(115200);

	int err = vmcu_init(&context, &keyword_model, pool, sizeof(pool));

	while (err != 0) {
		Serial.print("vmcu_init: error ");
		Serial.println(err);
		delay(1000);
	}
}

void loop()
{
	memcpy(vmcu_input(&context, 0), clips[clip], sizeof(clips[clip]));
	if (vmcu_invoke(&context) == 0) {
		const int8_t *scores = (const int8_t *)vmcu_output(&context, 0);

		Serial.print(words[played[clip]]);
		Serial.print(":");
		for (unsigned int i = 0; i < VMCU_MODEL_KEYWORD_OUTPUT0_BYTES; i++) {
			Serial.print(" ");
			Serial.print(scores[i]);
		}
		Serial.println();
	}
	clip = (clip + 1) % CLIPS;
	delay(1000);
}
