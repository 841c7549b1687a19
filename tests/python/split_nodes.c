/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* Runs all nodes of a split network. nodes.h, which the test writes, has NODES, tables, RAM_BYTES,
 * IN_BYTES and OUT_BYTES by node.
 *
 * split_nodes processes COUNT: a process for each node, a socket pair between each two
 * split_nodes faults COUNT STEP FROM: threads with a simulated clock. Each run damages one byte of
 * each message, for every STEP-th byte, each direction and each kind of fault; from message FROM on
 * whenever it is sent, before that only the first time
 *
 * inK.bin has the inputs of node K, one after the other, expected.bin the outputs of the network.
 * "processes" writes out.bin; "faults" prints how many answers were right, wrong, and how many runs
 * ended with an error, then the same of a second session without faults.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nodes.h"

#define MOST_BYTES 65536
#define QUEUE      (1U << 20)

struct data {
	int8_t *bytes;
	size_t size;
};

static struct data inputs[NODES];
static struct data expected;
static unsigned int count;

static struct data read_file(const char *name)
{
	struct data data = {NULL, 0};
	FILE *file = fopen(name, "rb");

	if (file == NULL) {
		return data;
	}
	(void)fseek(file, 0, SEEK_END);
	data.size = (size_t)ftell(file);
	rewind(file);
	data.bytes = malloc(data.size + 1U);
	if (fread(data.bytes, 1, data.size, file) != data.size) {
		exit(2);
	}
	(void)fclose(file);
	return data;
}

/* Runs one inference of a node; copies the outputs of one that has some. */
static int infer(struct vmcu_node *node, unsigned int number, unsigned int turn, int8_t *output)
{
	int err;

	if (in_bytes[number] > 0U) {
		memcpy(vmcu_node_input(node, 0), inputs[number].bytes + turn * in_bytes[number],
		       in_bytes[number]);
	}
	err = vmcu_node_run(node);
	if (err == 0 && out_bytes[number] > 0U) {
		memcpy(output, vmcu_output(&node->ctx, 0), out_bytes[number]);
	}
	return err;
}

/* --- Processes. --- */

static int socket_send(void *user, const void *data, size_t bytes)
{
	const int fd = *(const int *)user;

	for (size_t done = 0; done < bytes;) {
		const ssize_t one = write(fd, (const uint8_t *)data + done, bytes - done);

		if (one <= 0) {
			return -EIO;
		}
		done += (size_t)one;
	}
	return 0;
}

static int socket_receive(void *user, void *data, size_t bytes, uint32_t timeout_ms)
{
	struct pollfd fd = {.fd = *(const int *)user, .events = POLLIN};
	size_t done = 0;

	while (done < bytes && poll(&fd, 1, (int)timeout_ms) > 0) {
		const ssize_t one = read(fd.fd, (uint8_t *)data + done, bytes - done);

		if (one <= 0) {
			break;
		}
		done += (size_t)one;
	}
	return (int)done;
}

static int run_process(unsigned int number, int (*sockets)[NODES])
{
	static uint64_t memory[MOST_BYTES / 8];
	static int8_t output[MOST_BYTES];
	struct vmcu_link_port ports[NODES];
	struct vmcu_link links[NODES];
	const struct vmcu_node_table *table = tables[number];
	struct vmcu_node node;
	FILE *file = (out_bytes[number] > 0U) ? fopen("out.bin", "wb") : NULL;
	int err;

	for (unsigned int i = 0; i < table->link_count; i++) {
		ports[i] = (struct vmcu_link_port){socket_send, socket_receive,
						   &sockets[number][table->peers[i]]};
		links[i] = (struct vmcu_link){
			.port = &ports[i], .timeout_ms = 2000, .gap_ms = 200, .tries = 10};
	}
	err = vmcu_node_init(&node, table, links, memory, ram_bytes[number]);
	for (unsigned int turn = 0; turn < count && err == 0; turn++) {
		err = infer(&node, number, turn, output);
		if (file != NULL) {
			(void)fwrite(output, 1, out_bytes[number], file);
		}
	}
	if (file != NULL) {
		(void)fclose(file);
	}
	if (err != 0) {
		printf("node %u: error %d\n", number, err);
	}
	return err != 0;
}

