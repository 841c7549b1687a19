# SPDX-License-Identifier: Apache-2.0
"""Instructions of cores, and their costs."""
