# SPDX-License-Identifier: Apache-2.0
"""The kernels: a language, programs in it, and what instructions mean and are on each target."""
