# SPDX-License-Identifier: Apache-2.0
"""Tells a story with ONNX Runtime and the int8 network of a folder, storyteller.onnx, and writes
words.h beside it, which samples/storyteller compares its story with:

python examples/nanogpt/tell.py story
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "samples" / "storyteller"))
from stories import END, vocabulary
from train import PROMPT, told, write_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    words = vocabulary()
    prompt = [words.index(word) for word in PROMPT]
    story = told(folder / "storyteller.onnx", prompt, words.index(END))
    write_words(folder / "words.h", words, prompt, story)
    print(" ".join(words[word] for word in [*prompt, *story]))
    print(f"wrote {folder / 'words.h'}")


if __name__ == "__main__":
    main()
