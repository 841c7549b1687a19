# SPDX-License-Identifier: Apache-2.0
"""Kernels that a container names: which the loader can link, and a refusal of any other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from builders.containers import changed
from vmcu_tools import container, paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.container.kernels import linkable

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"


@pytest.mark.parametrize(
    "words",
    [("verify", "--on", "host"), ("bench",), ("container", "kernels")],
    ids=lambda words: words[0],
)
def test_a_kernel_that_is_not_there_is_named(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = container.build(compile_model(DIGITS), "digits")
    at = image.index(b"vmcu_pointwise\0") + len("vmcu_pointwis")
    path = tmp_path / "later.vmcu"
    path.write_bytes(changed(image, at, "B", ord("x")))
    verbs, options = (words, ()) if words[0] == "container" else (words[:1], words[1:])
    assert main([*verbs, str(path), *options]) == 1
    said = capsys.readouterr().err
    assert (
        said.startswith(f"error: {path}: it needs the kernel 'vmcu_pointwisx'") and "hint" in said
    )


def test_the_loader_can_check_each_kernel_that_it_can_link() -> None:
    """Each entry of container/all.c has a descriptor in C, and the other way round."""
    folder = paths.runtime() / "container"
    files = [str(path) for path in sorted(folder.glob("*.c")) if path.name != "all.c"]
    options = ("-DVMCU_CONTAINERS", "-DVMCU_STREAMS", f"-I{paths.runtime() / 'include'}")
    command = ["gcc", "-std=c99", "-E", *options, *files]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    defined = re.findall(r"\bconst struct vmcu_kernel (vmcu_\w+)_kernel = ", text)
    assert linkable() == set(defined) and len(defined) > 40
