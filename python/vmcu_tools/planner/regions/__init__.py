# SPDX-License-Identifier: Apache-2.0
"""Plans with a pool in each of several memories, see doc/memories.md."""
