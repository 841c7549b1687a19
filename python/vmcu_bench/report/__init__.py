# SPDX-License-Identifier: Apache-2.0
"""Prints the results of runs and counts."""
