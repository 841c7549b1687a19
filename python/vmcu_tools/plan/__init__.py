# SPDX-License-Identifier: Apache-2.0
"""The parts of a plan: stages, rings, the order of calls, rotation."""
