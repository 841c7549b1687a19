# SPDX-License-Identifier: Apache-2.0
"""The commands that run a model: see vmcu_tools/commands."""
