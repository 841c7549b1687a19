/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What the runtime is configured with: on Zephyr by Kconfig, elsewhere by definitions of the
 * compiler's command line, which the library and all that includes its headers share.
 *
 * All headers that depend on a VMCU_... macro include this one, so that a Zephyr build needs no
 * definitions on the command lines of files that have nothing to do with vmcu.
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

/* A file may include these headers in a build without the module: it then has both requantisers. */
#if defined(CONFIG_VMCU) && !defined(CONFIG_VMCU_REQUANT_FIXED)
#define VMCU_NO_REQUANT_FIXED 1
#endif

#if defined(CONFIG_VMCU) && !defined(CONFIG_VMCU_REQUANT_FLOAT)
#define VMCU_NO_REQUANT_FLOAT 1
#endif

#endif /* __ZEPHYR__ */

#endif /* VMCU_CONFIG_H_ */
