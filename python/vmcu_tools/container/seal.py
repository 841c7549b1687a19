# SPDX-License-Identifier: Apache-2.0
"""The digest of a container, and who stands for it."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Problem, UserError
from .layout import DIGEST, ED25519, FILE, SIGNATURE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def digest(image: bytes) -> bytes:
    """SHA-256 of all bytes of a container but the digest and the signature."""
    return hashlib.sha256(image[: DIGEST.start] + image[SIGNATURE.stop :]).digest()


def sealed(image: bytes) -> bytes:
    """The container with its digest; its signature is taken away."""
    zeros = bytes(SIGNATURE.stop - SIGNATURE.start)
    return image[: DIGEST.start] + digest(image) + zeros + image[SIGNATURE.stop :]


def signed(image: bytes, key: Path) -> bytes:
    """The container with the Ed25519 signature of its digest. key: a PEM file with the private key,
    without a password. Raises UserError."""
    private = _private(key)
    at = FILE.members["signature"].start
    marked = sealed(image[:at] + struct.pack("<I", ED25519) + image[at + 4 :])
    return marked[: SIGNATURE.start] + private.sign(marked[DIGEST]) + marked[SIGNATURE.stop :]


def is_signed_by(image: bytes, key: Path) -> bool:
    """True if the owner of a public key has signed the container. key: a PEM file with the public
    or the private key. Raises UserError."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public(key).verify(image[SIGNATURE], image[DIGEST])
    except InvalidSignature:
        return False
    return True


def _read(key: Path) -> bytes:
    try:
        return key.read_bytes()
    except OSError as error:
        reason = f"{key}: {(error.strerror or 'cannot be read').lower()}"
        raise UserError(Problem(reason, "name a PEM file with an Ed25519 key")) from error


def _private(key: Path) -> Ed25519PrivateKey:
    serialization, ed25519 = _library()
    try:
        found = serialization.load_pem_private_key(_read(key), None)
    except (TypeError, ValueError) as error:
        raise _no_key(key, "private") from error
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise _no_key(key, "private")
    return found


def _public(key: Path):
    serialization, ed25519 = _library()
    data = _read(key)
    if b"PRIVATE KEY" in data:
        return _private(key).public_key()
    try:
        found = serialization.load_pem_public_key(data)
    except ValueError as error:
        raise _no_key(key, "public") from error
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise _no_key(key, "public")
    return found


def _no_key(key: Path, kind: str) -> UserError:
    made = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one"
    return UserError(Problem(f"{key} has no {kind} Ed25519 key in PEM without a password", made))


def _library():
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        missing = Problem("signatures need the Python package cryptography", "pip install it")
        raise UserError(missing) from error
    return serialization, ed25519
