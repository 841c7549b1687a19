# SPDX-License-Identifier: Apache-2.0
"""Writing generated files so that an interrupted run leaves none half-written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from ..errors import Problem, UserError


def write(files: Mapping[str, str] | Mapping[str, str | bytes], out_dir: Path | str) -> list[Path]:
    """Writes all files under `out_dir`, made if missing; they appear complete or not at all."""
    folder = Path(out_dir)
    finished = {folder / name: text for name, text in files.items()}
    partial = {path: path.with_name(f".{path.name}.{os.getpid()}") for path in finished}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in finished.items():
            data = text if isinstance(text, bytes) else text.encode("utf-8")
            partial[path].write_bytes(data)
        for path in finished:
            partial[path].replace(path)
    except OSError as error:
        raise UserError(
            Problem(
                f"cannot write there: {error.strerror}",
                "choose another folder with -o",
                str(folder),
            )
        ) from error
    finally:
        for path in partial.values():
            with contextlib.suppress(OSError):
                path.unlink()
    return list(finished)
