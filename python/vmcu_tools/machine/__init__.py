# SPDX-License-Identifier: Apache-2.0
"""The virtual MCU: runs a graph or a plan in numpy, byte for byte."""
