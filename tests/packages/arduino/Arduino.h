/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* What the sketch needs of Arduino, on a computer: Serial is the standard output. */

#ifndef ARDUINO_H_
#define ARDUINO_H_

#include <stdint.h>
#include <string.h>

class Stream
{
      public:
	void begin(unsigned long baud);
	void print(const char *text);
	void print(int value);
	void println();
	void println(int value);
};

extern Stream Serial;

void delay(unsigned long milliseconds);
void setup();
void loop();

#endif /* ARDUINO_H_ */
