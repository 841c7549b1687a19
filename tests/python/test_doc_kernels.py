# SPDX-License-Identifier: Apache-2.0
"""The example in doc/kernels.md does what the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from vmcu_kernelgen.c_source import function, instruction_function
from vmcu_kernelgen.passes import lower
from vmcu_lab.distances.program import smallest_distance
from vmcu_lab.distances.relation import relation
from vmcu_tools import paths
from vmcu_tools.kernels.language.evaluate import Machine, run

PAGE = Path(__file__).parents[2] / "doc" / "kernels.md"
SHIFT = 9
SIZES = [(1, 1, 1), (2, 2, 3), (3, 5, 2), (4, 7, 13)]

HARNESS = """
#include <stdio.h>

#include "support.h"

struct vmcu_gemm_params {{
	const void *stream;
	int32_t shift;
}};

{code}
int main(void)
{{
	static const int8_t weights[] = {{{weights}}};
	static int8_t pool[] = {{{pool}}};
	const struct vmcu_gemm_params params = {{weights, {shift}}};
	const struct vmcu_tensor tensors[] = {{
		{{{base}, {k} * {m}, .height = {m}, .width = 1, .channels = {k}}},
		{{0, {n} * {m}, .height = {m}, .width = 1, .channels = {n}}},
	}};
	const uint16_t inputs[] = {{0}};
	const struct vmcu_layer layer = {{.params = &params, .inputs = inputs, .output = 1}};
	const struct vmcu_pool ring = {{pool, sizeof(pool)}};

	for (uint16_t y = 0; y < {m}; y++) {{
		const struct vmcu_call call = {{&ring, tensors, &layer, .y = y, .columns = 1}};

		vmcu_gemm(&call);
	}}
	for (int i = 0; i < {m} * {n}; i++) {{
		printf("%d ", pool[i]);
	}}
	return 0;
}}
"""


@pytest.fixture(scope="module")
def page() -> dict:
    """What the page's example defines."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(code.splitlines()) < 60
    names: dict = {}
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A (m, k), B (k, n) and their product as the kernel scales it."""
    rng = np.random.default_rng(m * n * k)
    a, b = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
    return a, b, np.clip(a @ b >> SHIFT, -128, 127)


def names_of(n: int, k: int) -> dict[str, int]:
    return {"out_c": n, "in0_c": k, "p->shift": SHIFT}


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_python(page: dict, m: int, n: int, k: int) -> None:
    a, b, product = operands(m, n, k)
    for program in (page["gemm"](), lower(page["gemm"]())):
        inputs, stream = [a.reshape(m, 1, k)], b.T.astype(np.int8).tobytes()
        machine = Machine(names_of(n, k), inputs, np.zeros((m, 1, n), np.int8), stream)
        for y in range(m):
            run(program, machine, y)
        np.testing.assert_array_equal(machine.output[:, 0], product)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_distance_is_that_of_the_paper(page: dict, m: int, n: int, k: int) -> None:
    assert footprint(page, m, n, k) == max(m * n, m * k) + min(n, k) - 1


def footprint(page: dict, m: int, n: int, k: int) -> int:
    shapes = {0: (m, 1, k), "output": (m, 1, n)}
    distance = smallest_distance(relation(page["gemm"](), names_of(n, k), shapes, m))
    # Without a write that comes before a read, only the output's own bytes count.
    return m * n if distance is None else max(m * k + max(distance, 0), m * n)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_c(page: dict, tmp_path: Path, m: int, n: int, k: int) -> None:
    """In a pool of no more than that footprint, output on top of input."""
    a, b, product = operands(m, n, k)
    made = page["INSTRUCTIONS"].values()
    parts = [instruction_function(one, one.portable) for one in made]
    code = "\n".join([*parts, function(lower(page["gemm"]()))])
    base = footprint(page, m, n, k) - m * k
    pool = [0] * base + a.ravel().tolist()
    text = HARNESS.format(
        code=code,
        weights=", ".join(map(str, b.T.ravel())),
        pool=", ".join(map(str, pool)),
        shift=SHIFT,
        **{"m": m, "n": n, "k": k, "base": base},
    )
    (tmp_path / "gemm.c").write_text(text)
    runtime = paths.runtime()
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-Wno-missing-field-initializers"]
    includes = [f"-I{runtime / 'include'}", f"-I{runtime / 'kernels'}"]
    subprocess.run(["gcc", *flags, *includes, "gemm.c", "-o", "gemm"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "gemm"], capture_output=True, text=True, check=True)
    assert [int(v) for v in done.stdout.split()] == product.ravel().tolist()
