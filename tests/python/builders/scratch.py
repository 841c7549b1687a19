# SPDX-License-Identifier: Apache-2.0
"""A folder in which the commands of pages and of --help run: every file that they name is there,
and `vmcu` and `west vmcu` are this checkout's."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import wave
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from . import onnx_models, onnx_states
from .sounds import sounds
from .tflite_models import TfliteModel, weights
from .tflite_states import StatefulModel

ROOT = Path(__file__).resolve().parents[3]
# What a block may run that is no program of this checkout.
SECONDS = 900
# Words of pages that stand for what a reader has.
PLACEHOLDERS = {"MODEL": "model.onnx", "ELF": "image.elf", "BOARD": "qemu_cortex_m3"}
# Of TensorFlow Lite's paddings.
VALID = 1
# sitecustomize.py: Python then finds no module of HIDDEN.
SITE = """import sys
from importlib.machinery import PathFinder
class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Core
HIDDEN = """
# With the core installation and no program first; if that is not enough, with all packages if the
# hint names one, and all programs if it names one.
VMCU = """#!/bin/sh
core={core}:$PYTHONPATH
said=$(mktemp)
PATH= PYTHONPATH=$core "{python}" -m vmcu_tools "$@" 2>"$said"
code=$?
text=$(cat "$said")
rm "$said"
case $text in
*"error: "*"not installed: "*) ;;
*) [ -z "$text" ] || echo "$text" >&2; exit $code ;;
esac
case $text in *"pip install"*) ;; *) export PYTHONPATH="$core" ;; esac
case $text in *"apt-get install"*) ;; *) export PATH= ;; esac
exec "{python}" -m vmcu_tools "$@"
"""
GRAPH = """{"tensors": [{"name": "x", "size": 100}, {"name": "y", "size": 50}],
 "nodes": [{"name": "a", "inputs": ["x"], "outputs": ["y"]}]}"""


def keyword(path: Path, seed: int = 1, channels: int = 8) -> Path:
    """Convolutions without padding along time, then a dense layer: it has a hop, too."""
    m = TfliteModel(seed)
    first = x = m.activation((1, 16, 1, 8), 0.05, 0)
    for rows, kernel in ((14, 3), (12, 3)):
        depth = 8 if x == first else channels
        shape = (channels, kernel, 1, depth)
        constants, scale = weights(m, x, shape, channels, 0, True, True)
        y = m.activation((1, rows, 1, channels), scale)
        names = ("strideH", "strideW", "dilationHFactor", "dilationWFactor")
        steps = dict.fromkeys(names, 1)
        m.op("CONV_2D", [x, *constants], y, "Conv2D", padding=VALID, **steps)
        x = y
    constants, scale = weights(m, x, (5, 12 * channels), 5, 0, True, True)
    answer = m.activation((1, 5), scale)
    m.op("FULLY_CONNECTED", [x, *constants], answer, "FullyConnected")
    return m.save(path, [first], [answer])


def stateful(path: Path) -> Path:
    """A file that keeps its state in variables, as models that listen for a word do."""
    m = StatefulModel(3)
    x = m.activation((1, 3, 1, 8), 0.05)
    out = m.dense(m.convolved(m.latest(x, 2), 8, 5, 3), 5)
    return m.save(path, [x], [out])


def furnish(folder: Path) -> Path:
    """Files of all names that pages use."""
    for name in ("samples", "examples", "tests", "benchmarks", "lib", "cmake", "python", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "samples" / "digits" / "digits.onnx", folder / "model.onnx")
    for name in ("model", "kws", "net", "IN", "before"):
        keyword(folder / f"{name}.tflite")
    keyword(folder / "after.tflite", 2, 12)
    stateful(folder / "okay_nabu.tflite")
    pairs = [(f"in_cache.{n}", f"out_cache.{n}") for n in (1, 2)]
    onnx_states.listening(folder / "enhancer.onnx", (3, 2), pairs)
    onnx_models.float_network(folder / "net.onnx")
    rng = np.random.default_rng(4)
    images = rng.normal(size=(8, 3, 16, 16)).astype(np.float32)
    for name in ("data", "calibration"):
        np.savez(folder / f"{name}.npz", images)
    np.save(folder / "x.npy", rng.random((1, 1, 8, 8), np.float32))
    np.save(folder / "rows.npy", rng.integers(-128, 128, (30, 1, 8)).astype(np.int8))
    for name in ("kws", "wake", "after"):
        shutil.copy(ROOT / "tests" / "fuzz" / "containers" / "hello.vmcu", folder / f"{name}.vmcu")
    (folder / "FILE.json").write_text(GRAPH)
    (folder / "PLAN.csv").write_text("id,lower,upper,size,offset\na,0,9,4096,0\nb,3,9,100,4096\n")
    (folder / "PROBLEM.csv").write_text("id,lower,upper,size\na,0,9,4096\nb,3,9,100\n")
    with wave.open(str(folder / "recording.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(next(iter(sounds(1).values())).astype("<i2").tobytes())
    if shutil.which("openssl"):
        key, public = folder / "key.pem", folder / "public.pem"
        made = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
        subprocess.run(made, check=True, capture_output=True)
        told = ["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public)]
        subprocess.run(told, check=True, capture_output=True)
    programs(folder)
    execute("vmcu build model.onnx --json before.json", folder)
    for name in ("after.json", "before/model.json", "after/model.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "before.json", folder / name)
    return folder


def copy(furnished: Path, folder: Path) -> Path:
    """The same in another place."""
    shutil.copytree(furnished, folder, symlinks=True)
    programs(folder)
    return folder


def requirements(suffix: str = "") -> list[str]:
    """Packages that a file of scripts/ names."""
    lines = (ROOT / "scripts" / f"requirements{suffix}.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith(("#", "-r"))]


def core(folder: Path, also: Sequence[str] = ()) -> Path:
    """Writes sitecustomize.py into a folder: with it, Python imports packages of the core
    installation and of `also` only."""
    wanted = [Requirement(one) for one in (*requirements(), *also)]
    found = set()
    for one in wanted:
        name = canonicalize_name(one.name)
        if name not in found and (not one.marker or one.marker.evaluate({"extra": ""})):
            found.add(name)
            wanted += map(Requirement, metadata.requires(name) or [])
    hidden = {
        module
        for module, packages in metadata.packages_distributions().items()
        if not found & {canonicalize_name(one) for one in packages}
    }
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(f"{SITE}{hidden - {'vmcu', 'vmcu_tools'}}\n")
    return folder


def programs(folder: Path) -> None:
    """`vmcu`, where a page has it, and `west`, which hands its words on to it."""
    own = folder / ".venv" / "bin"
    own.mkdir(parents=True, exist_ok=True)
    calls = {
        "vmcu": VMCU.format(core=core(folder / ".core"), python=sys.executable),
        "west": '[ "$1" = vmcu ] || exit 2; shift; exec vmcu "$@"',
        "python": f'exec "{sys.executable}" "$@"',
    }
    for name, call in calls.items():
        (own / name).write_text(f"#!/bin/sh\n{call}\n")
        (own / name).chmod(0o755)


def stood_for(script: str) -> str:
    """With what words of pages stand for."""
    for word, stands_for in PLACEHOLDERS.items():
        script = re.sub(rf"(?<!\S){word}(?!\S)", stands_for, script)
    return script


def execute(script: str, folder: Path, codes: tuple[int, ...] = (0,)) -> str:
    """Runs shell commands, each of which has to succeed; returns what they print."""
    script = stood_for(script)
    places = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    environment["PATH"] = f"{folder / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in codes, f"{script}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def missing(needs: str) -> str:
    """The first of programs, Python packages and paths, with blanks between, that is not here."""
    for need in needs.split():
        if "/" in need:
            here = Path(need).expanduser().exists()
        else:
            here = bool(shutil.which(need) or importlib.util.find_spec(need))
        if not here:
            return need
    return ""


def skip_without(needs: str) -> None:
    """Skips a test where something is not here."""
    lacking = missing(needs)
    if lacking:
        pytest.skip(f"needs {lacking}")
