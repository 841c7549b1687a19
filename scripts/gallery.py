# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of doc/gallery.md, and prints its figures:

python scripts/gallery.py
"""

from __future__ import annotations

from pathlib import Path

import vmcu

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
        "An inverted bottleneck in a chain: its wide tensors are rings of a few rows, and a "
        "layer's output takes the place of its input while that is read.",
    ),
    "digits-single": (
        _sample("digits"),
        {"planner": "single"},
        "The same network layer by layer: each output over its input as far as that goes, no "
        "layers together.",
    ),
    "digits-tflm": (
        _sample("digits"),
        {"planner": "tflm"},
        "The same as TensorFlow Lite Micro's planner places it: whole tensors, none over "
        "another, though less is needed at any time.",
    ),
    "digits-rows": (
        _sample("digits"),
        {"stream_input": True},
        "The input comes row by row and never exists whole. It is small here, so the peak, "
        "which is elsewhere, stays.",
    ),
    "keyword": (
        _sample("keyword"),
        {},
        "A clip of features as a whole: of the first convolution's output, 1,472 bytes, three rows "
        "exist at once. Half of the pool is scratch of the convolutions, which are faster with it.",
    ),
    "keyword-hop": (
        _sample("keyword"),
        {"hop": 1},
        "The same network on a stream: rings keep the rows that the next position of the "
        "window needs. The map shows two hops.",
    ),
    "hello": (_sample("hello"), {}, "Three numbers in, four out."),
}


def drawn(name: str) -> tuple[str, str]:
    """The picture of a plan, and its lines of the page."""
    path, asked, what = PLANS[name]
    report = vmcu.load(path).plan(**asked).report()
    words = " ".join(f"{option}={value!r}" for option, value in asked.items()) or "as it is"
    title = f"{path.stem}, {words}: {report.bytes:,} bytes"
    text = f"## {title}\n\n{what}\n\n![The pool of {title}](pictures/gallery/{name}.svg)\n\n"
    return report.svg(), text


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
