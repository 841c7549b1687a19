# SPDX-License-Identifier: Apache-2.0
"""The evidence for one model in a ZIP file that is equal byte for byte wherever it is made."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from vmcu_check.images.check import Verdict
from vmcu_tools import __version__, paths
from vmcu_tools.emit import emit
from vmcu_tools.emit.model import address
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import runtime_of
from vmcu_tools.machine.hops import played
from vmcu_tools.plan.plan import Plan
from vmcu_tools.report import model as report

from .. import runners
from ..cycles.model import bench
from ..image.elf import Elf
from ..image.size import size
from ..verify import stream
from ..verify.verify import verify

EMULATED = "qemu:"
# The first time that a ZIP file can state, and the same in SPDX.
ZIP_TIME, SPDX_TIME = (1980, 1, 1, 0, 0, 0), "1980-01-01T00:00:00Z"
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
# Of struct vmcu_tensor: base, ring and phase, then 16 bits each of its shape.
TENSOR_WORDS = 5
# Figures that differ from run to run.
VARYING = ("solve_seconds",)
DOCUMENTS = ("evidence.md", "static-evidence.md")


@dataclass(frozen=True)
class Requirement:
    """A requirement, the check that was run for it, and its result."""

    requirement: str
    check: str
    result: str
    detail: str


@dataclass(frozen=True)
class EvidenceSubject:
    """The model that evidence is for. calibration: the file of samples that made it int8; options:
    those of `vmcu build` that change the plan; image: the ELF file that has the model;
    check_image: the checker of images."""

    file: Path
    calibration: Path | None
    name: str
    options: Sequence[str]
    plan: Plan
    image: Path | None
    check_image: Callable[[Path, Path], Sequence[Verdict]]


@dataclass(frozen=True)
class Evidence:
    """The files of the archive by name, and the requirements."""

    files: Mapping[str, bytes]
    requirements: tuple[Requirement, ...]

    @property
    def passed(self) -> bool:
        return all(one.result != FAILED for one in self.requirements)


def collect(subject: EvidenceSubject, target: str, samples: int, seed: int) -> Evidence:
    """Runs all checks. target: the machine whose outputs are compared with the file's runtime."""
    plan = subject.plan
    emitted = emit(plan, subject.name)
    tables = {name: _bytes(data) for name, data in emitted.all_files.items()}
    figures = asdict(report.report(plan, subject.name, emitted.tables_bytes, emitted.weights_bytes))
    image = None if subject.image is None else _described(subject.image)
    requirements = (
        *_proven(plan),
        _verified(plan, target, samples, seed),
        _time(plan, subject.name, target, samples),
        *_image(subject, image or {}),
    )
    document = {
        "format": 1,
        "vmcu": __version__,
        "model": _file(subject.file),
        "calibration": None if subject.calibration is None else _file(subject.calibration),
        "int8_sha256": _digest(Path(plan.graph.origin).read_bytes()),
        "runtime": runtime_of(Path(plan.graph.origin)),
        "options": list(subject.options),
        "figures": {name: value for name, value in figures.items() if name not in VARYING},
        "tables": {name: _digest(data) for name, data in tables.items()},
        "image": image,
        "requirements": [asdict(one) for one in requirements],
    }
    files = {
        "evidence.json": _json(document),
        "requirements.csv": _table(requirements),
        "sbom.spdx.json": _json(_spdx(subject, tables)),
        **{f"tables/{name}": data for name, data in tables.items()},
        **{name: (paths.root() / "doc" / name).read_bytes() for name in DOCUMENTS},
    }
    return Evidence(files, requirements)