static int run_processes(void)
{
	static int sockets[NODES][NODES];
	int failed = 0;

	for (unsigned int i = 0; i < NODES; i++) {
		for (unsigned int j = i + 1U; j < NODES; j++) {
			int pair[2];

			if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
				return 2;
			}
			sockets[i][j] = pair[0];
			sockets[j][i] = pair[1];
		}
	}
	for (unsigned int i = 0; i < NODES; i++) {
		if (fork() == 0) {
			exit(run_process(i, sockets));
		}
	}
	for (unsigned int i = 0; i < NODES; i++) {
		int status;

		(void)wait(&status);
		failed |= status != 0;
	}
	return failed;
}

/* --- Threads with faults. Time passes only while all threads wait. --- */

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

struct run {
	unsigned int number;
	int err;
	unsigned int right;
	unsigned int wrong;
	uint8_t session;
};

static void *run_thread(void *user)
{
	static uint64_t memories[2][MOST_BYTES / 8];
	int8_t output[MOST_BYTES];
	struct run *run = user;
	const unsigned int number = run->number;
	struct vmcu_link_port port = {wire_send, wire_receive, &sides[number]};
	struct vmcu_link link = {.port = &port, .timeout_ms = TIMEOUT, .gap_ms = GAP, .tries = 6};
	struct vmcu_node node;

	run->err =
		vmcu_node_init(&node, tables[number], &link, memories[number], ram_bytes[number]);
	for (unsigned int turn = 0; turn < count && run->err == 0; turn++) {
		run->err = infer(&node, number, turn, output);
		if (run->err == 0 && out_bytes[number] > 0U) {
			const size_t at = (size_t)turn * out_bytes[number];
			const bool same =
				memcmp(expected.bytes + at, output, out_bytes[number]) == 0;

			run->right += same ? 1U : 0U;
			run->wrong += same ? 0U : 1U;
		}
	}
	if (run->err != 0 && vmcu_node_run(&node) != -ECANCELED) {
		run->wrong++;
	}
	(void)pthread_mutex_lock(&lock);
	active--;
	advance();
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

/* Runs both nodes; a later session finds what an earlier one has left on the wires. */
static void run_session(struct run *total, uint8_t session)
{
	pthread_t threads[2];
	struct run runs[2] = {{.number = 0, .session = session}, {.number = 1, .session = session}};

	active = 2;
	for (unsigned int i = 0; i < 2U; i++) {
		sides[i] = (struct side){.in = &wires[1U - i], .out = &wires[i]};
	}
	for (unsigned int i = 0; i < 2U; i++) {
		(void)pthread_create(&threads[i], NULL, run_thread, &runs[i]);
	}
	for (unsigned int i = 0; i < 2U; i++) {
		(void)pthread_join(threads[i], NULL);
		total->right += runs[i].right;
		total->wrong += runs[i].wrong;
	}
	total->err += (runs[0].err != 0 || runs[1].err != 0) ? 1 : 0;
}

static int run_faults(unsigned int step)
{
	struct run total = {0};
	struct run again = {0};
	unsigned int runs = 0;

	for (int kind = NONE; kind < FAULTS; kind++) {
		for (unsigned int wire = 0; wire < 2U; wire++) {
			/* Node 0 sends data, node 1 acknowledges. */
			const uint32_t bytes =
				VMCU_LINK_HEADER + ((wire == 0U) ? MESSAGE_BYTES : 0U);

			for (uint32_t byte = 0; byte < bytes; byte += step) {
				fault = (enum fault)kind;
				fault_wire = wire;
				fault_byte = byte;
				memset(wires, 0, sizeof(wires));
				now = 0;
				run_session(&total, 0);
				fault = NONE;
				run_session(&again, 1);
				runs++;
			}
		}
	}
	printf("runs %u right %u wrong %u errors %d\n", runs, total.right,
	       total.wrong + again.wrong, total.err);
	printf("again right %u errors %d\n", again.right, again.err);
	return 0;
}

int main(int argc, char **argv)
{
	for (unsigned int i = 0; i < NODES; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "in%u.bin", i);
		inputs[i] = read_file(name);
	}
	expected = read_file("expected.bin");
	count = (unsigned int)strtoul(argv[2], NULL, 10);
	if (argc == 5 && NODES == 2) {
		from = (unsigned int)strtoul(argv[4], NULL, 10);
		return run_faults((unsigned int)strtoul(argv[3], NULL, 10));
	}
	return run_processes();
}
