# SPDX-License-Identifier: Apache-2.0
"""Runs MLPerf Tiny's performance and accuracy modes on samples/mlperf_tiny.

    python benchmarks/mlperf_tiny/run.py [MODEL --benchmark kws01] [--inputs FOLDER] [--out OUT]

Builds the sample for an emulated board, whose clock measures nothing, or for a board that it
flashes and reads (--board, --serial). Exits with 1 if an output differs from that of TensorFlow
Lite Micro or ONNX Runtime. --out writes the tree of a submission, which this script does not make.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from device import Device, Inference
from vmcu_bench.oracle import whole
from vmcu_bench.runners import workspace
from vmcu_bench.runners.borders import to_file, to_memory
from vmcu_bench.runners.zephyr import ZephyrRunner
from vmcu_tools import frontends
from vmcu_tools.errors import Problem, UserError

ROOT = Path(__file__).resolve().parents[2]
KEYWORD = ROOT / "samples" / "keyword" / "keyword.onnx"
SYSTEM = Path(__file__).with_name("system.json")
# Benchmarks of which a submission has folders.
FOLDERS = {"ad01": "ad", "ic01": "ic", "kws01": "kws", "vww01": "vww"}
ITERATIONS, RUNS, DAY_S = 10, 5, 86400.0


class Sample(NamedTuple):
    """Bytes that the runner sends, and their class, -1 if it is not known."""

    file: str
    label: int
    data: bytes


def labelled(folder: Path) -> Iterator[Sample]:
    """Reads a data set: y_labels.csv names files, classes, labels, and for ad01 the bytes and the
    stride of the windows in a file. Raises OSError."""
    for row in csv.reader((folder / "y_labels.csv").read_text(encoding="utf-8").splitlines()):
        name, _, label, *window = (cell.strip() for cell in row)
        data = (folder / name).read_bytes()
        size, stride = map(int, window) if window else (len(data), len(data))
        for at in range(0, len(data) - size + 1, stride):
            yield Sample(name, int(label), data[at : at + size])


class Reference:
    """A model in the runtime of its file, with the forms of input that a benchmark has."""

    def __init__(self, model: Path, benchmark: str):
        graph = self.graph = frontends.load(model)
        self.runtime, _ = whole.runner(model, graph)
        self.input = graph.tensors[graph.inputs[0].tensor]
        self.output = graph.tensors[graph.outputs[0].tensor]
        self.reals, self.images = benchmark == "ad01", benchmark in ("ic01", "vww01")

    def random(self, count: int) -> Iterator[Sample]:
        """Makes inputs over the whole range, the same in each call."""
        rng = np.random.default_rng(0)
        for index in range(count):
            data = rng.integers(-128, 128, self.input.bytes)
            reals = data + rng.uniform(-0.5, 0.5, data.shape) - self.input.zero_point
            form = (reals * self.input.scale).astype("<f4") if self.reals else data.astype(np.int8)
            yield Sample(f"random {index}", -1, form.tobytes())

    def compute(self, data: bytes) -> tuple[str, list[float]]:
        """Returns the output's bytes in hexadecimal digits, and the results of the protocol."""
        values = np.frombuffer(data, "<f4" if self.reals else np.int8)
        real = values
        if self.reals:
            scaled = (real / np.float32(self.input.scale)).astype(np.float64)
            whole_steps = np.trunc(scaled + np.copysign(0.5, scaled)) + self.input.zero_point
            values = np.clip(whole_steps, -128, 127).astype(np.int8)
        elif self.images:
            values = values ^ np.int8(-128)
        outputs = self.runtime([to_file(values, self.graph, self.graph.inputs[0])])
        output = to_memory(outputs[0], self.graph, self.graph.outputs[0]).ravel()
        results = (output - np.float32(self.output.zero_point)) * np.float32(self.output.scale)
        error = [float(np.mean((results - real) ** 2))] if self.reals else []
        return output.tobytes().hex(), error or results.tolist()

    def check(self, sample: Sample, done: Inference) -> Inference:
        """Returns the inference. Raises UserError if it is not the runtime's."""
        output, results = self.compute(sample.data)
        if done.output != output or not np.allclose(done.results, results, 1e-4, 0.001):
            reason = f"{sample.file}: the device's output differs from that of the model's runtime"
            raise UserError(Problem(reason, "call `vmcu verify` for the model"))
        return done


def quality(samples: Sequence[Sample], results: Sequence[Sequence[float]]) -> str:
    """Returns the accuracy in the words of the benchmark's runner: the area under the ROC curve of
    files if a result is one number, else the share of right classes."""
    if len(results[0]) > 1:
        right = [np.argmax(r) == s.label for s, r in zip(samples, results, strict=True)]
        return f"Top 1% = {100 * np.mean(right):.1f}"
    windows = defaultdict(list)
    for sample, (error,) in zip(samples, results, strict=True):
        windows[sample.label, sample.file].append(error)
    errors = [[np.mean(e) for key, e in windows.items() if key[0] == label] for label in (0, 1)]
    above = np.sign(np.subtract.outer(errors[1], errors[0]))
    return f"AUC = {np.mean(above + 1) / 2:.3f}"


