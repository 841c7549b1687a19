/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A QEMU plugin that counts instructions and accesses of an inference, layer by layer.
 *
 * The runtime is watched, not changed. Counting starts when the code at an entry (vmcu_invoke) is
 * called and stops when the instruction behind that call runs. In between, the executor loads a
 * layer's kernel pointer from the model's table and calls it: the load names the layer, the call
 * and its return delimit its costs. Everything else is the executor's own.
 *
 * Arguments, numbers in any C notation: entry=ADDRESS and kernel=ADDRESS, each as often as there
 * are such functions; table=ADDRESS of the first layer's kernel pointer, stride=BYTES between two
 * of them, layers=COUNT; ram=ADDRESS where RAM begins; stack=ADDRESS from which on everything is
 * stack; out=FILE. At exit the file gets one line for the executor and one for each layer: calls,
 * instructions, loads from RAM, loads from flash, stores, and the bytes of stack that the inference
 * used, with the executor. Accesses are counted as on the bus: an LDM of four registers is four
 * loads. With span=BYTES and trace=FILE, that file gets a line for each byte of so many from the
 * start of RAM that was stored to: its offset and how often. With blocks=FILE, that file gets a
 * line for each run of instructions and row of the counts: the row, the run's first address and the
 * one behind its last, how often it ran, and how often it went on elsewhere than behind its end,
 * which only a taken branch does. With each=FILE, that file gets a line for each time that counting
 * stopped: the instructions since it started, of the executor and of each layer. With pool=ADDRESS
 * and end=ADDRESS, each as often as there are pools, and pools=FILE, that file gets a line for
 * each: loads and stores there. With granule=BYTES, flash is behind two caches (caches.h) of so
 * many bytes an entry, code=ENTRIES for instructions and data=ENTRIES for loads. Each line of the
 * counts then ends with how often code was not there after a jump, behind the granule before, and
 * how often data was not.
 */

#include <stdlib.h>
#include <string.h>

#include "caches.h"
#include "counts.h"
#include "qemu.h"

__attribute__((visibility("default"))) int qemu_plugin_version = API_VERSION;

#define MAX_MARKS 256U

struct marks {
	uint64_t address[MAX_MARKS];
	size_t count;
};

static struct marks entries;
static struct marks kernels;
static struct marks pools; /* where each begins */
static struct marks ends;  /* behind its last byte */
static uint64_t pool_loads[MAX_MARKS];
static uint64_t pool_stores[MAX_MARKS];
static uint64_t table;
static uint64_t stride = 1;
static uint64_t layers;
static uint64_t ram = 0x20000000;
static uint64_t stack = UINT64_MAX;
static uint64_t stack_low = UINT64_MAX; /* bytes stored to between entry and return */
static uint64_t stack_high;
static uint64_t span;
static uint32_t *stored; /* how often to each byte of the span */
static uint64_t granule; /* bytes of an entry of the caches, 0 without them */
static struct cache code;
static struct cache data;
static uint64_t last_line; /* the granule of code before */
static const char *out;
static const char *trace;
static const char *blocks_file;
static const char *pools_file;
static const char *each_file;
static FILE *each;
static struct block *blocks;
static struct runs *previous_runs; /* of the block before and its row, NULL outside an inference */

static struct counts *rows;   /* the executor's, then one for each layer */
static struct counts *active; /* NULL outside an inference */
static struct counts *loaded; /* of the layer whose kernel pointer was loaded last */
/* Calls that a kernel may be the last of, and itself. */
#define JUMPS 4U

static uint64_t entry_return;
static uint64_t jumps[JUMPS]; /* the executor's last ones, of which a kernel comes back to one */
static uint64_t previous_end; /* behind the block before: where a call returns to */

static bool is_marked(const struct marks *marks, uint64_t address)
{
	for (size_t i = 0; i < marks->count; i++) {
		if (marks->address[i] == address) {
			return true;
		}
	}
	return false;
}

static void begin_row(struct counts *row)
{
	active = row;
	active->calls++;
}

/** The executor jumps: where it may come back to, since a kernel that is called last in a function
 * returns to that function's caller. */
static void note_jump(void)
{
	for (unsigned int i = JUMPS - 1U; i > 0U; i--) {
		jumps[i] = jumps[i - 1U];
	}
	jumps[0] = previous_end;
}

static bool is_back(const struct block *b)
{
	for (unsigned int i = 0; i < JUMPS; i++) {
		if (b->start == jumps[i]) {
			return true;
		}
	}
	return false;
}

static void fetch_block(const struct block *b)
{
	for (uint64_t line = b->start / granule; line <= (b->end - 1U) / granule; line++) {
		if (line != last_line && !look_up(&code, line)) {
			if (line == last_line + 1U) {
				active->lines_missed++;
			} else {
				active->jumps_missed++;
			}
		}
		last_line = line;
	}
}

/** An inference is over. */
static void note_inference(void)
{
	for (uint64_t i = 0; each != NULL && i <= layers; i++) {
		fprintf(each, "%" PRIu64 "%c", rows[i].instructions - rows[i].noted,
			(i < layers) ? ' ' : '\n');
		rows[i].noted = rows[i].instructions;
	}
}

