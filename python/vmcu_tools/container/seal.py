# SPDX-License-Identifier: Apache-2.0
"""The digest of a container, and its signature."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import Problem, UserError, missing_package
from .layout import DIGEST, ED25519, FILE, P256, SIGNATURE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

    Private: TypeAlias = Ed25519PrivateKey | EllipticCurvePrivateKey
    Public: TypeAlias = Ed25519PublicKey | EllipticCurvePublicKey


def digest(image: bytes) -> bytes:
    """SHA-256 of all bytes of a container but the digest and the signature."""
    return hashlib.sha256(image[: DIGEST.start] + image[SIGNATURE.stop :]).digest()


def sealed(image: bytes) -> bytes:
    """The container with its digest; its signature is taken away."""
    zeros = bytes(SIGNATURE.stop - SIGNATURE.start)
    return image[: DIGEST.start] + digest(image) + zeros + image[SIGNATURE.stop :]


def signed(image: bytes, key: Path) -> bytes:
    """The container with a signature of its digest: Ed25519, or ECDSA P-256 (r, then s, 32 bytes
    each, big-endian) of the digest as the hash. key: a PEM file with the private key, without a
    password. Raises UserError."""
    private = _private(key)
    from cryptography.hazmat.primitives.asymmetric import ec

    at = FILE.members["signature"].start
    kind = P256 if isinstance(private, ec.EllipticCurvePrivateKey) else ED25519
    marked = sealed(image[:at] + struct.pack("<I", kind) + image[at + 4 :])
    return marked[: SIGNATURE.start] + _sign(private, marked[DIGEST]) + marked[SIGNATURE.stop :]


def _sign(private: Private, digest: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    if not isinstance(private, ec.EllipticCurvePrivateKey):
        signature: bytes = private.sign(digest)
        return signature
    made = private.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
    return b"".join(part.to_bytes(32, "big") for part in utils.decode_dss_signature(made))


def is_signed_by(image: bytes, key: Path) -> bool:
    """True if the owner of a public key has signed the container. key: a PEM file with the public
    or the private key. Raises UserError."""
    public = _public(key)
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils

    signature = image[SIGNATURE]
    try:
        if isinstance(public, ec.EllipticCurvePublicKey):
            pair = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            method = ec.ECDSA(utils.Prehashed(hashes.SHA256()))
            public.verify(utils.encode_dss_signature(*pair), image[DIGEST], method)
        else:
            public.verify(signature, image[DIGEST])
    except InvalidSignature:
        return False
    return True


def public_bytes(key: Path) -> bytes:
    """A public key as firmware has it: Ed25519's 32 bytes, or x and y of P-256, 32 bytes each,
    big-endian. key: as for is_signed_by(). Raises UserError."""
    public = _public(key)
    from cryptography.hazmat.primitives.asymmetric import ec

    if not isinstance(public, ec.EllipticCurvePublicKey):
        raw: bytes = public.public_bytes_raw()
        return raw
    point = public.public_numbers()
    joined: bytes = point.x.to_bytes(32, "big") + point.y.to_bytes(32, "big")
    return joined


def _read(key: Path) -> bytes:
    try:
        return key.read_bytes()
    except OSError as error:
        reason = f"{key}: {(error.strerror or 'cannot be read').lower()}"
        raise UserError(Problem(reason, "name a PEM file with a key")) from error


def _private(key: Path) -> Private:
    serialization = _library()
    try:
        key_read: Private = serialization.load_pem_private_key(_read(key), None)
    except (TypeError, ValueError) as error:
        raise _no_key(key, "private") from error
    if not _is_known(key_read):
        raise _no_key(key, "private")
    return key_read


def _public(key: Path) -> Public:
    serialization = _library()
    data = _read(key)
    if b"PRIVATE KEY" in data:
        return _private(key).public_key()
    try:
        key_read: Public = serialization.load_pem_public_key(data)
    except ValueError as error:
        raise _no_key(key, "public") from error
    if not _is_known(key_read):
        raise _no_key(key, "public")
    return key_read


def _is_known(key: object) -> bool:
    """True for keys of Ed25519 and of P-256."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    if isinstance(key, (ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey)):
        return isinstance(key.curve, ec.SECP256R1)
    return isinstance(key, (ed25519.Ed25519PrivateKey, ed25519.Ed25519PublicKey))


def _no_key(key: Path, kind: str) -> UserError:
    made = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one"
    reason = f"{key} has no {kind} key of Ed25519 or P-256 in PEM without a password"
    return UserError(Problem(reason, made))


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise missing_package("cryptography", "sign and check containers", "sign") from error
    return serialization