def archive(files: Mapping[str, bytes]) -> bytes:
    """A ZIP file, not compressed: versions of zlib write other bytes."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as made:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            made.writestr(entry, files[name])
    return data.getvalue()


def _proven(plan: Plan) -> tuple[Requirement, ...]:
    """The proof, without which emit() writes no tables."""
    detail = f"{len(played(plan).events)} calls of kernels, byte by byte"
    check, result = "the virtual MCU replays the emitted tables", PASSED
    return (
        Requirement("each byte that a kernel reads was written for it", check, result, detail),
        Requirement("no kernel accesses bytes outside the pool", check, result, detail),
    )


def _verified(plan: Plan, target: str, samples: int, seed: int) -> Requirement:
    requirement = f"outputs equal those of {runtime_of(Path(plan.graph.origin))}"
    if plan.graph.state.step_rows:
        hops = stream.verify(
            plan, target if target != runners.VIRTUAL else runners.HOST, samples, seed
        )
        detail, passed = f"{hops.hops} hops on {hops.target}", hops.passed
    else:
        outcome = verify(plan, target, samples, samples, seed)
        compared = sum(one.bytes for one in outcome.checks)
        detail = f"{outcome.samples} inputs on {outcome.target}, {compared} bytes of tensors"
        passed = outcome.passed
    check = f"vmcu verify -n {samples} --seed {seed}"
    return Requirement(requirement, check, PASSED if passed else FAILED, detail)


def _time(plan: Plan, name: str, target: str, samples: int) -> Requirement:
    """The instructions of an inference, counted on an emulated core."""
    requirement = "the time of an inference does not depend on the input"
    if not target.startswith(EMULATED) or plan.graph.state.step_rows:
        return Requirement(requirement, "", NOT_RUN, "no stream, with --on qemu:m4 or the like")
    spread = bench(plan, name, target, inputs=samples).inputs
    assert spread is not None
    detail = f"{spread.least} to {spread.most} instructions on {target}, {spread.inputs} inputs"
    result = PASSED if spread.spread == 0 else FAILED
    return Requirement(requirement, f"vmcu bench --inputs {samples}", result, detail)


def _image(subject: EvidenceSubject, described: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """The independent checker's verdicts, and the image's stack. described: see _described()."""
    plan = "the linked image has a plan without overlaps"
    constants = "the linked image has the constants of the model file"
    stack = "the stack of an inference is bounded"
    if subject.image is None:
        reason = "no image was given with --elf"
        return tuple(Requirement(one, "", NOT_RUN, reason) for one in (plan, constants, stack))
    check = "vmcu check-image"
    try:
        (verdict, *_) = subject.check_image(subject.image, Path(subject.plan.graph.origin))
    except UserError as error:
        # Without the folder of the image.
        reason = "; ".join(problem.reason for problem in error.problems)
        return tuple(Requirement(one, check, FAILED, reason) for one in (plan, constants))
    if not _has_tables(subject, verdict.symbol):
        reason = "the image was built with other options than these tables"
        return tuple(Requirement(one, check, FAILED, reason) for one in (plan, constants))
    compared = f"{verdict.compared} of {verdict.layers} layers are compared"
    depth = max(described["stacks"].values(), default=None)
    return (
        Requirement(plan, check, PASSED, f"{verdict.layers} layers, {sum(verdict.pools)} bytes"),
        Requirement(constants, check, PASSED if verdict.compared else NOT_RUN, compared),
        Requirement(
            stack,
            "vmcu inspect: the deepest calls in the image",
            NOT_RUN if depth is None else PASSED,
            "the image has no debug information" if depth is None else f"{depth} bytes",
        ),
    )


def _has_tables(subject: EvidenceSubject, symbol: str) -> bool:
    """True if the table of tensors in the image is the plan's. symbol: the model's in the image."""
    assert subject.image is not None
    plan, elf = subject.plan, Elf(subject.image)
    table = elf.find(f"{symbol.rpartition('_model')[0]}_tensors")
    if table is None:
        return False
    places = (plan.placements.get(name) for name in plan.tensors)
    planned = [(address(plan, p.base), p.ring, p.phase) if p else (0, 0, 0) for p in places]
    rows = np.frombuffer(elf.data(table), "<u4").reshape(-1, TENSOR_WORDS)
    return [tuple(row[:3]) for row in rows.tolist()] == planned


def _described(image: Path) -> dict[str, Any]:
    sizes = size(image)
    return {
        **_file(image),
        "compiler": Elf(image).compilers,
        "flash": sizes.flash,
        "ram": sizes.ram,
        "stacks": sizes.stacks,
    }


def _spdx(subject: EvidenceSubject, tables: Mapping[str, bytes]) -> dict[str, Any]:
    """A document of SPDX 2.3: the runtime, and the tables, which contain the model."""
    model = _digest(subject.file.read_bytes())
    packages = [
        {
            "SPDXID": f"SPDXRef-{place}",
            "name": name,
            "versionInfo": version,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": licence,
            "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": "SHA256", "checksumValue": one} for one in digests],
        }
        for place, name, version, licence, digests in (
            ("runtime", "vmcu", __version__, "Apache-2.0", ()),
            ("model", subject.file.name, model[:12], "NOASSERTION", (model,)),
            *(
                (f"table-{number}", name, model[:12], "NOASSERTION", (_digest(data),))
                for number, (name, data) in enumerate(sorted(tables.items()))
            ),
        )
    ]
    described = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-runtime")]
    for number in range(len(tables)):
        table = f"SPDXRef-table-{number}"
        described += [("SPDXRef-DOCUMENT", "DESCRIBES", table)]
        described += [(table, "GENERATED_FROM", "SPDXRef-model")]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": subject.name,
        "documentNamespace": f"https://spdx.org/spdxdocs/vmcu-{subject.name}-{model}",
        "creationInfo": {"created": SPDX_TIME, "creators": [f"Tool: vmcu-{__version__}"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
            for one, kind, other in described
        ],
    }


def _file(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": _digest(path.read_bytes())}


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _table(requirements: Sequence[Requirement]) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("requirement", "check", "result", "detail"))
    rows.writerows(asdict(one).values() for one in requirements)
    return text.getvalue().encode()
