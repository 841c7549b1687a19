# SPDX-License-Identifier: Apache-2.0
"""Parts of the product, and the test files that are meant to guard them."""

from __future__ import annotations

from dataclasses import dataclass

PYTHON = "python/vmcu_tools"
C = "lib/vmcu"


@dataclass(frozen=True)
class Area:
    """files: files and folders from the root; tests: names of test files, without test_ and .py."""

    files: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def test_files(self) -> list[str]:
        """From the root."""
        return [f"tests/python/test_{name}.py" for name in self.tests]


AREAS = {
    "machine": Area(
        (f"{PYTHON}/machine",),
        ("checks", "proof", "rotation", "emit", "planner", "tables", "stage_memory", "taken"),
    ),
    "places": Area(
        tuple(f"{PYTHON}/planner/places/{name}.py" for name in ("overlap", "in_place", "layout")),
        ("distances", "shared_rings", "planner", "cuts", "fusion", "offsets", "paper"),
    ),
    "emit": Area((f"{PYTHON}/emit",), ("emit", "emitted_text", "proof", "checks", "new")),
    "integer_scale": Area((f"{PYTHON}/kernels/integer_scale.py",), ("integer_scale",)),
    "frontends": Area(
        (f"{PYTHON}/frontends",),
        (
            *("refusals", "file_forms", "rules", "bad_models", "bad_onnx", "frontend_onnx"),
            *("onnx_ops", "onnx_options", "onnx_borders", "fold", "tflite_fold", "float_sum"),
            *("onnx_functions", "frontend_tflite", "tflite_ops", "tflite_batch"),
            *("tflite_functions", "tflite_litert", "tflite_ties", "preparation"),
        ),
    ),
    "runtime": Area(
        tuple(
            f"{C}/{name}"
            for name in ("convert.c", "executor.c", "guard.c", "stage.c", "rotation.h", "include")
        ),
        ("c", "convert", "rotation", "fusion"),
    ),
    "container": Area((f"{PYTHON}/container",), ("container", "container_files")),
    "container_c": Area(
        (f"{C}/container", f"{C}/include/vmcu/container.h"),
        (
            *("container_damages", "container", "container_blocks", "container_checks"),
            *("container_edges", "container_kept", "container_layers", "container_streams"),
            *("container_rotation", "container_tables", "replay", "online", "online_chains"),
            "updates",
        ),
    ),
    "kernels": Area(
        (f"{C}/kernels",),
        ("kernels_c", "float_sum", "c", "support_c", "split_rows_c", "kept_c"),
    ),
}
