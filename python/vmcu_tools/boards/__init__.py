# SPDX-License-Identifier: Apache-2.0
"""Boards by name: their core, clock and flash."""
