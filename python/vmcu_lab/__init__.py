# SPDX-License-Identifier: Apache-2.0
"""What stands beside the compiler: placement of anybody's buffers and graphs, the planners of other
tools, and wear of memories."""
