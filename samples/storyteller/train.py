# SPDX-License-Identifier: Apache-2.0
"""Trains a language model that tells short stories, and writes it in int8.

Out come `storyteller.onnx` and `words.h`: the vocabulary, a prompt and the story that ONNX Runtime
tells with the same file. Both are committed: building the sample does not need this script.
`--position` trains the network of the folder `position`. The script needs numpy, onnx, onnxruntime
and vmcu_tools; another processor may round differently and end at slightly different weights.

`--full` trains the shape of stories260K, whose weights are larger than the flash of
qemu_cortex_m3: 5 layers, width 64, 8 query heads on 4 key heads, 512 words.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from export import step_model
from network import Shape, Weights, initial, train
from stories import END, stream, vocabulary
from vmcu_tools.quantize.calibration import quantize

HERE = Path(__file__).parent
SEED = 7
SMALL = Shape(words=160, tokens=64, layers=3, heads=4, key_heads=2, depth=8, feed=88)
FULL = Shape(words=512, tokens=64, layers=5, heads=8, key_heads=4, depth=8, feed=172)
PROMPT = ["once", "upon", "a", "time", "there", "was", "a", "brave", "fox", "named", "lily", "."]
MOST = 80


class Step:
    """A file's step, whose caches are zeros at first."""

    def __init__(self, path: Path):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        # Without it, processors lacking VNNI saturate 16-bit sums and answer differently.
        options.add_session_config_entry("session.x64quantprecision", "1")
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = self.session.get_inputs()
        caches = [one for one in inputs if one.name.startswith("past")]
        self.caches = {one.name: np.zeros(one.shape, np.float32) for one in caches}
        self.has_position, self.position = len(inputs) > 1 + len(caches), 0
        self.positions = caches[0].shape[2] + 1 if self.has_position else MOST + len(PROMPT)

    def feeds(self, word: int) -> dict[str, np.ndarray]:
        feeds = {"input_ids": np.array([[word]]), **self.caches}
        if self.has_position:
            feeds["position_ids"] = np.array([[self.position]])
        return feeds

    def __call__(self, word: int) -> np.ndarray:
        """Logits of the next word, float32 (words,)."""
        logits, *caches = self.session.run(None, self.feeds(word))
        self.caches = dict(zip(self.caches, caches, strict=True))
        self.position += 1
        return np.ravel(logits)


def told(path: Path, prompt: list[int], end: int) -> list[int]:
    """The words that a file adds to a prompt: always the one with the largest logit, up to `end`,
    MOST words or the last position."""
    step, found = Step(path), list[int]()
    for word in prompt[:-1]:
        step(word)
    word = prompt[-1]
    while word != end and len(found) < MOST and step.position < step.positions:
        word = int(step(word).argmax())
        found.append(word)
    return found


def agreement(paths: tuple[Path, Path], stories: list[np.ndarray]) -> float:
    """How often two files expect the same next word."""
    same = []
    for words in stories:
        steps = [Step(path) for path in paths]
        for word in words[:-1]:
            first, second = (int(step(int(word)).argmax()) for step in steps)
            same.append(first == second)
    return float(np.mean(same))


def samples(path: Path, stories: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """What the step reads at every fifth word of some stories, told one after the other; with
    positions, each begins with empty caches."""
    step, number, found = Step(path), 0, []
    for words in stories:
        if step.has_position:
            step, words = Step(path), words[:-1]
        for word in words:
            if number % 5 == 0:
                found.append(step.feeds(int(word)))
            step(int(word))
            number += 1
    return found


def trained(shape: Shape, steps: int, rng: np.random.Generator) -> Weights:
    stories = stream(4000, rng)
    weights = initial(shape, rng)
    for number, loss in enumerate(train(shape, weights, stories, steps, rng), 1):
        if number % 100 == 0:
            print(f"step {number}: loss {loss:.3f}", flush=True)
    return weights


def c_array(values: list[str]) -> str:
    """Lines of a C initialiser of at most 100 columns."""
    lines = [""]
    for value in values:
        if len(lines[-1]) + len(value) > 88:
            lines.append("")
        lines[-1] += f"{value}, "
    return "\n".join(f"\t{line.rstrip()}" for line in lines)


def write_words(path: Path, words: list[str], prompt: list[int], story: list[int]) -> None:
    quoted = [f'"{word}"' if word != '"' else '"\\""' for word in words]
    path.write_text(
        f"""/*
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written by train.py: the vocabulary, a prompt, and the story that ONNX Runtime adds to it.
 */

#ifndef STORYTELLER_WORDS_H_
#define STORYTELLER_WORDS_H_

#include <stdint.h>

#define WORDS {len(words)}
#define END   {words.index(END)}

/* clang-format off */
static const char *const words[WORDS] = {{
{c_array(quoted)}
}};

static const uint16_t prompt[] = {{
{c_array([str(word) for word in prompt])}
}};

static const uint16_t onnxruntime_story[] = {{
{c_array([str(word) for word in story])}
}};
/* clang-format on */

#endif /* STORYTELLER_WORDS_H_ */
"""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, help="folder to write to")
    parser.add_argument("--full", action="store_true", help="the shape of stories260K")
    parser.add_argument("--position", action="store_true", help="learned positions, not ALiBi")
    parser.add_argument("--tokens", type=int, default=64, help="tokens that a step attends to")
    parser.add_argument("--steps", type=int, default=2000, help="training steps")
    given = parser.parse_args()
    folder = given.output or (HERE / "position" if given.position else HERE)
    folder.mkdir(parents=True, exist_ok=True)
    shape = FULL if given.full else SMALL
    shape = replace(shape, tokens=given.tokens, position=given.position)
    words = vocabulary()
    weights = trained(shape, given.steps, np.random.default_rng(SEED))
    held_out = stream(40, np.random.default_rng(SEED + 1))
    path = folder / "storyteller.onnx"
    with tempfile.TemporaryDirectory() as made:
        exact = Path(made) / "float.onnx"
        onnx.save(step_model(shape, weights), exact)
        quantize(exact, path, samples(exact, held_out[:12]))
        prompt = [words.index(word) for word in PROMPT]
        for title, one in (("float", exact), ("int8", path)):
            story = told(one, prompt, words.index(END))
            print(f"{title}:", " ".join(words[word] for word in [*prompt, *story]))
        share = agreement((exact, path), held_out[20:])
    print(f"int8 and float expect the same next word: {share:.1%}")
    write_words(folder / "words.h", words, prompt, story)
    print(f"wrote {path} ({path.stat().st_size} bytes) and words.h")


if __name__ == "__main__":
    main()
