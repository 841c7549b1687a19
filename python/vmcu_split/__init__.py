# SPDX-License-Identifier: Apache-2.0
"""One network on several microcontrollers: partition, plans, node tables."""
