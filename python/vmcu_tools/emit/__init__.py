# SPDX-License-Identifier: Apache-2.0
"""Emits C from a plan: const tables that the executor in lib/vmcu walks."""

from .model import Emitted, emit
from .output import write

__all__ = ["Emitted", "emit", "write"]
