# SPDX-License-Identifier: Apache-2.0
"""A plan as a page and as a picture: the tensors in the pool over time."""
