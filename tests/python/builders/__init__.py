# SPDX-License-Identifier: Apache-2.0
"""Small model files for tests, written by the formats' own libraries."""
