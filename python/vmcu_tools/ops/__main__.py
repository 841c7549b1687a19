# SPDX-License-Identifier: Apache-2.0
"""`python -m vmcu_tools.ops` writes the C header of the ops' own kernels."""

from ..paths import runtime
from .operators_h import text

(runtime() / "include" / "vmcu" / "operators.h").write_text(text())
