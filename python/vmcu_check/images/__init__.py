# SPDX-License-Identifier: Apache-2.0
"""The checker of linked images."""
