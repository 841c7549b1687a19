# SPDX-License-Identifier: Apache-2.0
"""Shares the calls of a plan between two workers."""
