# SPDX-License-Identifier: Apache-2.0
"""The page of a plan: what it says is what an inference does, and a browser shows it."""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from browser import DESKTOP, PHONE, Browser, missing
from builders import onnx_models
from builders.dags import Dag
from drawn import seeds
from random_networks import wide
from random_streams import Temporal
from seconds import at_most
from vmcu_lab.report.comparison import beside
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.machine.events import TICKS
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.machine.times import FOREVER
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import ALL_TILES, SearchParams
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.report import model
from vmcu_tools.report.page import html, picture, plot, svg
from vmcu_tools.report.page.cards import cards
from vmcu_tools.report.page.lives import lives_of
from vmcu_tools.report.page.names import LONGEST, names_of, short_names
from vmcu_tools.report.page.peak import peak_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "models"))
MODELS = Path(os.environ.get("VMCU_MODELS", ROOT.parent / "shared/models"))
MCUNET = MODELS / "mcunet-imagenet-320kb.tflite"
WAYS = {
    "by default": CompileOptions(),
    "streamed": CompileOptions(stream_input=True),
    "in tiles": CompileOptions(params=SearchParams(trade_off=False, tiles=ALL_TILES)),
}


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_models.quantised_network(tmp_path_factory.mktemp("net"), "QDQ", "QInt8", True)


