/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The header by which Arduino and PlatformIO find this library.
 */

#ifndef VMCU_LIBRARY_H_
#define VMCU_LIBRARY_H_

#include <vmcu/vmcu.h>

#endif /* VMCU_LIBRARY_H_ */
