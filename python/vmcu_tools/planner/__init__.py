# SPDX-License-Identifier: Apache-2.0
"""Plans a graph: fused stages and the offsets of their tensors."""