def needed_by_replay(plan: Plan) -> list[int]:
    """By step the most bytes that an event of it writes, or some later one reads, byte by byte; at
    the end those of the input that comes in."""
    machine = VirtualMcu(plan)
    spans: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for name, placement in plan.placements.items():
        tensor = plan.graph.tensors[name]
        births = np.full(tensor.shape, FOREVER)
        if not plan.input_streamed and any(port.tensor == name for port in plan.graph.held):
            births[...] = 0
        for event in machine.events:
            makes = event.layer is not None and event.layer.out.name == name
            if makes and event.layer.sums:
                last = event.y == event.layer.height - 1
                if last and event.x + event.columns == event.layer.width:
                    births[...] = event.number
            elif makes or (event.layer is None and name == plan.graph.inputs[0].tensor):
                births[event.y, event.x : event.x + event.columns] = event.number
        rows = range(tensor.shape[0])
        deaths = np.stack([machine.times.expiry(name, y, slice(None)) for y in rows])
        deaths = deaths.reshape(tensor.shape)
        deaths = np.where(deaths == FOREVER, len(machine.events), deaths // TICKS)
        circle = plan.pool_of(placement.base)
        at = np.array([placement.at(offset, circle) for offset in range(tensor.bytes)])
        spans.append((at, births.ravel(), deaths.ravel()))
    most = [0] * (len(plan.steps) + 1)
    for event in machine.events:
        here = [
            at[(births <= event.number) & (event.number <= deaths)] for at, births, deaths in spans
        ]
        step = -1 if event.step is None else plan.steps.index(event.step)
        most[step] = max(most[step], len(np.unique(np.concatenate(here))))
    return most


@pytest.mark.parametrize("way", WAYS)
def test_what_is_needed_is_what_a_replay_needs(network: Path, way: str) -> None:
    graph = compile_model(network).model
    plan = make_plan(graph, WAYS[way])
    found = lives_of(plan)
    without = replace(found, boxes=())
    least = needed_by_replay(plan)
    assert max(least) <= without.ledger.needed.max() <= plan.pool_bytes
    assert found.ledger.needed.max() <= plan.pool_bytes
    # Of each layer the report has the same figure, those that run in turns with others among them.
    said = [step.pool_bytes for step in model.report(plan, "m", 1, 2).steps]
    assert said == found.by_step
    assert all(one <= other for one, other in zip(least, without.by_step, strict=False))
    assert max(said) == found.ledger.needed[found.makers >= 0].max()


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_what_is_needed_of_random_networks(seed: int) -> None:
    plan = make_plan(
        wide(seed), CompileOptions(params=SearchParams(trade_off=False, tiles=ALL_TILES))
    )
    found = lives_of(plan)
    least = needed_by_replay(plan)
    assert max(least) <= replace(found, boxes=()).ledger.needed.max()
    assert found.ledger.needed.max() <= plan.pool_bytes


@pytest.mark.parametrize("planner", ("vmcu", "single"))
def test_the_parts_of_the_peak_are_all_of_it(network: Path, planner: str) -> None:
    plan = compile_model(network, CompileOptions(planner=planner))
    found = lives_of(plan)
    peak = peak_of(found, names_of(plan))
    assert sum(part.bytes for part in peak.parts) == peak.bytes == found.ledger.needed.max()
    assert f"{peak.bytes:,} of {plan.pool_bytes:,} bytes" in peak.sentence
    made = model.report(plan, "m", 0, 0)
    assert (made.peak_step, made.peak) == (peak.step, peak.sentence)
    assert sum(span.stop - span.start for span in found.spans) == found.calls


def test_the_reason_of_a_part_names_a_later_reader() -> None:
    """And only one behind the stage that the peak is in."""
    reasons: Counter[str] = Counter()
    for seed in range(3):
        plan = make_plan(Dag(seed, 12).graph(), CompileOptions(planner="single"))
        found = lives_of(plan)
        peak = peak_of(found, names_of(plan))
        last = found.spans[found.span_of(peak.call)].last
        for part in peak.parts:
            readers = [n for n, step in enumerate(plan.steps) if part.tensor in step.node.inputs]
            if part.why.startswith("read again by layer "):
                assert part.why == f"read again by layer {readers[-1]}" and readers[-1] > last
                reasons["again"] += 1
            elif part.why.endswith("not read yet") and "input" not in part.why:
                assert readers[-1] <= last
                reasons["yet"] += 1
    assert reasons["again"] and reasons["yet"]


def test_heirs_take_bytes_that_the_other_has(network: Path) -> None:
    plan = compile_model(network)
    found = lives_of(plan)
    assert found.ledger.heirs
    for (one, heir), size in found.ledger.heirs.items():
        rings = [plan.placements[found.lives[n].tensor].ring for n in (one, heir)]
        assert 0 < size <= min(rings)


def test_a_card_counts_all_neighbours() -> None:
    """Those that are named and those that are only counted are all heirs."""
    found = lives_of(make_plan(Dag(0, 24).graph(), CompileOptions(planner="single")))
    heirs, names = found.ledger.heirs, names_of(found.plan)
    shown, rest = cards(found, names), []
    for number in range(len(found.lives)):
        before = {one for one, heir in heirs if heir == number}
        after = {heir for one, heir in heirs if one == number}
        rows = dict(shown[number].lines)
        for what, wanted in (
            ("shares bytes with", before & after),
            ("overwrites", before - after),
            ("overwritten by", after - before),
        ):
            said = rows.get(what, "")
            more = re.search(r" and (\d+) more$", said)
            rest.append(int(more[1]) if more else 0)
            assert said.count("(") + rest[-1] == len(wanted), (what, said)
    assert max(rest) > 0


def test_areas_stay_inside(network: Path) -> None:
    for found in (
        lives_of(compile_model(network, CompileOptions(stream_input=on))) for on in (False, True)
    ):
        seen = plot.whole(found)
        assert {area.life for area in seen.areas} >= set(range(len(found.lives)))
        for area in seen.areas:
            for outline in area.outlines:
                xs, ys = zip(*outline, strict=True)
                assert 0 <= min(xs) <= max(xs) <= plot.WIDTH
                assert 0 <= min(ys) <= max(ys) <= plot.HEIGHT + 1
                turns = [a != c and b != d for (a, b), (c, d) in itertools.pairwise(outline)]
                assert not any(turns), "an edge that is neither level nor upright"


def test_stages_on_the_axis_follow_each_other(network: Path) -> None:
    found = lives_of(compile_model(network))
    marks = html.view(plot.whole(found), cards(found, names_of(found.plan)), "a").marks
    assert len(marks) > 1
    for mark, following in itertools.pairwise(marks):
        assert mark["left"] + mark["width"] == pytest.approx(following["left"])


def test_names_are_short_and_apart() -> None:
    long = "net/" + "/".join(["block"] * 12)
    names = [f"{long}/{n}/Conv2D;other/{n}" for n in range(40)] + ["input", long]
    found = short_names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert max(map(len, found.values())) <= LONGEST + 3
    assert short_names(["same", "same"]) == {"same": "same"}
    assert short_names([]) == {}


@pytest.mark.parametrize("seed", seeds(4, 2))
def test_a_window_that_moves(seed: int) -> None:
    drawn = Temporal(seed)
    plan = make_plan(drawn.graph, CompileOptions(hop=drawn.hop))
    found = lives_of(plan)
    start, stop = found.sight
    first, second = np.split(found.ledger.needed[start:stop], 2)
    assert (first == second).all()
    assert start <= found.peak < stop and plot.whole(found).peak is not None
    assert "State from call to call" in page_of(plan)


def page_of(plan: Plan, name: str = "net") -> str:
    return html.render(plan, model.report(plan, name, 1, 2), beside(plan))


def test_the_page_is_one_file_and_the_same_each_time(network: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.html", "a.svg", "a.png", "b.html", "b.svg", "b.png")]
    for page, drawing, pixels in (files[:3], files[3:]):
        for words in (["--html", page, "--picture", drawing], ["--picture", pixels]):
            assert main(["build", str(network), *map(str, words)]) == 0
    assert [file.read_bytes() for file in files[:3]] == [file.read_bytes() for file in files[3:]]
    text = files[0].read_text()
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", text) == []
    assert "url(http" not in text and "@import" not in text
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_hostile_names_stay_names(network: Path) -> None:
    plan = compile_model(network)
    evil = "</script><script>alert(1)</script>"
    steps = [replace(s, node=replace(s.node, name=evil)) for s in plan.stages[0]]
    plan = replace(plan, stages=(tuple(steps), *plan.stages[1:]), notes=(f"warning: {evil}",))
    page = page_of(plan, evil)
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    drawn = svg.picture(
        picture.shapes(plot.whole(lives_of(plan)), model.report(plan, evil, 1, 2)), evil
    )
    assert "<script" not in drawn


def test_without_pillow(network: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    words = ["--picture", str(tmp_path / "a.png"), "--html", str(tmp_path / "a.html")]
    assert main(["build", str(network), *words]) == 1
    assert "pip install '.[png]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_picture_is_the_one_of_the_script() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "pool_picture.py"))
    assert script["TARGET"].read_text(encoding="utf-8") == script["drawn"](), (
        "python scripts/pool_picture.py"
    )


@pytest.mark.skipif(not MCUNET.exists(), reason="VMCU_MODELS has no MCUNet")
def test_a_large_page_is_small_and_soon_there() -> None:
    plan = compile_model(MCUNET, CompileOptions(choices=True))
    # 40 to 67 times seconds.work(), on quiet and on loaded machines.
    with at_most(5.5):
        page = page_of(plan)
    assert len(page.encode()) < 1_000_000
    peak = peak_of(lives_of(plan), names_of(plan))
    # What is alive at one moment has to be in the pool; what has places may take more.
    assert 0 < peak.bytes <= plan.pool_bytes - plan.gap
    assert f"{peak.bytes:,}" in page


WHY = missing()
LOOKS = pytest.mark.skipif(bool(WHY), reason=f"no browser: {WHY}")


@pytest.fixture(scope="module")
def page(network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    assert main(["build", str(network), "--html", str(file)]) == 0
    return file


@LOOKS
@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
@pytest.mark.parametrize("size", (DESKTOP, PHONE), ids=("desktop", "phone"))
def test_it_fits_and_asks_for_nothing(
    chromium: Browser, page: Path, tmp_path: Path, size: tuple[int, int], dark: bool
) -> None:
    chromium.open(page, size, dark)
    assert chromium.sideways <= 0
    assert chromium.complaints == []
    assert chromium.requests == [page.resolve().as_uri()]
    chromium.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000
    paper = chromium.run("return getComputedStyle(document.documentElement).backgroundColor")
    shade = sum(map(int, re.findall(r"\d+", paper)[:3]))
    assert shade < 200 if dark else shade > 600


@LOOKS
def test_paper_is_white(chromium: Browser, page: Path) -> None:
    chromium.open(page, (760, 1075))
    chromium.print_dark()
    ground = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    assert chromium.run(ground, "section", "backgroundColor") == "rgb(255, 255, 255)"
    ink = chromium.run(ground, ".peak p", "color")
    assert sum(map(int, re.findall(r"\d+", ink)[:3])) < 200
    assert chromium.run(ground, ".card", "display") == "none"
    assert chromium.sideways <= 0


@LOOKS
def test_the_peak_is_in_sight_at_once(chromium: Browser, page: Path) -> None:
    for size in (DESKTOP, PHONE):
        chromium.open(page, size)
        top = chromium.run("return document.querySelector('.peak').getBoundingClientRect().top")
        assert 0 < top < 300
        assert "The peak is layer" in chromium.text(".peak")
        assert chromium.find(".inside .line span")[0].text.startswith("peak: ")


@LOOKS
def test_hovering_says_whose_it_is(chromium: Browser, page: Path) -> None:
    chromium.open(page, DESKTOP)
    where = chromium.run(
        "const plot = document.querySelector('.plot .inside'); plot.scrollIntoView();"
        "const r = plot.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]"
    )
    left, top, wide_, high = where
    cards = json.loads(chromium.run("return document.getElementById('cards').textContent"))
    seen = set()
    for x in np.linspace(0.002, 0.998, 25):
        for y in (0.03, 0.5, 0.97):
            chromium.hover(int(left + x * wide_), int(top + y * high))
            titles = chromium.find(".card h3")
            seen |= {titles[0].text.split()[0]} if titles else set()
    assert len(seen) >= 3 and seen <= {card["short"] for card in cards}
    chromium.hover(2, 2)
    assert "Point at an area" in chromium.text(".card")


@LOOKS
def test_keys_go_from_tensor_to_tensor(chromium: Browser, page: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    chromium.open(page, DESKTOP)
    cards = json.loads(chromium.run("return document.getElementById('cards').textContent"))
    chromium.keys(Keys.TAB)
    seen = []
    for _ in range(len(cards) + 2):
        seen.append(chromium.text(".card h3").split()[0])
        chromium.keys(Keys.ARROW_RIGHT)
    assert len(set(seen)) == len(cards)
    assert seen[-1] == seen[-2]
    chromium.keys(Keys.ARROW_LEFT)
    assert chromium.text(".card h3").split()[0] != seen[-1]
    chromium.keys(Keys.HOME)
    assert chromium.text(".card h3").split()[0] == seen[0]
    assert len(chromium.find(".plot.picked")) == 1
    assert "bytes" in chromium.text(".card dl") and "alive" in chromium.text(".card dl")
    chromium.keys(Keys.ESCAPE)
    assert "Point at an area" in chromium.text(".card")
    assert chromium.find(".plot.picked") == []
