# SPDX-License-Identifier: Apache-2.0
"""Where writes go: the stack migration paper's figures, and pools whose origin rotates."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from builders.endurance import expect_same, plain, script
from builders.networks import network_file
from random_graphs import disjoint, random_layers
from vmcu_bench.cycles.model import bench
from vmcu_lab.wear import paper, pictures, pool
from vmcu_lab.wear.heap import Setting, arguments, simulate
from vmcu_lab.wear.tasks import CNN, CYCLES, DSP, THRESHOLDS, WORD
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model

EMULATOR = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("qemu-system-arm", "arm-none-eabi-gcc")),
    reason="not installed: qemu-system-arm, gcc-arm-none-eabi",
)
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="not installed: gcc")

DIGITS = Path(__file__).resolve().parents[2] / "samples" / "digits" / "digits.onnx"
# As the paper prints it, Bayesian, Convolution, FFT, Matrix, SVM.
TABLE_5 = {
    "1": (1.6, 8.0, 8.0, 4.0, 1.0),
    "5": (1.6, 18.0, 36.0, 4.0, 1.0),
    "10": (1.6, 18.0, 72.0, 4.0, 1.0),
    "50": (1.6, 22.4, 179.0, 4.1, 1.0),
    "100": (1.6, 22.3, 238.3, 4.1, 1.0),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `vmcu bench --wear` writes."""
    folder = tmp_path_factory.mktemp("wear")
    files = ["--json", str(folder / "wear.json"), "--picture", str(folder / "wear.svg")]
    assert main(["bench", "--wear", *files]) == 0
    return folder


@pytest.fixture(scope="module")
def figures(run: Path) -> dict:
    return json.loads((run / "wear.json").read_text())


def test_table_5_is_the_papers(figures: dict):
    found = {
        threshold: tuple(round(ratio, 1) for ratio in row.values())
        for threshold, row in figures["table5"].items()
    }
    assert found == TABLE_5


def test_table_5_is_what_the_simulation_attempts():
    rounds = 100_000
    for threshold in THRESHOLDS:
        alone = [simulate(Setting("walk", threshold), (task,), rounds).attempts for task in DSP]
        ratios = [attempts / alone[-1] for attempts in alone]
        assert ratios == pytest.approx(TABLE_5[str(threshold)], rel=0.035)


def test_worst_case_is_the_papers_and_is_not_exceeded(figures: dict):
    assert figures["worst_case_cycles"] == 2550
    assert figures["worst_case_cycles_as_printed"] == 2850
    setting = Setting(stride_depth=6, depth=6, redraw=False)
    for tasks in ((CNN,), DSP):
        for merge in (False, True):
            found = simulate(replace(setting, merge=merge), tasks, 30_000)
            assert 0 < found.worst_cycles + CYCLES.time_keeping <= 2550


def test_no_stride_is_a_slot_among_eleven(figures: dict):
    assert figures["cnn"]["paper"]["no_stride_over_no_migration"] == pytest.approx(0.091, abs=5e-4)


def test_cnn_figures(figures: dict):
    cnn = figures["cnn"]
    assert cnn["parameters"]["policy"] == "walk"
    assert cnn["max_writes_over_ideal"] <= 1.001
    assert max(cnn["by_pattern"].values()) <= 1.001
    assert cnn["success_rate"] == 1.0
    assert cnn["max_writes"] == pytest.approx(1e6 * cnn["writes_per_job"])
    readings = cnn["paper"]["readings"]
    assert readings["largest"]["max_writes_over_ideal"] <= 1.196
    assert readings["redrawn"]["max_writes_over_ideal"] <= 1.3
    for entry in (cnn, *readings.values()):
        assert 0.002 <= entry["overhead_per_tick"] <= 0.0022
    assert cnn["worst_cycles"] < min(entry["worst_cycles"] for entry in readings.values())


