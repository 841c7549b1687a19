# SPDX-License-Identifier: Apache-2.0
"""From a graph to a plan: stages that run together, and where their tensors lie."""
