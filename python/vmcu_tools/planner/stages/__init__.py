# SPDX-License-Identifier: Apache-2.0
"""Which layers run together, and in which tiles."""
