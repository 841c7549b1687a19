# SPDX-License-Identifier: Apache-2.0
"""What users call it that a window moves, for problems."""

HOP_OPTION = "--hop"
