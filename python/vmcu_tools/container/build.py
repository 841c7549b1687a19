# SPDX-License-Identifier: Apache-2.0
"""A plan as a container, proven as it is read back, and a container as C."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..emit import Emitted, emit
from ..emit.proof import prove_objects
from ..machine import tables
from ..machine.tables import expect
from ..plan.plan import Plan
from . import external
from .kernels import refusal
from .layout import REQUANTISERS
from .online import Online, online_of
from .pack import pack
from .read import distances_of, kernels_of, requantisers_of, unpack
from .release import Release

# Bytes of a line of C.
LINE = 16


def build(plan: Plan, name: str, online: bool = False, release: Release | None = None) -> bytes:
    """The container of a plan, unsigned: the tables and constants of emit(), which is proven,
    once more proven as they are read back from it. online: with the data for planners on the
    device. release: of the container. Raises the errors of emit(), and UserError for a plan that
    no device can make."""
    return of_emitted(emit(plan, name), plan, name, online, release)


def of_emitted(
    emitted: Emitted, plan: Plan, name: str, online: bool = False, release: Release | None = None
) -> bytes:
    """build() of what emit() has returned for a plan and a name."""
    distances = online_of(plan) if online else None
    weights = b"".join(emitted.weights.values())
    image = of_tables(emitted.files, name, distances, release, weights)
    prove_objects(unpack(image)[0], name, plan, weights)
    expect(distances_of(image) == distances, "the distances are not those that were packed")
    return image


def of_tables(
    files: Mapping[str, str],
    name: str,
    online: Online | None = None,
    release: Release | None = None,
    weights: bytes = b"",
) -> bytes:
    """The container of a model's emitted files. online: for planners on the device. release: of
    the container. weights: its weights file."""
    objects = tables.read(files, name)
    digest = external.digest_of(objects, name, weights) if weights else b""
    return pack(objects, name, _requantisers(files), online, release, digest)


def released(image: bytes, release: Release) -> bytes:
    """A container with another release, unsigned. Raises DamagedError."""
    objects, name = unpack(image)
    digest = external.digest_in(image) if f"{name}_chunks" in objects.values else b""
    return pack(objects, name, requantisers_of(image), distances_of(image), release, digest)


def _requantisers(files: Mapping[str, str]) -> list[str]:
    """Which the model does not compile without."""
    text = "".join(files.values())
    return [kind for kind in REQUANTISERS if f"defined(VMCU_NO_REQUANT_{kind})" in text]


def kernels_source(kernels: Iterable[str]) -> str:
    """C that links kernels, by the names of their functions, for vmcu_model_load()."""
    names = sorted(set(kernels))
    declared = "".join(f"extern const struct vmcu_kernel {name}_kernel;\n" for name in names)
    listed = "".join(f"\t&{name}_kernel,\n" for name in names)
    return (
        f"#include <stddef.h>\n\n#include <vmcu/container.h>\n\n{refusal(names)}{declared}\n"
        f"const struct vmcu_kernel *const vmcu_kernels[] = {{\n{listed}\tNULL,\n}};\n"
    )


def as_c(image: bytes) -> str:
    """C of a container, image_container, that firmware has in its flash, and of its kernels."""
    return (
        f"{kernels_source(kernels_of(image))}\n"
        "extern const uint8_t image_container[];\nextern const size_t image_container_bytes;\n\n"
        "const uint8_t image_container[] __attribute__((aligned(VMCU_CONTAINER_ALIGN))) = {\n"
        f"{_bytes(image)}}};\n\nconst size_t image_container_bytes = sizeof(image_container);\n"
    )


def key_source(key: bytes) -> str:
    """C of a public key, vmcu_public_key."""
    return (
        "#include <stdint.h>\n\nextern const uint8_t vmcu_public_key[];\n\n"
        f"const uint8_t vmcu_public_key[{len(key)}] = {{\n{_bytes(key)}}};\n"
    )


def _bytes(data: bytes) -> str:
    """Lines of an initialiser."""
    parts = [data[at : at + LINE] for at in range(0, len(data), LINE)]
    return "".join("\t" + " ".join(f"{byte:#04x}," for byte in part) + "\n" for part in parts)
