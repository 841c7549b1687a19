# SPDX-License-Identifier: Apache-2.0
"""That `vmcu inspect` finds in a linked image what was linked into it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from random_graphs import disjoint, random_layers
from vmcu_bench import runners
from vmcu_bench.image.calls import has_call_through_pointer, pushed
from vmcu_bench.image.size import size
from vmcu_bench.runners.compiled import CompiledRunner
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import Emitted, emit, write
from vmcu_tools.errors import UserError
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions

pytestmark = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="not installed: arm-none-eabi-gcc"
)

MAIN = """
#include <string.h>
#include <vmcu/pool.h>
#include "net.h"
#include "other.h"

static VMCU_POOL_DEFINE(net_memory, VMCU_MODEL_POOL_BYTES(net));
static VMCU_POOL_DEFINE(other_memory, VMCU_MODEL_POOL_BYTES(other));
static char unrelated[20];

int main(void)
{
	static struct vmcu_context contexts[2];

	memset(unrelated, 1, sizeof(unrelated));
	(void)vmcu_init(&contexts[0], &net_model, net_memory, sizeof(net_memory));
	(void)vmcu_init(&contexts[1], &other_model, other_memory, sizeof(other_memory));
	return vmcu_invoke(&contexts[0]) + vmcu_invoke(&contexts[1]);
}
"""


def board() -> CompiledRunner:
    target = runners.get("qemu:m3")
    assert isinstance(target, CompiledRunner)
    return target


def plans() -> tuple[Plan, Plan]:
    return disjoint(random_layers("conv2d", 3, seed=2)), disjoint(random_layers("add", 2, seed=3))


def strings(plan: Plan, name: str) -> int:
    """Bytes of the texts in a model's tables: the linker merges them, so they have no symbol."""
    ports = (*plan.graph.inputs, *plan.graph.outputs)
    return sum(len(text) + 1 for text in [name, *(port.name for port in ports)])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    (folder / "main.c").write_text(MAIN)
    parts = [folder / "main.c", *board().sources()]
    for name, plan in zip(("net", "other"), plans(), strict=True):
        write(emit(plan, name).files, folder)
        parts.insert(0, folder / f"{name}.c")
    parts.append(board().archive(parts))
    elf = folder / "image.elf"
    arguments = [f"-I{folder}", *map(str, parts), *board().link_flags()]
    board().gcc([*arguments, "-o", str(elf)], folder)
    return elf


def part(path: Path, which: str, model: str = "") -> dict[str, tuple[int, int]]:
    return {
        symbol.name: (symbol.flash, symbol.ram)
        for symbol in size(path).symbols
        if symbol.part == which and symbol.model in (model, "")
    }


def test_models_and_their_memory(image: Path) -> None:
    report = size(image)
    assert set(report.models) == {"net", "other"}
    net, other = plans()
    assert part(image, "pool", "net") == {"net_memory": (0, net.pool_bytes)}
    assert part(image, "pool", "other") == {"other_memory": (0, other.pool_bytes)}
    ((name, (flash, ram)),) = part(image, "context").items()
    assert name.startswith("contexts") and flash == 0 and ram > 0 and ram % 8 == 0
    assert report.ram == net.pool_bytes + other.pool_bytes + ram
    assert "unrelated" not in {symbol.name for symbol in report.symbols}
    assert report.notes == ()


def test_flash_is_what_the_compiler_promised(image: Path) -> None:
    for name, plan in zip(("net", "other"), plans(), strict=True):
        emitted: Emitted = emit(plan, name)
        for which, promised in (
            ("weights", emitted.weights_bytes),
            ("tables", emitted.tables_bytes - strings(plan, name)),
        ):
            assert sum(flash for flash, _ in part(image, which, name).values()) == promised


def test_code_by_where_it_comes_from(image: Path) -> None:
    assert {"vmcu_init", "vmcu_invoke"} <= set(part(image, "executor"))
    kernels = part(image, "kernels")
    assert any(name.startswith("vmcu_add") for name in kernels)
    assert not any(name.startswith("vmcu_max_pool") for name in kernels)
    assert {"vmcu_reset_handler", "vectors"} <= set(part(image, "port"))
    report = size(image)
    names = [symbol.name for symbol in report.symbols]
    assert "main" not in names
    for which, sizes in report.parts.items():
        listed = [symbol for symbol in report.symbols if symbol.part == which]
        assert sizes["flash"] == sum(symbol.flash for symbol in listed)
        assert sizes["ram"] == sum(symbol.ram for symbol in listed)