static void block_executed(unsigned int cpu, void *opaque)
{
	const struct block *b = opaque;

	(void)cpu;
	if (previous_runs != NULL && b->start != previous_end) {
		previous_runs->taken++;
		if (active == &rows[0]) {
			note_jump();
		}
	}
	if (active == NULL) {
		if (b->is_entry) {
			entry_return = previous_end;
			begin_row(&rows[0]);
		}
	} else if (b->start == entry_return) {
		active = NULL;
		note_inference();
	} else if (active != &rows[0]) {
		/* A loop of memset() ends where it ended for the executor, too. */
		if (b->start != previous_end && is_back(b)) {
			active = &rows[0];
		}
	} else if (b->is_kernel && loaded != NULL) {
		begin_row(loaded);
	}
	previous_end = b->end;
	previous_runs = (active == NULL) ? NULL : &b->runs[active - rows];
	if (active != NULL) {
		active->instructions += b->instructions;
		previous_runs->executed++;
		if (granule > 0U) {
			fetch_block(b);
		}
	}
}

static void note_store(uint64_t address, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++) {
		const uint64_t offset = address + i - ram;

		if (offset < span) {
			stored[offset]++;
		}
	}
}

static void note_pool(uint64_t address, uint64_t *counted)
{
	for (size_t i = 0; i < pools.count && i < ends.count; i++) {
		if (address >= pools.address[i] && address < ends.address[i]) {
			counted[i]++;
		}
	}
}

static void count_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address,
			 void *opaque)
{
	(void)cpu;
	(void)opaque;
	if (active == NULL) {
		return;
	}
	note_pool(address, qemu_plugin_mem_is_store(info) ? pool_stores : pool_loads);
	if (qemu_plugin_mem_is_store(info)) {
		active->stores++;
		note_store(address, 1U << qemu_plugin_mem_size_shift(info));
		if (address >= stack) {
			stack_low = (address < stack_low) ? address : stack_low;
			stack_high = (address + 4U > stack_high) ? address + 4U : stack_high;
		}
	} else if (address >= ram) {
		active->loads_ram++;
	} else {
		const uint64_t offset = address - table;

		active->loads_flash++;
		if (granule > 0U && !look_up(&data, address / granule)) {
			active->data_missed++;
		}
		if (address >= table && offset < layers * stride && offset % stride == 0U) {
			loaded = &rows[1U + offset / stride];
		}
	}
}

static void translate_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const size_t count = qemu_plugin_tb_n_insns(tb);
	const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, count - 1U);
	struct block *b = malloc(sizeof(*b));
	struct runs *runs = calloc(layers + 1U, sizeof(*runs)); /* one for each row of counts */

	(void)id;
	if (b == NULL || runs == NULL) {
		abort();
	}
	b->runs = runs;
	b->next = blocks;
	blocks = b;
	b->start = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	b->end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);
	b->instructions = count;
	b->is_entry = is_marked(&entries, b->start);
	b->is_kernel = is_marked(&kernels, b->start);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_executed, QEMU_PLUGIN_CB_NO_REGS, b);
	for (size_t i = 0; i < count; i++) {
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), count_access,
						 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
	}
}

static void write_files(qemu_plugin_id_t id, void *opaque)
{
	(void)id;
	(void)opaque;
	write_counts(out, rows, layers + 1U, (stack_high > 0U) ? stack_high - stack_low : 0U);
	write_trace(trace, stored, span);
	write_blocks(blocks_file, blocks, layers + 1U);
	write_pools(pools_file, pool_loads, pool_stores, pools.count);
	if (each != NULL) {
		fclose(each);
	}
}

static bool add_mark(struct marks *marks, uint64_t address)
{
	if (marks->count == MAX_MARKS) {
		return false;
	}
	marks->address[marks->count++] = address;
	return true;
}

static bool parse_argument(const char *argument)
{
	const char *value = strchr(argument, '=');
	const size_t length = (value == NULL) ? 0U : (size_t)(value - argument);
	const struct {
		const char *name;
		uint64_t *number;
		struct marks *marks;
	} known[] = {
		{"entry", NULL, &entries},     {"kernel", NULL, &kernels},
		{"table", &table, NULL},       {"stride", &stride, NULL},
		{"layers", &layers, NULL},     {"ram", &ram, NULL},
		{"stack", &stack, NULL},       {"span", &span, NULL},
		{"granule", &granule, NULL},   {"code", &code.entries, NULL},
		{"data", &data.entries, NULL}, {"pool", NULL, &pools},
		{"end", NULL, &ends},
	};
	const struct {
		const char *name;
		const char **path;
	} files[] = {
		{"out", &out},          {"trace", &trace},    {"blocks", &blocks_file},
		{"pools", &pools_file}, {"each", &each_file},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (strlen(files[i].name) == length &&
		    strncmp(argument, files[i].name, length) == 0) {
			*files[i].path = strdup(value + 1);
			return *files[i].path != NULL;
		}
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strlen(known[i].name) == length &&
		    strncmp(argument, known[i].name, length) == 0) {
			const uint64_t number = strtoull(value + 1, NULL, 0);

			if (known[i].marks != NULL) {
				return add_mark(known[i].marks, number);
			}
			*known[i].number = number;
			return true;
		}
	}
	return false;
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!parse_argument(argv[i])) {
			fprintf(stderr, "count: what is '%s'?\n", argv[i]);
			return -1;
		}
	}
	rows = calloc(layers + 1U, sizeof(*rows));
	stored = calloc(span + 1U, sizeof(*stored));
	if (rows == NULL || stored == NULL || out == NULL || stride == 0U) {
		fprintf(stderr, "count: out= is missing, or stride= or layers= is nonsense\n");
		return -1;
	}
	if (code.entries > MAX_CACHED || data.entries > MAX_CACHED) {
		fprintf(stderr, "count: a cache has at most %u entries\n", MAX_CACHED);
		return -1;
	}
	each = open_file(each_file);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate_block);
	qemu_plugin_register_atexit_cb(id, write_files, NULL);
	return 0;
}
