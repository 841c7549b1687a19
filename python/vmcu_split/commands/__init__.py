# SPDX-License-Identifier: Apache-2.0
"""Commands of this package."""