def test_without_debug_information(image: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.elf"
    subprocess.run(["arm-none-eabi-objcopy", "--strip-debug", image, bare], check=True)
    assert part(bare, "weights", "net") == part(image, "weights", "net")
    assert any(name.startswith("vmcu_add") for name in part(bare, "kernels"))
    assert "vmcu_invoke" in part(bare, "executor")


def test_a_pool_with_guards(tmp_path: Path) -> None:
    plan, _ = plans()
    image = board().build(emit(plan, "net").files, "net", tmp_path)
    ((name, (_, ram)),) = part(image, "pool", "net").items()
    assert name == "arena" and ram >= plan.pool_bytes


@pytest.mark.parametrize(
    ("model", "hop"), [("samples/keyword/keyword.onnx", 4), ("tests/runtime/tiny.onnx", 3)]
)
def test_a_model_that_keeps_its_state(tmp_path: Path, model: str, hop: int) -> None:
    """All of its pool, or what the layers that go on have of it."""
    plan = compile_model(Path(__file__).parents[2] / model, CompileOptions(hop=hop))
    image = board().suited(plan).build(emit(plan, "net").files, "net", tmp_path)
    promised = emit(plan, "net").tables_bytes - strings(plan, "net")
    tables = part(image, "tables", "net")
    assert {"net_stream", "net_calls", "net_again"} <= set(tables)
    assert sum(flash for flash, _ in tables.values()) == promised
    host = runners.get("host")
    assert isinstance(host, CompiledRunner)
    host = host.suited(plan)
    (tmp_path / "main.c").write_text(STATE_SIZE)
    parts = [tmp_path / "main.c", tmp_path / "net.c"]
    parts.append(host.archive(parts))
    host.gcc([f"-I{tmp_path}", *map(str, parts), "-o", str(tmp_path / "here")], tmp_path)
    said = subprocess.run([tmp_path / "here"], capture_output=True, text=True, check=True).stdout
    assert size(image).states == {"net": int(said)}


STATE_SIZE = """
#include <stdio.h>
#include <vmcu/vmcu.h>
#include "net.h"

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(net));

int main(void)
{
	static struct vmcu_context ctx;

	(void)vmcu_init(&ctx, &net_model, pool, sizeof(pool));
	printf("%u\\n", (unsigned int)vmcu_state_size(&ctx));
	return 0;
}
"""


# Paints the stack below, runs a model and sees how far down the paint is gone.
PAINTER = """
#include <vmcu/vmcu.h>
#include "semihosting.h"
#include "net.h"

#define PAINTED 4096
#define OWN     128
#define PAINT   0xa5

static VMCU_POOL_DEFINE(pool, VMCU_MODEL_POOL_BYTES(net));

__attribute__((noinline)) static void paint(volatile uint8_t *top)
{
	for (unsigned int i = OWN; i < PAINTED; i++) {
		*(top - i) = PAINT;
	}
}

int main(void)
{
	struct vmcu_context ctx;
	char text[] = "00000";
	unsigned int depth = PAINTED - 1;
	volatile uint8_t *top;

	(void)vmcu_init(&ctx, &net_model, pool, sizeof(pool));
	__asm__ volatile("mov %0, sp" : "=r"(top));
	paint(top);
	(void)vmcu_invoke(&ctx);
	while (*(top - depth) == PAINT) {
		depth--;
	}
	for (int i = 4; i >= 0; i--, depth /= 10) {
		text[i] = (char)('0' + depth % 10);
	}
	vmcu_semihosting_print(text);
	vmcu_semihosting_exit(0);
}
"""


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="not installed: qemu")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("qemu:m4", kind) for kind in ("conv2d", "depthwise_square", "softmax", "matmul")),
        ("qemu:m3", "conv2d"),
        *(
            pytest.param("qemu:m3", kind, marks=pytest.mark.slow)
            for kind in ("depthwise_square", "softmax", "matmul")
        ),
    ],
)
def test_stack_is_what_a_run_takes(name: str, kind: str, tmp_path: Path) -> None:
    target = runners.get(name)
    assert isinstance(target, CompiledRunner)
    write(emit(disjoint(random_layers(kind, 6, seed=5)), "net").files, tmp_path)
    (tmp_path / "main.c").write_text(PAINTER)
    sources = [source for source in target.sources() if source.name != "io_semihosting.c"]
    parts = [tmp_path / "main.c", tmp_path / "net.c", *sources]
    parts.append(target.archive(parts))
    elf = tmp_path / "image.elf"
    arguments = [f"-I{tmp_path}", *map(str, parts), *target.link_flags()]
    target.gcc([*arguments, "-o", str(elf)], tmp_path)
    done = subprocess.run(target.command(elf), capture_output=True, text=True, check=True)
    measured = int(done.stdout or done.stderr)
    # The deepest way down need not be one that these layers take: no ring splits a row of theirs.
    assert measured <= size(elf).stacks["net"] <= measured + 250


