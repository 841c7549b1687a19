/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>
#include <string.h>

#include <vmcu/link.h>

/* Binds the context to a model of the node, whose pool is behind the pushed rows. */
static int select_model(struct vmcu_node *node, uint8_t model)
{
	const size_t rows = node->table->row_bytes;

	node->model = model;
	return vmcu_init(&node->ctx, node->table->models[model], node->memory + rows,
			 node->size - rows);
}

static int8_t *input_of(const struct vmcu_node *node, unsigned int index)
{
	return (node->table->row_bytes > 0U) ? (int8_t *)node->memory
					     : vmcu_input(&node->ctx, index);
}

int vmcu_node_init(struct vmcu_node *node, const struct vmcu_node_table *table,
		   struct vmcu_link *links, void *memory, size_t size)
{
	if (node == NULL || table == NULL || links == NULL || memory == NULL) {
		return -EINVAL;
	}
	if (size < table->ram_bytes) {
		return -ENOMEM;
	}
	*node = (struct vmcu_node){.table = table, .links = links, .memory = memory, .size = size};
	return vmcu_node_restart(node, 0U);
}

int vmcu_node_restart(struct vmcu_node *node, uint8_t session)
{
	int err;

	for (uint8_t i = 0; i < node->table->link_count; i++) {
		node->links[i].session = session;
		node->links[i].sent = 0U;
		node->links[i].received = 0U;
	}
	node->inference = 0U;
	err = select_model(node, 0U);
	node->failed = err != 0;
	return err;
}

int8_t *vmcu_node_input(struct vmcu_node *node, unsigned int index)
{
	if (node->model != 0U && select_model(node, 0U) != 0) {
		return NULL;
	}
	return input_of(node, index);
}

/* Copies the outputs of a model to the input of the next one. */
static int next_model(struct vmcu_node *node, const struct vmcu_node_step *step)
{
	const int8_t *made = vmcu_output(&node->ctx, 0U);
	const int err = select_model(node, step->index);

	if (err == 0) {
		(void)memmove(vmcu_input(&node->ctx, 0U) + step->offset, made, step->bytes);
	}
	return err;
}

static int run_step(struct vmcu_node *node, const struct vmcu_node_step *step)
{
	struct vmcu_link *link = &node->links[step->link];
	int8_t *input = input_of(node, step->index);
	int err;

	switch (step->kind) {
	case VMCU_NODE_RECEIVE:
		return vmcu_link_receive(link, node->inference, step->part, input + step->offset,
					 step->bytes);
	case VMCU_NODE_SEND_OUTPUT:
		return vmcu_link_send(link, node->inference, step->part,
				      vmcu_output(&node->ctx, step->index) + step->offset,
				      step->bytes);
	case VMCU_NODE_SEND_INPUT:
		return vmcu_link_send(link, node->inference, step->part, input + step->offset,
				      step->bytes);
	case VMCU_NODE_PUSH:
		/* 1: it needs another row, which a later step pushes. */
		err = vmcu_push_row(&node->ctx, input + step->offset);
		return (err > 0) ? 0 : err;
	case VMCU_NODE_NEXT:
		return next_model(node, step);
	default:
		return vmcu_invoke(&node->ctx);
	}
}

int vmcu_node_run(struct vmcu_node *node)
{
	int err = 0;

	if (node->failed || node->model != 0U) {
		return node->failed ? -ECANCELED : -EINVAL;
	}
	for (uint16_t i = 0; i < node->table->step_count && err == 0; i++) {
		err = run_step(node, &node->table->steps[i]);
	}
	node->inference++;
	node->failed = err != 0;
	return err;
}
