/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Macros of Zephyr 4.4 for flash partitions, for earlier trees, too.
 */

#ifndef VMCU_PARTITIONS_H_
#define VMCU_PARTITIONS_H_

#include <zephyr/storage/flash_map.h>

#if !defined(PARTITION_ID)
#define PARTITION_ID(label)     FIXED_PARTITION_ID(label)
#define PARTITION_OFFSET(label) FIXED_PARTITION_OFFSET(label)
#define PARTITION_SIZE(label)   FIXED_PARTITION_SIZE(label)
#define PARTITION_DEVICE(label) FIXED_PARTITION_DEVICE(label)
#endif

#endif /* VMCU_PARTITIONS_H_ */
