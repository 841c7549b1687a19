# SPDX-License-Identifier: Apache-2.0
"""Counts instructions, loads and stores of an inference on an emulated board, by layer."""
