/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Configuration of the runtime: on Zephyr from Kconfig, on other systems from VMCU_...
 * macros on the compiler's command line. Define the same macros for the library and for its users.
 *
 * Every header that depends on such a macro includes this one. A Zephyr build therefore adds no
 * definitions to the command lines of other files.
 */

#ifndef VMCU_CONFIG_H_
#define VMCU_CONFIG_H_

#if defined(__ZEPHYR__)

#if defined(CONFIG_VMCU_POOL_GUARD)
#define VMCU_POOL_GUARD 1
#endif

#if defined(CONFIG_VMCU_POOL_ROTATE)
#define VMCU_POOL_ROTATE 1
#endif

#if defined(CONFIG_VMCU_PROFILE)
#define VMCU_PROFILE 1
#endif

#if defined(CONFIG_VMCU_SEVERAL_POOLS)
#define VMCU_SEVERAL_POOLS 1
#endif

#if defined(CONFIG_VMCU_STREAMS)
#define VMCU_STREAMS 1
#endif

#if defined(CONFIG_VMCU_CONTAINERS)
#define VMCU_CONTAINERS 1
#endif

#if defined(CONFIG_VMCU_CONTAINER_SIGNED)
#define VMCU_CONTAINER_SIGNED 1
#endif

#if defined(CONFIG_VMCU_ONLINE_PLANNER)
#define VMCU_ONLINE_PLANNER 1
#endif

#if defined(CONFIG_VMCU_CONTAINER_REPLAY)
#define VMCU_CONTAINER_REPLAY 1
#endif

#if defined(CONFIG_VMCU_AUDIO_CMSIS_DSP)
#define VMCU_AUDIO_CMSIS_DSP 1
#endif

/* A file can include these headers in a build without the module: it gets both requantisers. */
#if defined(CONFIG_VMCU) && !defined(CONFIG_VMCU_REQUANT_FIXED)
#define VMCU_NO_REQUANT_FIXED 1
#endif

#if defined(CONFIG_VMCU) && !defined(CONFIG_VMCU_REQUANT_FLOAT)
#define VMCU_NO_REQUANT_FLOAT 1
#endif

#endif /* __ZEPHYR__ */

#endif /* VMCU_CONFIG_H_ */