def measure(dut: Device, samples: Sequence[Sample], seconds: float) -> list[Inference]:
    """Repeats each inference ten times or more, for so many seconds of the device's clock."""
    times, done = ITERATIONS, list[Inference]()
    for sample in samples:
        while (last := dut.infer(sample.data, times, 1)).elapsed_time < 1e6 * seconds:
            times = math.ceil(1.1e6 * times * seconds / max(last.elapsed_time, 1000))
        done.append(last)
    return done


def run(args: argparse.Namespace, dut: Device) -> dict[str, str]:
    """Runs both modes. Returns the files of results, by their paths in a benchmark's folder."""
    if dut.value("profile", "model") != [f"[{args.benchmark}]"]:
        raise UserError(Problem("the device has another benchmark", "build it for this one"))
    reference = Reference(args.model, args.benchmark)
    samples = list(labelled(args.inputs) if args.inputs else reference.random(RUNS))
    few = [samples[i % len(samples)] for i in range(RUNS)]
    fast = [*map(reference.check, few, measure(dut, few, args.seconds))]
    speed = f"Median throughput is {median(i.throughput for i in fast):10.3f} inf./sec."
    print(speed if args.serial else f"{speed} The emulator's clock: this is no measurement.")
    modes = {"performance": (few, fast, speed, [*dut.log])}
    dut.log.clear()
    done = [reference.check(s, dut.infer(s.data, 1, 0)) for s in samples]
    text = f"{len(done)} outputs equal those of the model's runtime in every byte."
    if args.inputs:
        wanted = quality(samples, [reference.compute(s.data)[1] for s in samples])
        print(f"{text} It has: {wanted}")
        text = quality(samples, [i.results for i in done])
    print(text)
    modes["accuracy"] = (samples, done, text, dut.log)
    files = {}
    for mode, (inputs, inferences, figure, log) in modes.items():
        pairs = zip(inputs, map(asdict, inferences), strict=True)
        records = [{"file": s.file, "class": s.label, "infer": answer} for s, answer in pairs]
        files[f"{mode}/results.json"] = json.dumps(records)
        files[f"{mode}/results.txt"] = f"ulp-mlperf: {figure}"
        files[f"{mode}/log.txt"] = "\n".join(log)
    return files


def write(args: argparse.Namespace, image: Path, results: dict[str, str]) -> None:
    """Writes the tree that version 1.4 of the submission checker reads. Raises OSError."""
    name = args.board.replace("/", "_")
    fields = json.loads(SYSTEM.read_text(encoding="utf-8"))
    fields |= {"Submitter": args.submitter, "Board Name": args.board}
    readme = [f"# {name}", "", f"    python {' '.join(sys.argv)}", ""]
    for path in (args.model, image / "zephyr" / "zephyr.elf"):
        readme.append(f"SHA-256 of {path.name}: {hashlib.sha256(path.read_bytes()).hexdigest()}")
    files = {f"systems/{name}.json": json.dumps(fields, indent=2)}
    files[f"code/{name}/{FOLDERS[args.benchmark]}/README.md"] = "\n".join(readme)
    for path, text in results.items():
        files[f"results/{name}/{FOLDERS[args.benchmark]}/{path}"] = text
    for path, text in files.items():
        file = args.out / "closed" / args.submitter / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", type=Path, default=KEYWORD, help="int8 model file")
    parser.add_argument("--benchmark", default="keyword", help=f"{', '.join(FOLDERS)} or a name")
    parser.add_argument("--inputs", type=Path, help="folder of y_labels.csv; else random inputs")
    parser.add_argument("--seconds", type=float, default=10.0, help="least time of each run")
    parser.add_argument("--board", default="mps2/an385", help="board of Zephyr")
    parser.add_argument("--serial", metavar="PORT", help="serial port of a board, to be flashed")
    parser.add_argument("--image", type=Path, help="folder of a build; else the script builds")
    parser.add_argument("--out", type=Path, help="folder for the tree of a submission")
    parser.add_argument("--submitter", default="SUBMITTER", help="name of a folder of the tree")
    args = parser.parse_args()
    if args.out and args.benchmark not in FOLDERS:
        parser.error(f"--out requires --benchmark {', '.join(FOLDERS)}")
    return args


def main() -> int:
    args = options()
    try:
        with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
            image, tree = args.image or Path(folder), workspace.zephyr_base()
            runner = ZephyrRunner(args.board, DAY_S, args.serial)
            if args.image is None:
                model = [f"-DMODEL={args.model.resolve()}", f"-DBENCHMARK={args.benchmark}"]
                runner.build(ROOT / "samples" / "mlperf_tiny", image, tree, model)
            with runner.started(image, workspace.environment(tree)) as link:
                results = run(args, Device(link))
            if args.out:
                write(args, image, results)
    except (OSError, UserError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
