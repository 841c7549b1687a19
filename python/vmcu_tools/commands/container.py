# SPDX-License-Identifier: Apache-2.0
"""`vmcu container`: files that firmware loads models from."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from ..exits import EXIT_DONE
from .options import STREAM, Subparsers, plan_options, release_options, seed_option

if TYPE_CHECKING:
    from ..container.read import Facts, Side
    from ..container.release import Release

EXAMPLES = (
    ("show kws.vmcu", "its contents"),
    ("verify kws.vmcu", "exit 0 if it is intact"),
    ("sign kws.vmcu --key key.pem", "so that devices can refuse others"),
    ("kernels kws.vmcu wake.vmcu", "C that links the kernels of both"),
)
# Results of a model with state in its vector: enough to find a state that is not kept.
STEPS = 4
UPDATE_MODEL = "model of the container, .tflite or .onnx"


def add(commands: Subparsers) -> argparse.ArgumentParser:
    container = commands.add_parser(
        "container",
        help="show, check and sign models that firmware loads",
        description="`vmcu build --format container` writes containers; `vmcu help "
        "container.md` describes the format and how firmware loads it.",
    )
    verbs = container.add_subparsers(dest="verb", metavar="VERB", required=True)
    show = verbs.add_parser("show", help="list the contents of a container")
    verify = verbs.add_parser("verify", help="check that a container is intact (exit 0 or 1)")
    verify.add_argument(
        "--key",
        type=Path,
        metavar="PEM",
        help="also check its signature with this key, Ed25519 or P-256",
    )
    sign = verbs.add_parser("sign", help="sign a container in place")
    sign.add_argument(
        "--key",
        type=Path,
        metavar="PEM",
        required=True,
        help="private key, Ed25519 or P-256, no password",
    )
    release_options(sign)
    key = verbs.add_parser("key", help="print a public key as C, for CONFIG_VMCU_SIGNATURE_PSA")
    key.add_argument("key", type=Path, metavar="PEM", help="public or private key")
    update = verbs.add_parser(
        "update",
        help="append a test vector that devices run before they use a container",
        description="Writes FILE with a random input and the digest of the outputs of the model "
        "file; `vmcu help updates.md`. Sign first. If the model has state, the vector is a "
        f"stream of {STEPS} steps.",
    )
    update.add_argument("--model", type=Path, metavar="MODEL", required=True, help=UPDATE_MODEL)
    update.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file to write (default: NAME.update)"
    )
    seed_option(update, "the random input")
    plan_options(update, *STREAM)
    kernels = verbs.add_parser(
        "kernels",
        help="print C that links only the kernels of containers",
        description="Prints C that defines vmcu_kernels for vmcu_model_load(). An application that "
        "compiles it runs these containers, and others with the same kernels.",
    )
    for verb in (show, verify, sign, update):
        verb.add_argument("file", type=Path, metavar="FILE", help="container, .vmcu")
    kernels.add_argument("file", type=Path, metavar="FILE", nargs="+", help="container, .vmcu")
    return container


def run(args: argparse.Namespace) -> int:
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "show": _show,
        "verify": _verify,
        "sign": _sign,
        "kernels": _kernels,
        "key": _key,
        "update": _update,
    }
    return verbs[args.verb](args)


def _show(args: argparse.Namespace) -> int:
    from ..container import facts_of
    from ..report.terminal import console, say

    terminal = console()
    for line in _lines(facts_of(args.file)):
        say(terminal, line)
    return EXIT_DONE


def _lines(facts: Facts) -> list[str]:
    hops = facts.hops
    kept = []
    if hops is not None:
        kept = [
            f"streaming: the first result after {hops.first} rows, then one every {hops.rows}; "
            f"state: {hops.state_bytes:,} bytes of the pool"
        ]
    ports = [
        f"{kind} {port.name}: {' x '.join(map(str, _shape(facts, kind, port)))}, "
        f"scale {port.scale:.9g}, zero point {port.zero_point}"
        for kind, some in (("input", facts.inputs), ("output", facts.outputs))
        for port in some
    ]
    return [
        f"{facts.name}: {facts.size:,} bytes, format version {facts.version}",
        f"pool {facts.pool_bytes:,} bytes, {facts.layers} layers, {facts.tensors} tensors"
        + (", streamed input" if facts.streamed else "")
        + (", devices can re-plan it" if facts.online else ""),
        *kept,
        *ports,
        *([f"weights file: {facts.weights_bytes:,} bytes"] if facts.weights_bytes else []),
        *_release(facts.release),
        f"kernels: {', '.join(facts.kernels)}",
        *_cores(facts),
        f"SHA-256 {facts.digest}, {f'signed, {facts.signed}' if facts.signed else 'not signed'}",
    ]


def _cores(facts: Facts) -> list[str]:
    """The cores of a container that not all have the kernels of."""
    from ..container.kernels import targets_of
    from ..kernels.targets import TARGETS

    targets = targets_of(facts.kernels)
    if len(targets) == len(TARGETS):
        return []
    return [f"cores: {', '.join(one.label for one in targets) or 'none'}"]


def _release(release: Release | None) -> list[str]:
    if release is None:
        return []
    return [f"product {release.product or 'any'}, version {release.version}"]


def _shape(facts: Facts, kind: str, port: Side) -> tuple[int, ...]:
    """The shape of an input or output; of a streamed one, of one row."""
    streams = facts.hops is not None and (kind == "input" or facts.hops.streams)
    return (1, *port.shape[1:]) if streams else port.shape


def _verify(args: argparse.Namespace) -> int:
    from ..container import facts_of

    facts = facts_of(args.file, args.key)
    print(f"{args.file}: {facts.name} is intact" + (", signature valid" if args.key else ""))
    print("\n".join(_release(facts.release)) or "no product, no version")
    return EXIT_DONE


def _sign(args: argparse.Namespace) -> int:
    from ..container import sign

    release = sign(args.file, args.key, args.product, args.model_version)
    print(", ".join([f"signed {args.file}", *_release(release)]))
    return EXIT_DONE


def _kernels(args: argparse.Namespace) -> int:
    from ..container import facts_of, kernels_source
    from ..container.kernels import check_linkable

    names: set[str] = set()
    for file in args.file:
        kernels = facts_of(file).kernels
        check_linkable(kernels, file)
        names.update(kernels)
    print(kernels_source(names), end="")
    return EXIT_DONE


def _key(args: argparse.Namespace) -> int:
    from ..container.build import key_source
    from ..container.seal import public_bytes

    print(key_source(public_bytes(args.key)), end="")
    return EXIT_DONE


def _update(args: argparse.Namespace) -> int:
    from vmcu_bench.runners.samples import make_samples

    from ..container.files import write
    from ..container.update import update

    target = args.output or args.file.with_suffix(".update")
    data = _stream_update(args) or update(
        args.file, args.model, lambda graph: make_samples(graph, 1, 0, args.seed)[0]
    )
    write(target, data)
    print(f"wrote {target}")
    return EXIT_DONE


def _stream_update(args: argparse.Namespace) -> bytes | None:
    """The update of a container with state, None for another."""
    from vmcu_bench.verify.stream import meaning, stream_of

    from ..compiler import compile_model
    from ..container import facts_of
    from ..container.update import WHICH, stream_update
    from ..passes.state.options import HOP_OPTION
    from ..planner.options import CompileOptions

    hops = facts_of(args.file).hops
    if hops is None:
        return None
    options = CompileOptions(hop=hops.rows, time=args.time, state=args.state, container=True)
    try:
        plan = compile_model(args.model, options)
    except UserError as error:
        problem = error.problems[0]
        if HOP_OPTION not in problem.remedy:
            raise
        raise UserError(replace(problem, remedy=WHICH)) from error
    rows = stream_of(plan.model, hops.rows, STEPS, args.seed)
    return stream_update(args.file, args.model, plan.model, rows, list(meaning(plan, rows)))
