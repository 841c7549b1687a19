# SPDX-License-Identifier: Apache-2.0
"""`python -m vmcu_kernelgen` regenerates the committed C kernels."""

from vmcu_tools.paths import runtime

from .generate import write

for path in write(runtime() / "kernels" / "gen"):
    print(f"wrote {path}")
