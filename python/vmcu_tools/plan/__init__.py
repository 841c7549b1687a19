# SPDX-License-Identifier: Apache-2.0
"""What a plan is: stages, rings, the order of calls, rotation."""
