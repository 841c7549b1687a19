# SPDX-License-Identifier: Apache-2.0
"""The costs of a plan, as one dataclass, and its text, JSON and HTML forms."""
