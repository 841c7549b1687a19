# SPDX-License-Identifier: Apache-2.0
"""`python -m vmcu_tools.ops` writes the C that describes the ops' kernels: for models the header of
those that one op alone has, for the loader of containers all kernels."""

from ..paths import runtime
from . import descriptors, operators_h

(runtime() / operators_h.PATH).write_text(operators_h.text(), encoding="utf-8")
(runtime() / descriptors.PATH).write_text(descriptors.text(), encoding="utf-8")
