# SPDX-License-Identifier: Apache-2.0
"""Decides whether a network fits, and finds changes with which it would: every answer is a plan."""
