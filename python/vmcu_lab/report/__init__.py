# SPDX-License-Identifier: Apache-2.0
"""Texts of placements, comparisons and wear."""
