/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Two wires with a simulated clock and faults, for split_nodes.c. Time passes only while all
 * threads wait.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <vmcu/link.h>

#define MOST_BYTES 65536
#define QUEUE      (1U << 20)

enum fault {
	NONE,
	FLIP,
	DROP,
	DUPLICATE,
	TRUNCATE,
	DELAY,  /* the rest of the frame comes after a silence */
	LATE,   /* the frame comes after it has been sent again */
	REPEAT, /* the frame comes twice */
	FAULTS,
};

#define TIMEOUT 20U
#define GAP     2U

struct wire {
	uint8_t bytes[QUEUE];
	uint64_t at[QUEUE]; /* when a byte comes */
	uint32_t head;
	uint32_t tail;
	uint64_t last;     /* when the last byte comes: none overtakes it */
	uint32_t messages; /* first transmissions */
	uint16_t sequence;
	uint8_t frame[MOST_BYTES];
	uint32_t place; /* in the frame */
	uint32_t size;
};

struct side {
	struct wire *in;
	struct wire *out;
	uint64_t deadline;
	bool waits;
};

static struct wire wires[2];
static struct side sides[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t now;
static unsigned int active;
static enum fault fault;
static unsigned int fault_wire;
static uint32_t fault_byte;
static unsigned int from;

static void push(struct wire *wire, uint8_t byte, uint64_t at)
{
	wire->last = (at > wire->last) ? at : wire->last;
	wire->bytes[wire->tail % QUEUE] = byte;
	wire->at[wire->tail % QUEUE] = wire->last;
	wire->tail++;
}

/* Puts a whole frame on a wire, with the fault if it is its turn. */
static void transmit(struct wire *wire)
{
	const uint16_t sequence = (uint16_t)(wire->frame[2] | wire->frame[3] << 8);
	const bool first = sequence != wire->sequence;
	const bool hit = wire == &wires[fault_wire] && (first || wire->messages >= from);
	uint64_t at = now;

	wire->messages += first ? 1U : 0U;
	wire->sequence = sequence;
	for (uint32_t i = 0; i < wire->size; i++) {
		const bool here = hit && i == fault_byte;
		uint8_t byte = wire->frame[i];

		if (here && fault == FLIP) {
			byte ^= (uint8_t)(1U << (wire->messages % 8U));
		} else if (here && fault == DROP) {
			continue;
		} else if (here && fault == DUPLICATE) {
			push(wire, byte, at);
		} else if (hit && fault == TRUNCATE && i >= fault_byte) {
			break;
		} else if (here && fault == DELAY) {
			at += 3U * GAP;
		} else if (hit && i == 0U && fault == LATE) {
			at += TIMEOUT + fault_byte;
		}
		push(wire, byte, at);
	}
	for (uint32_t i = 0; hit && fault == REPEAT && i < wire->size; i++) {
		push(wire, wire->frame[i], at + (fault_byte % 8U));
	}
	(void)pthread_cond_broadcast(&changed);
}

static int wire_send(void *user, const void *data, size_t bytes)
{
	struct wire *wire = ((struct side *)user)->out;

	(void)pthread_mutex_lock(&lock);
	if (wire->place == wire->size) {
		const uint8_t *header = data;

		wire->place = 0;
		wire->size = VMCU_LINK_HEADER + (uint32_t)(header[8] | header[9] << 8);
	}
	memcpy(wire->frame + wire->place, data, bytes);
	wire->place += (uint32_t)bytes;
	if (wire->place == wire->size) {
		transmit(wire);
	}
	(void)pthread_mutex_unlock(&lock);
	return 0;
}

/* When a side can go on. */
static uint64_t wakes(const struct side *side)
{
	const struct wire *in = side->in;
	const uint64_t comes = (in->head == in->tail) ? UINT64_MAX : in->at[in->head % QUEUE];

	return (comes < side->deadline) ? comes : side->deadline;
}

/* Advances the clock if all sides wait. */
static void advance(void)
{
	uint64_t next = UINT64_MAX;
	unsigned int waiting = 0;

	for (unsigned int i = 0; i < 2U; i++) {
		if (sides[i].waits) {
			waiting++;
			next = (wakes(&sides[i]) < next) ? wakes(&sides[i]) : next;
		}
	}
	if (waiting > 0U && waiting == active && next > now) {
		now = next;
		(void)pthread_cond_broadcast(&changed);
	}
}

static int wire_receive(void *user, void *data, size_t bytes, uint32_t timeout_ms)
{
	struct side *side = user;
	struct wire *in = side->in;
	size_t done = 0;

	(void)pthread_mutex_lock(&lock);
	side->deadline = now + timeout_ms;
	while (done < bytes) {
		if (in->head != in->tail && in->at[in->head % QUEUE] <= now) {
			((uint8_t *)data)[done++] = in->bytes[in->head++ % QUEUE];
			side->deadline = now + timeout_ms;
		} else if (now >= side->deadline) {
			break;
		} else {
			side->waits = true;
			advance();
			while (wakes(side) > now) {
				(void)pthread_cond_wait(&changed, &lock);
			}
			side->waits = false;
		}
	}
	(void)pthread_mutex_unlock(&lock);
	return (int)done;
}
