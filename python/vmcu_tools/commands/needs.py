# SPDX-License-Identifier: Apache-2.0
"""Packages and programs that commands need beyond the core installation."""

from __future__ import annotations

import importlib.util
import shutil
from argparse import Namespace
from pathlib import Path

from ..errors import Problem, UserError, pip_line
from ..values import COUNTED_ON, is_container

# Words of a call (see _words), the extra of pyproject.toml that it needs, and the packages of that
# extra by the names that Python imports.
NEEDS = (
    (("verify", ".onnx"), "verify", {"onnxruntime": "onnxruntime"}),
    (("verify", ".tflite"), "verify", {"tflite_micro": "tflite-micro"}),
    (("evidence", ".onnx"), "verify", {"onnxruntime": "onnxruntime"}),
    (("evidence", ".tflite"), "verify", {"tflite_micro": "tflite-micro"}),
    (("place", ".tflite"), "verify", {"tflite_micro": "tflite-micro"}),
    (("quantize",), "quantize", {"onnxruntime": "onnxruntime"}),
    (("--calibration",), "quantize", {"onnxruntime": "onnxruntime"}),
    (("place", "--solver highs"), "solver", {"pulp": "pulp", "highspy": "highspy"}),
    (("place", "--solver cbc"), "solver", {"pulp": "pulp"}),
    (("build", "--picture .png"), "png", {"PIL": "pillow"}),
    (("container", "--key"), "sign", {"cryptography": "cryptography"}),
    (("bench", "--serial"), "serial", {"serial": "pyserial"}),
)


def _words(args: Namespace) -> set[str]:
    """The command, the suffix of its file, and its options, each with and without its value."""
    given = {name: value for name, value in vars(args).items() if value}
    words = {f"--{name}" for name in given} | {f"--{name} {value}" for name, value in given.items()}
    words |= {
        f"--{name} {value.suffix}" for name, value in given.items() if isinstance(value, Path)
    }
    return words | {args.command, Path(given.get("model") or given.get("problem") or "").suffix}


def _machine(args: Namespace) -> str:
    """The machine that `vmcu run`, `verify` or `bench` runs a model on."""
    if args.command == "bench":
        usual = "host" if getattr(args, "wear", False) and args.model is None else COUNTED_ON
        return str(args.on or (f"zephyr:{args.board}" if args.measure else usual))
    usual = "host" if is_container(args.model) else "virtual"
    compares = args.command in ("verify", "evidence")
    if compares and not (args.on or usual == "host" or shutil.which("gcc")):
        from .models import check_options

        # Sets the hop of a model with state.
        check_options(args)
    return str(args.on or ("host" if compares and args.hop else usual))


def check(args: Namespace) -> None:
    """Raises UserError with everything that a command needs and that is not installed."""
    words, programs = _words(args), {}
    packages = {
        package: extra
        for call, extra, names in NEEDS
        for module, package in names.items()
        if words.issuperset(call) and importlib.util.find_spec(module) is None
    }
    if args.command in ("run", "verify", "evidence", "bench"):
        from vmcu_bench.runners import get

        machine = _machine(args)
        # Emulators count by a plugin, which vmcu compiles.
        counts = args.command in ("bench", "evidence") and machine.startswith("qemu")
        programs = get(machine).programs() | ({"gcc": "gcc"} if counts else {})
    absent = {name: package for name, package in programs.items() if not shutil.which(name)}
    extras = sorted(set(packages.values()))
    hints = [pip_line(" ".join(packages), ",".join(extras))] if packages else []
    hints += [f"apt-get install {' '.join(dict.fromkeys(absent.values()))}"] if absent else []
    if hints:
        reason = f"not installed: {', '.join([*packages, *absent])}"
        raise UserError(Problem(reason, "; ".join(hints), str(getattr(args, "model", None) or "")))
