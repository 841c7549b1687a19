# SPDX-License-Identifier: Apache-2.0
"""What an inference executes on an emulated board: instructions, loads and stores, by layer."""
