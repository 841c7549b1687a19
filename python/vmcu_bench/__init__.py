# SPDX-License-Identifier: Apache-2.0
"""Runs, verifies and counts compiled models, on this computer and on boards."""
