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

#if defined(CONFIG_VMCU_PROBE)
#define VMCU_PROBE 1
#endif

#if defined(CONFIG_VMCU_COUNTERS)
#define VMCU_COUNTERS 1
#endif

#if defined(CONFIG_VMCU_SEVERAL_POOLS)
#define VMCU_SEVERAL_POOLS 1
#endif

#if defined(CONFIG_VMCU_STREAMS)
#define VMCU_STREAMS 1
#endif

#if defined(CONFIG_VMCU_EXTERNAL_WEIGHTS)
#define VMCU_EXTERNAL_WEIGHTS 1
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

/* Each access of a kernel would turn its address and look up its pool. */
#if defined(VMCU_SEVERAL_POOLS) && defined(VMCU_POOL_ROTATE)
#error "VMCU_SEVERAL_POOLS and VMCU_POOL_ROTATE cannot be combined"
#endif

/*
 * VMCU_CONFIGURED(name) is the name with the options that change structs or kernels. Functions that
 * set up structs, and models, have such names: if the library, a model and the application were
 * compiled with different options, the linker prints an undefined reference to
 * vmcu_init_with_rotate or the like. Each header of a model defines its name so.
 */
#if defined(VMCU_POOL_GUARD)
#define VMCU_NAME_GUARD _with_guard
#else
#define VMCU_NAME_GUARD
#endif

#if defined(VMCU_POOL_ROTATE)
#define VMCU_NAME_ROTATE _with_rotate
#else
#define VMCU_NAME_ROTATE
#endif

#if defined(VMCU_PROFILE)
#define VMCU_NAME_PROFILE _with_profile
#elif defined(VMCU_PROBE)
#define VMCU_NAME_PROFILE _with_probe
#else
#define VMCU_NAME_PROFILE
#endif

#if defined(VMCU_COUNTERS)
#define VMCU_NAME_COUNTERS _with_counters
#else
#define VMCU_NAME_COUNTERS
#endif

#if defined(VMCU_SEVERAL_POOLS)
#define VMCU_NAME_POOLS _with_several_pools
#else
#define VMCU_NAME_POOLS
#endif

#if defined(VMCU_STREAMS)
#define VMCU_NAME_STREAMS _with_streams
#else
#define VMCU_NAME_STREAMS
#endif

#if defined(VMCU_CONTAINERS)
#define VMCU_NAME_CONTAINERS _with_containers
#else
#define VMCU_NAME_CONTAINERS
#endif

#if defined(VMCU_EXTERNAL_WEIGHTS)
#define VMCU_NAME_WEIGHTS _with_external_weights
#else
#define VMCU_NAME_WEIGHTS
#endif

#if defined(VMCU_NO_REQUANT_FIXED)
#define VMCU_NAME_REQUANT _without_fixed
#elif defined(VMCU_NO_REQUANT_FLOAT)
#define VMCU_NAME_REQUANT _without_float
#else
#define VMCU_NAME_REQUANT
#endif

#define VMCU_CONFIGURED(name)                                                                      \
	VMCU_EXPANDED(name, VMCU_NAME_GUARD, VMCU_NAME_ROTATE, VMCU_NAME_PROFILE, VMCU_NAME_POOLS, \
		      VMCU_NAME_STREAMS, VMCU_NAME_CONTAINERS, VMCU_NAME_WEIGHTS,                  \
		      VMCU_NAME_REQUANT, VMCU_NAME_COUNTERS)
#define VMCU_EXPANDED(name, a, b, c, d, e, f, g, h, i) VMCU_JOINED(name, a, b, c, d, e, f, g, h, i)
#define VMCU_JOINED(name, a, b, c, d, e, f, g, h, i)   name##a##b##c##d##e##f##g##h##i

#define vmcu_init       VMCU_CONFIGURED(vmcu_init)
#define vmcu_init_pools VMCU_CONFIGURED(vmcu_init_pools)

#if defined(VMCU_AUDIO_CMSIS_DSP)
#define vmcu_audio_init vmcu_audio_init_with_cmsis_dsp
#endif

#endif /* VMCU_CONFIG_H_ */
