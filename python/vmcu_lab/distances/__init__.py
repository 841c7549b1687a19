# SPDX-License-Identifier: Apache-2.0
"""Equations 1 and 2 of the vMCU paper: how close a layer's output may come to its input, as integer
programs over the accesses of its kernel."""
