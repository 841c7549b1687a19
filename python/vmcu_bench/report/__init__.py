# SPDX-License-Identifier: Apache-2.0
"""Texts of what runs and counts found."""
