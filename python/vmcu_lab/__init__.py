# SPDX-License-Identifier: Apache-2.0
"""Tools beside the compiler: placement of standalone buffers and graphs, the planners of other
tools, and wear of memories."""
