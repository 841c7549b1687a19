# SPDX-License-Identifier: Apache-2.0
"""Plans networks, each in a process of its own, and prints what that takes, for doc/planner.md.

python benchmarks/graphs/planning.py [TABLE] [--only NETWORK...] [--write FILE]

Calls are those of Python functions, which no other work on the computer changes.
"""

from __future__ import annotations

import cProfile
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for beside in ("benchmarks/paper", "benchmarks/graphs", "benchmarks/speech"):
    sys.path.append(str(ROOT / beside))

from manifests import Behind, hashes  # noqa: E402
from networks import blazeface, densenet, nasnet  # noqa: E402
from pages import MODELS, Table, options, show  # noqa: E402
from vmcu_tools.compiler import compile_model  # noqa: E402
from vmcu_tools.planner.options import CompileOptions  # noqa: E402
from vmcu_tools.planner.registry import make_plan  # noqa: E402

TABLE = "planning"
COLUMNS = ("network", "calls, millions", "CPU seconds", "MB")
FILES = tuple(
    f"{name}.tflite"
    for name in (
        "mcunet-imagenet-320kb",
        "mcunet-vww-5fps",
        *(f"mlperf-tiny-{task}" for task in ("ad", "kws", "resnet8", "sww", "vww")),
    )
)
GRAPHS = {
    "NASNet, 2 cells": lambda: nasnet(2),
    "NASNet, 6 cells": lambda: nasnet(6),
    "NASNet, 12 cells": lambda: nasnet(12),
    "DenseNet, 6 layers": lambda: densenet(6),
    "DenseNet, 12 layers": lambda: densenet(12),
    "BlazeFace, streamed": blazeface,
}
ENHANCER = "enhancer"
# Whose calls are counted, which takes as long again.
COUNTED = ("mlperf-tiny-resnet8.tflite", "NASNet, 2 cells", "DenseNet, 6 layers")


def enhancer(file: Path) -> None:
    """Writes the enhancer of benchmarks/speech, quantised by a few calls."""
    from calls import calibration, frames_of
    from make import RANDOM
    from vmcu_tools.quantize.calibration import quantize_and_judge

    model, source = RANDOM[ENHANCER](), file.with_suffix(".float.onnx")
    source.write_bytes(model.SerializeToString())
    arrays = calibration(model, frames_of(model, 30, 1))
    samples = [{name: array[n] for name, array in arrays.items()} for n in range(30)]
    quantize_and_judge(source, file, samples)


def measure(network: str, counts: bool) -> None:
    """Plans one of GRAPHS or a file; prints its calls, or its seconds and this process's MB."""
    graph = GRAPHS[network]() if network in GRAPHS else None
    wanted = CompileOptions(stream_input=network.endswith("streamed"))
    profile = cProfile.Profile()
    if counts:
        profile.enable()
    if graph is None:
        compile_model(Path(network), CompileOptions(state=None))
    else:
        make_plan(graph, wanted)
    profile.disable()
    if counts:
        print(json.dumps([sum(entry.callcount for entry in profile.getstats())]))
    else:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps([time.process_time(), most / 1024]))


def measured(network: str, *flags: str) -> list[float]:
    """The result of measure() in a process of its own, whose sets have the same order each time."""
    command = [sys.executable, __file__, "--one", network, *flags]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def model(name: str) -> str:
    """The argument of measure() for one of GRAPHS or FILES."""
    return name if name in GRAPHS else str(MODELS / name)


def calls(network: str) -> str:
    """Millions of calls that planning makes, as the table has them."""
    return f"{measured(network, '--count')[0] / 1e6:.2f}"


def row(name: str) -> tuple[str, ...]:
    """A line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        network = model(name)
        if name == ENHANCER:
            network = str(Path(folder) / "enhancer.onnx")
            enhancer(Path(network))
        seconds, most = measured(network)
        count = calls(network) if name in COUNTED else ""
        return name, count, f"{seconds:.1f}", f"{most:,.0f}"


def table(names: Sequence[str]) -> Table:
    """The networks' rows."""
    behind = Behind(hashes(Path(model(name)) for name in FILES))
    return Table("Planning", COLUMNS, tuple(map(row, names)), behind=behind)


def command(name: str) -> str:
    return f"python benchmarks/graphs/planning.py {name}"


def main(argv: list[str] | None = None) -> int:
    names = (*FILES, *GRAPHS, ENHANCER)
    parser = options(__doc__, [TABLE])
    parser.add_argument("--only", nargs="+", choices=names, metavar="NETWORK")
    parser.add_argument("--one", metavar="NETWORK", help="a network or file; for the script itself")
    parser.add_argument("--count", action="store_true", help="calls of --one")
    args = parser.parse_args(argv)
    if args.only and args.write:
        parser.error("a page has all networks: leave out --only")
    if args.one:
        measure(args.one, args.count)
    else:
        show(parser, args, {TABLE: lambda: table(args.only or names)}, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
