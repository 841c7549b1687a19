/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stdio.h>
#include <stdlib.h>

#include "Arduino.h"

Stream Serial;

void Stream::begin(unsigned long)
{
}

void Stream::print(const char *text)
{
	fputs(text, stdout);
}

void Stream::print(int value)
{
	printf("%d", value);
}

void Stream::println()
{
	puts("");
}

void Stream::println(int value)
{
	printf("%d\n", value);
}

/* The sketch waits after each error that it prints, and after each of its 12 clips. */
void delay(unsigned long)
{
	static int waits;

	if (++waits == 12) {
		exit(0);
	}
}

int main()
{
	setup();
	while (true) {
		loop();
	}
}
