# SPDX-License-Identifier: Apache-2.0
"""What a plan costs, as one dataclass, and its text, JSON and HTML forms."""
