# SPDX-License-Identifier: Apache-2.0
"""Places tensors: the order of nodes, and the offset of every byte."""
