# SPDX-License-Identifier: Apache-2.0
"""What runs, verifies and counts compiled models, on this computer and on boards."""
