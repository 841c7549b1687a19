/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief How single functions are compiled, whatever the build optimises for.
 */

#ifndef VMCU_COMPILED_H_
#define VMCU_COMPILED_H_

/** Part of each caller, also where a build optimises for size: instructions are code of a loop. */
#define VMCU_INLINE static inline __attribute__((always_inline))

/** Compiled for size: code with a small share of any network's time. */
#define VMCU_SMALL __attribute__((cold))

/** A function of its own in each file that calls it, never part of a caller. */
#define VMCU_APART static __attribute__((noinline, unused))

/** VMCU_APART, and compiled for speed even if all callers are compiled for size. */
#define VMCU_HOT __attribute__((hot)) VMCU_APART

/** VMCU_APART, and compiled for size. */
#define VMCU_CALLED VMCU_SMALL VMCU_APART

#endif /* VMCU_COMPILED_H_ */