def test_kernels_cost_what_an_image_without_them_lacks(image: Path, tmp_path: Path) -> None:
    costs = {cost.name: cost for cost in size(image).kernels}
    kernels = part(image, "kernels")
    assert {cost.models for cost in costs.values()} == {("net",), ("other",)}
    for name, cost in costs.items():
        assert cost.alone >= kernels[name][0]
    # What no kernel needs alone, several share.
    alone = sum(cost.alone for cost in costs.values())
    assert (
        alone
        < sum(flash for flash, _ in kernels.values())
        <= alone + sum(cost.shared for cost in costs.values())
    )


def test_a_pool_is_an_array_of_bytes(tmp_path: Path) -> None:
    """Not the first variable of about that size."""
    plan, _ = plans()
    write(emit(plan, "net").files, tmp_path)
    source = tmp_path / "main.c"
    source.write_text(
        f"""
#include <stdint.h>
#include "net.h"

uint32_t words[{-(-plan.pool_bytes // 4)}];

int main(void)
{{
	struct vmcu_context ctx;

	words[0] = 1;
	return vmcu_init(&ctx, &net_model, (void *)0x20001000, 100000) + vmcu_invoke(&ctx);
}}
"""
    )
    elf = tmp_path / "image.elf"
    parts = [source, tmp_path / "net.c", *board().sources()]
    parts.append(board().archive(parts))
    arguments = [f"-I{tmp_path}", *map(str, parts), *board().link_flags()]
    board().gcc([*arguments, "-o", str(elf)], tmp_path)
    assert part(elf, "pool") == {}
    assert any("not an array of its own" in note for note in size(elf).notes)


def strip(image: Path, to: Path) -> None:
    subprocess.run(["arm-none-eabi-strip", "-o", to, image], check=True)


def compile_only(_: Path, to: Path) -> None:
    source = to.with_suffix(".c")
    source.write_text("int x;\n")
    board().gcc(["-c", str(source), "-o", str(to)], to.parent)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (strip, "no symbols"),
        (compile_only, "not linked"),
        (lambda _, to: to.write_text("text"), "not an ELF file"),
    ],
)
def test_refuses(
    image: Path, tmp_path: Path, make: Callable[[Path, Path], object], message: str
) -> None:
    make(image, tmp_path / "x.elf")
    with pytest.raises(UserError, match=message):
        size(tmp_path / "x.elf")


def test_command(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "size.json"
    assert main(["inspect", str(image), "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert set(figures["parts"]) == {
        *("pool", "context", "weights", "tables", "kernels", "executor", "port")
    }
    assert figures["flash"] == sum(sizes["flash"] for sizes in figures["parts"].values())
    assert "net_memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("7047", False),  # bx lr
        ("1847", True),  # bx r3
        ("9847", True),  # blx r3
        ("00f0 9847", False),  # bl: its second half looks like blx r3
        ("00bf 1847", True),  # nop, bx r3
    ],
)
def test_calls_through_pointers_are_told_from_returns(code: str, calls: bool) -> None:
    assert has_call_through_pointer(bytes.fromhex(code)) == calls


@pytest.mark.parametrize(
    ("code", "size"),
    [
        ("10b5", 8),  # push {r4, lr}
        ("84b0", 16),  # sub sp, #16
        ("2de9f041", 24),  # push.w {r4-r8, lr}
        ("2ded028b", 8),  # vpush {d8}
        ("4df8044d", 4),  # str r4, [sp, #-4]!
        ("10b5 2ded048b 82b0 00bf 10bd", 32),  # three of them, nop, pop {r4, pc}
    ],
)
def test_what_instructions_push(code: str, size: int) -> None:
    assert pushed(bytes.fromhex(code)) == size


def test_the_port_has_no_name_of_the_runtime(tmp_path: Path) -> None:
    """An application that calls the function of that name could not link."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("not installed: arm-none-eabi-gcc")
    named = {}
    for folder in (paths.runtime(), paths.runtime() / "port" / "freestanding"):
        flags = ("-mcpu=cortex-m4", "-mthumb", "-std=c99", "-ffreestanding", "-DVMCU_STREAMS")
        sources = sorted(map(str, folder.glob("*.c")))
        made = tmp_path / folder.name
        made.mkdir()
        include = f"-I{paths.runtime() / 'include'}"
        subprocess.run(["arm-none-eabi-gcc", *flags, include, "-c", *sources], cwd=made, check=True)
        command = ["arm-none-eabi-nm", "-g", "--defined-only", *map(str, made.glob("*.o"))]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        named[folder.name] = {
            line.split()[2] for line in said.splitlines() if len(line.split()) > 2
        }
    assert named["vmcu"] & named["freestanding"] == set()
    assert "vmcu_reset" in named["vmcu"]
