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
#include "split_wires.h"

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

/* --- Threads with faults. --- */

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
