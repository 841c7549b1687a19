# SPDX-License-Identifier: Apache-2.0
"""The kernels: a language, programs in it, and the reference semantics and targets' code of
instructions."""
