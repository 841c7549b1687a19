#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for gcc while mutants are tested: compiles each C file alone and keeps its object.

A test that compiles the whole runtime then compiles what a mutant changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

LINKED = ("-o", "-L", "-l", "-T", "-Wl")


def main(gcc: str, store: Path, words: list[str]) -> int:
    sources = [word for word in words if word.endswith(".c")]
    if not sources or {"-E", "-M", "-MM", "-S", "-fsyntax-only"} & set(words):
        return subprocess.call([gcc, *words])
    flags = _compile_flags(words)
    try:
        objects = {source: _object(gcc, store, source, flags) for source in sources}
    except subprocess.CalledProcessError as error:
        sys.stderr.buffer.write(error.stderr)
        return error.returncode
    if "-c" in words:
        for source, made in objects.items():
            target = Path(
                words[words.index("-o") + 1] if "-o" in words else Path(source).stem + ".o"
            )
            target.write_bytes(made.read_bytes())
        return 0
    linked = [str(objects.get(word, word)) for word in words]
    return subprocess.call([gcc, *linked])


def _compile_flags(words: list[str]) -> list[str]:
    kept, skip = [], False
    for word in words:
        if skip or word.endswith((".c", ".a", ".o")) or word.startswith(LINKED) or word == "-c":
            skip = word in ("-o", "-T", "-L") and not skip
            continue
        kept.append(word)
    return kept


def _object(gcc: str, store: Path, source: str, flags: list[str]) -> Path:
    """Compiled, unless the preprocessed text has been with the same flags."""
    flags = [flag for flag in flags if flag != "-g"]
    done = subprocess.run([gcc, *flags, "-E", "-P", source], capture_output=True, check=True)
    named = [flag for flag in flags if not flag.startswith(("-I", "-D"))]
    key = hashlib.sha256(done.stdout + "\0".join([gcc, *named]).encode())
    target = store / f"{Path(source).stem}-{key.hexdigest()[:24]}.o"
    if not target.exists():
        made = store / f"{target.stem}.{os.getpid()}.o"
        command = [gcc, *flags, "-c", str(Path(source).resolve()), "-o"]
        subprocess.run([*command, str(made)], capture_output=True, check=True)
        made.replace(target)
    return target


if __name__ == "__main__":
    folder = Path(os.environ["VMCU_MUTANTS_CC"])
    sys.exit(main(os.environ["VMCU_MUTANTS_GCC"], folder, sys.argv[1:]))