def test_dsp_figures(figures: dict):
    dsp = figures["dsp"]
    assert dsp["max_writes_over_ideal"] <= 1.06
    theirs = dsp["paper"]["best"]
    assert theirs["max_writes_over_ideal"] > dsp["max_writes_over_ideal"]
    assert theirs["overhead_per_tick"] > dsp["overhead_per_tick"]
    assert theirs["relative_std"] > dsp["relative_std"]


def test_the_page_has_these_figures(figures: dict):
    """doc/endurance.md is made of them, see test_wear_objects.py."""
    measure = script("measure")
    kept = json.loads(measure.FIGURES.read_text())["paper"]
    found = plain(measure.setting(figures))
    expect_same(found, {key: value for key, value in kept.items() if key != "by_align"})


def test_lifetime_is_endurance_over_writes(figures: dict):
    cnn = figures["cnn"]
    assert cnn["lifetime_jobs"] == pytest.approx(1e8 / cnn["writes_per_job"])
    gained = cnn["lifetime_jobs"] / cnn["paper"]["no_migration"]["lifetime_jobs"]
    assert gained > 50


def test_orderings_of_figures_16_and_17(figures: dict):
    """One task: migration depth 1 is best, at the lowest success; stride depth helps up to 2."""
    means = figures["cnn"]["paper"]["means"]
    for measure in ("max_writes_over_ideal", "relative_std"):
        by_depth = {depth: entry[measure] for depth, entry in means["migration_depth"].items()}
        assert min(by_depth, key=by_depth.get) == "1"
        strides = {depth: entry[measure] for depth, entry in means["stride_depth"].items()}
        assert strides["2"] < 0.95 * strides["1"]
        assert all(abs(strides[depth] / strides["2"] - 1) < 0.01 for depth in "3456")
    grid = figures["cnn"]["paper"]["grid"]
    success = [
        np.mean([point["success_rate"] for point in grid if point["migration_depth"] == depth])
        for depth in (1, 2, 3)
    ]
    assert success[0] < 0.9 < success[1] < success[2] == pytest.approx(1, abs=0.01)


def test_orderings_of_figures_19_and_20(figures: dict):
    """Five tasks: threshold 100 is 5 to 10 % worse than 10 and 50, stride depth helps up to 2."""
    means = figures["dsp"]["paper"]["means"]
    std = {name: entry["relative_std"] for name, entry in means["threshold_ticks"].items()}
    assert 1.05 < std["100"] / np.mean([std["10"], std["50"]]) < 1.10
    strides = {name: entry["relative_std"] for name, entry in means["stride_depth"].items()}
    assert strides["2"] < 0.85 * strides["1"]
    assert all(0.95 < strides[depth] / strides["2"] < 1 for depth in "3456")
    grid = figures["dsp"]["paper"]["grid"]

    def success(threshold: int, depths: tuple[int, ...]) -> float:
        own = [p for p in grid if p["threshold_ticks"] == threshold]
        return np.mean([p["success_rate"] for p in own if p["migration_depth"] in depths])

    assert all(success(1, (1,)) > success(threshold, (1,)) for threshold in THRESHOLDS[1:])
    overheads = [
        np.mean([p["overhead_per_tick"] for p in grid if p["threshold_ticks"] == threshold])
        for threshold in THRESHOLDS
    ]
    assert overheads == sorted(overheads, reverse=True)


SANITIZED = """
#include "stack_heap.c"

int main(void)
{
	const int32_t bytes[3] = {160, 456, 156};
	const double ticks[3] = {0.22, 33.7, 0.14};
	static int32_t jobs[3 * 1024], arrivals[3 * 1024];
	static uint32_t headers[1024];
	struct tally tally = {0};
	int err = 0;

	for (int32_t i = 0; i < 1200; i++) {
		const struct setting set = {
			.policy = i % 3, .fit = i / 3 % 2, .merge = i / 6 % 2, .redraw = i / 12 % 2,
			.heap = 4096, .header = 8, .align = 4 << i / 24 % 2 * 3,
			.stride_depth = 1 + i / 48 % 5, .depth = 1 + i / 240, .stride_size = i % 300,
			.tasks = 3, .rounds = 300, .seed = 1U + (uint32_t)i,
		};

		err |= wear_run(&set, bytes, ticks, 1.0, jobs, arrivals, headers, &tally);
	}
	return err != 0;
}
"""


