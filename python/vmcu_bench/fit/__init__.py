# SPDX-License-Identifier: Apache-2.0
"""Does a network fit, and what would make it: every answer is a plan."""
