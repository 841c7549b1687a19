# SPDX-License-Identifier: Apache-2.0
"""Draws doc/pictures/pool.svg, who lives where in the pool of a MobileNet, when:

python scripts/pool_picture.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from vmcu_tools.compiler import compile_model
from vmcu_tools.report import model
from vmcu_tools.report.page import picture, svg
from vmcu_tools.report.page.lives import lives_of
from vmcu_tools.report.page.plot import whole

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "doc" / "pictures" / "pool.svg"
NETWORK, TITLE = "mobilenetv1-0.25-96", "MobileNetV1 0.25, 96x96"


def drawn() -> str:
    """The picture."""
    sys.path.insert(0, str(ROOT / "benchmarks" / "models"))
    import build

    with tempfile.TemporaryDirectory() as folder:
        plan = compile_model(build.write(NETWORK, Path(folder)))
    report = model.report(plan, TITLE, 0, 0)
    return svg.picture(picture.shapes(whole(lives_of(plan)), report), f"The pool of {TITLE}")


if __name__ == "__main__":
    TARGET.write_text(drawn(), encoding="utf-8")
