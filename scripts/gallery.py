# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of doc/gallery.md, and prints its figures:

python scripts/gallery.py
"""

from __future__ import annotations

from pathlib import Path

import vmcu
from vmcu_lab.planners import plan_of
from vmcu_tools.compiler import compile_model
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import PLANNERS
from vmcu_tools.report.model import report as figures
from vmcu_tools.report.page.files import svg_picture

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "doc" / "pictures" / "gallery"
PAGE = ROOT / "doc" / "gallery.md"
BEGIN, END = "<!-- plans -->\n", "<!-- end of plans -->"


def _sample(name: str) -> Path:
    return ROOT / "samples" / name / f"{name}.onnx"


# By picture: the model, what is asked for, and what there is to see.
PLANS = {
    "digits": (
        _sample("digits"),
        {},
        "One fused stage executes the inverted bottleneck: its wide tensors are line buffers of a "
        "few rows, and outputs overwrite inputs while layers read them.",
    ),
    "digits-single": (
        _sample("digits"),
        {"planner": "single"},
        "The same network without fused stages: each output overwrites its input where it can.",
    ),
    "digits-tflm": (
        _sample("digits"),
        {"planner": "tflm"},
        "The same network in TensorFlow Lite Micro's arena: whole tensors, none overlapping "
        "another live tensor.",
    ),
    "digits-rows": (
        _sample("digits"),
        {"stream_input": True},
        "You push the input row by row. It is small in this network, and the peak is in another "
        "layer, so the pool keeps its size.",
    ),
    "keyword": (
        _sample("keyword"),
        {},
        "The input is a whole clip of features. The first convolution's output has 1,472 bytes, "
        "and its line buffer has three rows. Half of the pool is scratch, which speeds up "
        "convolutions.",
    ),
    "keyword-hop": (
        _sample("keyword"),
        {"hop": 1},
        "The same network on a stream: ring buffers keep the rows that the next window needs. The "
        "map shows two hops.",
    ),
    "hello": (_sample("hello"), {}, "The network has three inputs and four outputs."),
}


def drawn(name: str) -> tuple[str, str]:
    """The picture of a plan, and its lines of the page."""
    path, asked, what = PLANS[name]
    words = " ".join(f"{option}={value!r}" for option, value in asked.items()) or "default options"
    if planner := asked.get("planner"):
        # Those of `vmcu compare`.
        own = planner in PLANNERS
        options = CompileOptions(planner=planner)
        plan = compile_model(path, options) if own else plan_of(planner, path)
        size, picture = plan.pool_bytes, svg_picture(plan, figures(plan, path.stem, 0, 0)).decode()
    else:
        report = vmcu.load(path).plan(**asked).report()
        size, picture = report.bytes, report.svg()
    title = f"{path.stem}, {words}: {size:,} bytes"
    text = f"## {title}\n\n{what}\n\n![The pool of {title}](pictures/gallery/{name}.svg)\n\n"
    return picture, text


def inserted(page: str, texts: list[str]) -> str:
    """The page with these lines between its marks."""
    head, _, rest = page.partition(BEGIN)
    return head + BEGIN + "\n" + "".join(texts) + END + rest.partition(END)[2]


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    plans = {name: drawn(name) for name in PLANS}
    for name, (picture, _) in plans.items():
        (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
    page = inserted(PAGE.read_text(encoding="utf-8"), [text for _, text in plans.values()])
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
