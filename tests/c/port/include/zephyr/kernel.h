/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Work queues, signals, locks and a clock. The test defines the functions.
 */

#ifndef TEST_ZEPHYR_KERNEL_H_
#define TEST_ZEPHYR_KERNEL_H_

#include <stdbool.h>
#include <stdint.h>

#include <zephyr/sys/util.h>

struct k_work {
	void (*handler)(struct k_work *work);
};

struct k_work_q {
	struct k_work *next;
};

struct k_spinlock {
	bool locked;
};

typedef int k_spinlock_key_t;

struct k_poll_signal {
	bool signaled;
	int result;
};

extern struct k_work_q k_sys_work_q;

bool k_is_user_context(void);

uint32_t k_cycle_get_32(void);

k_spinlock_key_t k_spin_lock(struct k_spinlock *lock);
void k_spin_unlock(struct k_spinlock *lock, k_spinlock_key_t key);
void k_work_init(struct k_work *work, void (*handler)(struct k_work *work));
int k_work_submit_to_queue(struct k_work_q *queue, struct k_work *work);
void k_poll_signal_reset(struct k_poll_signal *signal);
int k_poll_signal_raise(struct k_poll_signal *signal, int result);

#endif /* TEST_ZEPHYR_KERNEL_H_ */
