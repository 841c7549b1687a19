# SPDX-License-Identifier: Apache-2.0
"""Other tools' planners, to compare with."""
