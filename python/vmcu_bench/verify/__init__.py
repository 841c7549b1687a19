# SPDX-License-Identifier: Apache-2.0
"""A model against its own runtime: each tensor, and the file from end to end."""