def test_simulator_is_clean_c99(tmp_path: Path):
    (tmp_path / "main.c").write_text(SANITIZED)
    flags = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror")
    sanitizers = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    include, source, *others = arguments()
    around = [include, f"-I{Path(source).parent}", *others, "main.c"]
    command = ["gcc", *flags, *sanitizers, *around, "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)


def test_simulations_repeat():
    first, again = (paper.cnn(Setting(), 3000) for _ in range(2))
    assert first.grid == again.grid
    assert paper.figures(first.best) == paper.figures(again.best)


def turned(writes: np.ndarray, step: int, inferences: int) -> np.ndarray:
    return sum(np.roll(writes, number * step % writes.size) for number in range(inferences))


@pytest.mark.parametrize("size", [97, 100, 360])
def test_rotation_is_that_of_turning_step_by_step(size: int):
    writes = np.random.default_rng(size).integers(0, 50, size)
    step, origins = pool.rotation_step(size)
    assert np.unique(np.arange(origins) * step % size).size == origins
    for inferences in (0, 1, 7, origins, 2 * origins + 11):
        expected = turned(writes, step, inferences) if inferences else np.zeros(size)
        assert (pool.rotated_writes(writes, step, inferences) == expected).all()
    for endurance in (60, 5000):
        life = pool.lifetime(writes, step, endurance)
        assert turned(writes, step, life).max() <= endurance < turned(writes, step, life + 1).max()


@pytest.mark.parametrize("inferences", [1, 5, 1000])
def test_a_fixed_origin_wears_the_same_bytes(inferences: int):
    writes = np.random.default_rng(1).integers(0, 50, 96)
    found = pool.wear(writes, inferences)
    (_, fixed), (_, rotated) = pool.strips(found)
    np.testing.assert_array_equal(fixed, turned(writes, 0, inferences))
    np.testing.assert_array_equal(rotated, turned(writes, found.step, inferences))
    assert (found.pool_bytes, found.inferences) == (96, inferences)
    for one, bytes_ in ((found.fixed, fixed), (found.rotated, rotated)):
        assert one.max_writes == bytes_.max()
        assert one.max_writes_over_ideal == pytest.approx(96 * bytes_.max() / bytes_.sum())
        assert one.relative_std == pytest.approx(np.std(bytes_ / bytes_.mean()))
    for endurance in (49, 50, 1000):
        life = pool.lifetime(writes, 0, endurance)
        assert life * writes.max() <= endurance < (life + 1) * writes.max()


def test_every_tensor_is_written_once():
    plan = disjoint(random_layers("conv2d", 3, 1))
    writes = pool.writes_of_inference(plan)
    for name, placement in plan.placements.items():
        size = plan.graph.tensors[name].bytes
        assert (writes[placement.base : placement.base + size] == 1).all()


@pytest.mark.parametrize("name", ["mlperf-tiny-kws", "ds-cnn"])
def test_pool_of_a_model(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = network_file(name)
    target = tmp_path / "pool.json"
    assert main(["bench", "--wear", str(model), "--on", "virtual", "--json", str(target)]) == 0
    found = json.loads(target.read_text())
    writes = np.array(found["writes_per_inference"])
    plan = compile_model(model)
    assert writes.size == plan.pool_bytes
    assert writes.sum() >= sum(plan.graph.tensors[name].bytes for name in plan.placements)
    assert (
        found["rotated"]["max_writes_over_ideal"] <= 1.02 < found["fixed"]["max_writes_over_ideal"]
    )
    # It does not know of everything that is written.
    assert "lasts" not in found and "lifetime" not in str(found)
    assert "is not known on the virtual MCU" in capsys.readouterr().out


def test_pictures_can_be_read(run: Path):
    for name in ("wear-cnn", "wear-dsp"):
        ElementTree.parse(run / f"{name}.svg")
    for strips in ([("one", np.arange(5000))], [("one", np.ones(9)), ("two", np.arange(9))]):
        data = pictures.png(strips)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", data[16:24])
        start = data.index(b"IDAT") + 4
        pixels = zlib.decompress(data[start:-16])
        assert len(pixels) == height * (3 * width + 1)


def test_a_hot_word_is_the_darkest_of_its_strip():
    writes = np.ones(2000)
    writes[1234] = 1000
    image = pictures.svg("t", (("one", writes),))
    rects = [e for e in ElementTree.fromstring(image).iter() if e.tag.endswith("rect")]
    dark = [e for e in rects if e.get("fill") == "#67000d"]
    assert len(rects) == 3 and len(dark) == 1
    at = float(dark[0].get("x")) - pictures.LABEL
    assert at == pytest.approx(1234 / 2000 * pictures.WIDTH, abs=1)


def test_usage():
    for words in ("--rate 0", "--endurance -1", "--picture", "--picture a.pdf"):
        assert main(["bench", "--wear", *words.split()]) == 2, words


@EMULATOR
def test_stores_of_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = tmp_path / "digits.onnx"
    shutil.copy(DIGITS, model)
    target = tmp_path / "wear.json"
    asked = ["--on", "qemu:m4", "--endurance", "1e6", "--rate", "2"]
    assert main(["bench", "--wear", str(model), *asked, "--json", str(target)]) == 0
    assert "bytes of stack" in capsys.readouterr().out
    found = json.loads(target.read_text())
    measured = np.array(found["writes_per_inference"])
    plan = compile_model(model)
    for port in plan.graph.outputs:
        base = plan.placements[port.tensor].base
        assert (measured[base : base + plan.graph.tensors[port.tensor].bytes] > 0).all()
    # What the plan says is written, a board writes; kernels come back to their scratch.
    expected = pool.writes_of_inference(plan)
    scratch = np.zeros(plan.pool_bytes, bool)
    for step in plan.steps:
        scratch[step.scratch : step.scratch + step.scratch_bytes] = True
    for base in plan.progress:
        scratch[base : base + 8 * len(plan.steps)] = True
    assert (measured[~scratch] == expected[~scratch]).all()
    report = bench(plan, "digits", "qemu:m4")
    stack = found["stack"]
    # The report takes every store for a word.
    assert 0 <= report.stack_bytes - stack["stack_bytes"] < WORD
    pieces = {one["name"]: one for one in found["objects"]}
    assert pieces["pool"]["lifetime_inferences"] == 1_000_000 // measured.max()
    for one in pieces.values():
        years = one["lifetime_inferences"] / 2 / (365.25 * 24 * 3600)
        assert one["lifetime_years"] == pytest.approx(years)
    for setting, lasts in found["lasts"].items():
        own = [one for one in pieces.values() if setting in one["within"]]
        assert lasts["lifetime_years"] == min(one["lifetime_years"] for one in own)
    assert stack["instructions"] == report.instructions
    assert sum(stack["stores_per_inference"]) <= report.stores
    # Places 8 bytes apart, the ideal's 4.
    assert stack["walk"]["max_writes_over_ideal"] < 1.1
    assert 10 * stack["walk"]["writes_per_job"] < stack["no migration"]["writes_per_job"]


def test_a_target_that_counts_nothing(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "--wear", str(DIGITS), "--on", "host"]) == 1
    assert "choose one of: qemu" in capsys.readouterr().err
