# SPDX-License-Identifier: Apache-2.0
"""Random float networks through `vmcu quantize`: what it writes is built, proven, and computes what
ONNX Runtime computes of it; else it says why, and writes nothing.

    python tests/fuzz/quantized.py [--seconds N] [--first 0] [--count N] [--keep DIR]

Network N is the same in every run.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
import traceback
from pathlib import Path

import importers  # noqa: F401  finds vmcu_tools and the tests' builders
import onnx
import onnxruntime
from float_networks import FloatNetwork
from vmcu_bench.verify.verify import verify
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit.model import emit
from vmcu_tools.errors import UserError
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.quantize import calibration


class WrongError(Exception):
    """What `vmcu quantize` wrote is refused, or wrong."""


def outcome(seed: int, folder: Path) -> str:
    """What becomes of a network: "no model", "refused" or "right"."""
    drawn = FloatNetwork(seed)
    model, source, target = drawn.model(), folder / "float.onnx", folder / "int8.onnx"
    target.unlink(missing_ok=True)
    if not model.graph.output or not _runs(model, drawn):
        return "no model"
    onnx.save(model, source)
    try:
        calibration.quantize(source, target, drawn.samples())
    except UserError as error:
        text = str(error)
        if (
            target.exists()
            or "`vmcu quantize`" in text
            or not all(p.remedy for p in error.problems)
        ):
            raise WrongError(f"a refusal that cannot be followed: {text}") from error
        return "refused"
    try:
        plan = compile_model(target, CompileOptions(ram=None))
        emit(plan, "network")
        found = verify(plan, "virtual", 3, 1, seed)
    except UserError as error:
        raise WrongError(f"quantised, then refused: {error}") from error
    if not found.passed:
        off = [(c.node, c.op, c.largest, c.tolerance) for c in found.checks if not c.passed]
        ends = [(b.output, b.largest) for b in found.ends.borders if not b.passed]
        raise WrongError(f"differs from ONNX Runtime: {off} {ends}")
    return "right"


def _runs(model: onnx.ModelProto, drawn: FloatNetwork) -> bool:
    """Whether ONNX Runtime computes the float network."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        session.run(None, drawn.samples(1)[0])
    except Exception:  # onnxruntime's exceptions have no base of their own
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--keep", type=Path, default=Path())
    args = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    counts: collections.Counter[str] = collections.Counter()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.count):
            if time.monotonic() - begun > args.seconds:
                break
            try:
                counts[outcome(seed, Path(folder))] += 1
            except Exception as error:  # whatever it is, it is what is looked for
                counts["wrong"] += 1
                args.keep.mkdir(parents=True, exist_ok=True)
                for name in ("float.onnx", "int8.onnx"):
                    if (Path(folder) / name).exists():
                        data = (Path(folder) / name).read_bytes()
                        (args.keep / f"quantized-{seed}-{name}").write_bytes(data)
                print(f"network {seed}: {error!r}", flush=True)
                if not isinstance(error, WrongError):
                    traceback.print_exc()
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
