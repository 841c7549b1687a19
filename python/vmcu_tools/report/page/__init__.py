# SPDX-License-Identifier: Apache-2.0
"""A plan as a page and as a picture: who lives where in the pool, and when."""
