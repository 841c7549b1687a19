# SPDX-License-Identifier: Apache-2.0
"""Prints 1 if a model keeps state when `vmcu build` compiles it with these options, else 0."""

from __future__ import annotations

import argparse
from pathlib import Path

from vmcu_tools.compiler import rows_of_call

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--state", action="append")
    # The other options of `vmcu build` do not matter, but --hop, which always needs state.
    args, _ = parser.parse_known_args()
    print(int(rows_of_call(args.model, args.state) > 0))
