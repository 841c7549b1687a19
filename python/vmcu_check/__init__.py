# SPDX-License-Identifier: Apache-2.0
"""Checks that share no line with the compiler and its planners."""
