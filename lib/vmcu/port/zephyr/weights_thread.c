/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/weights.h>

#if defined(CONFIG_FLASH)
#include <zephyr/drivers/flash.h>
#endif
#if defined(CONFIG_FILE_SYSTEM)
#include <zephyr/fs/fs.h>
#endif

static int start_read(void *user, uint32_t offset, void *to, size_t bytes)
{
	struct vmcu_weights_thread *weights = user;
	const struct vmcu_weights_request request = {.offset = offset, .to = to, .bytes = bytes};

	return k_msgq_put(&weights->requests, &request, K_NO_WAIT);
}

static int wait_read(void *user)
{
	struct vmcu_weights_thread *weights = user;
	int result;
	const int err = k_msgq_get(&weights->results, &result, K_FOREVER);

	return (err != 0) ? err : result;
}

static void read_in_turn(void *first, void *second, void *third)
{
	struct vmcu_weights_thread *weights = first;
	struct vmcu_weights_request request;

	ARG_UNUSED(second);
	ARG_UNUSED(third);
	while (k_msgq_get(&weights->requests, &request, K_FOREVER) == 0) {
		const int result =
			weights->read(weights->source, request.offset, request.to, request.bytes);

		(void)k_msgq_put(&weights->results, &result, K_FOREVER);
	}
}

const struct vmcu_reader *vmcu_weights_start(struct vmcu_weights_thread *weights,
					     vmcu_weights_read_t read, void *source,
					     k_thread_stack_t *stack, size_t size, int priority)
{
	weights->reader =
		(struct vmcu_reader){.start = start_read, .wait = wait_read, .user = weights};
	weights->read = read;
	weights->source = source;
	k_msgq_init(&weights->requests, (char *)weights->request_buffer,
		    sizeof(weights->request_buffer[0]), VMCU_MOST_READS);
	k_msgq_init(&weights->results, (char *)weights->result_buffer,
		    sizeof(weights->result_buffer[0]), VMCU_MOST_READS);
	(void)k_thread_create(&weights->thread, stack, size, read_in_turn, weights, NULL, NULL,
			      priority, 0, K_NO_WAIT);
	return &weights->reader;
}

#if defined(CONFIG_FLASH)
int vmcu_weights_read_flash(void *source, uint32_t offset, void *to, size_t bytes)
{
	const struct vmcu_weights_flash *flash = source;
	const int err = flash_read(flash->device, (off_t)(flash->start + offset), to, bytes);

	return (err != 0) ? err : (int)bytes;
}
#endif

#if defined(CONFIG_FILE_SYSTEM)
int vmcu_weights_read_file(void *source, uint32_t offset, void *to, size_t bytes)
{
	const int err = fs_seek(source, (off_t)offset, FS_SEEK_SET);

	return (err != 0) ? err : (int)fs_read(source, to, bytes);
}
#endif
