"""Secure aggregation: what a device does, as functions of bytes, and what a server does with them.

After Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning" (CCS 2017), on the sparse
graph of Bell et al., "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead" (CCS 2020). Device i sends
x_i + m(b_i) + Σ_j ±m(s_ij) modulo 2^64 over its neighbours j: s_ij is agreed on by both and cancels in the sum, b_i is
its own. Both b_i and the key behind all s_ij are shared out among the neighbours: they give back b_i of a device that
answered, or the key of one that did not, never both.

Primitives are those of ``cryptography`` (X25519, HKDF, AES-GCM for shares, AES-256-CTR for masks) and of
``pycryptodome`` (Shamir's shares). Against a server that follows the protocol and is curious; one that invents devices
can look into sums, unless keys are signed by somebody it does not control.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError

SECRET = 32  # bytes of a key or a seed


def _primitives() -> Any:
    try:
        import Crypto.Protocol.SecretSharing
        import cryptography.hazmat.primitives.asymmetric.x25519
    except ImportError:
        raise FedrecError(
            "secure aggregation needs the packages of the extra 'flower': pip install 'fedrec[flower]'"
        ) from None
    return Crypto.Protocol.SecretSharing.Shamir, cryptography.hazmat.primitives.asymmetric.x25519


def new_key() -> bytes:
    return secrets.token_bytes(SECRET)


def public(key: bytes) -> bytes:
    _, x25519 = _primitives()
    made: bytes = x25519.X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
    return made


def agreed(key: bytes, other: bytes, purpose: bytes) -> bytes:
    """What two devices know and nobody else: from the key of one and the public key of the other."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    _, x25519 = _primitives()
    try:
        secret = x25519.X25519PrivateKey.from_private_bytes(key).exchange(
            x25519.X25519PublicKey.from_public_bytes(other)
        )
    except ValueError:
        raise FedrecError("a public key that is none") from None
    return HKDF(hashes.SHA256(), SECRET, salt=None, info=b"fedrec " + purpose).derive(secret)


def mask(seed: bytes, length: int) -> NDArray[np.uint64]:
    """So many words that nobody can tell from random ones without the seed."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * length)), "<u8")


def sealed(key: bytes, text: bytes, about: bytes) -> bytes:
    """For one reader, who knows what it is about."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(12)
    return nonce + AESGCM(key).encrypt(nonce, text, about)


def unsealed(key: bytes, data: bytes, about: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(data[:12], data[12:], about)
    except (InvalidTag, ValueError):
        raise FedrecError("a share that was not made for this device, or was changed on its way") from None


def shares(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """So many parts, of which so many give the secret back."""
    shamir, _ = _primitives()
    halves = [shamir.split(threshold, count, secret[at : at + 16], ssss=False) for at in (0, 16)]
    return [number.to_bytes(2, "big") + low + high for (number, low), (_, high) in zip(*halves, strict=True)]


def combined(parts: Sequence[bytes]) -> bytes:
    shamir, _ = _primitives()
    for part in parts:
        if len(part) != 2 + SECRET:
            raise FedrecError("a share of another length")
    numbers = [int.from_bytes(part[:2], "big") for part in parts]
    low, high = (
        shamir.combine([(n, part[at : at + 16]) for n, part in zip(numbers, parts, strict=True)], ssss=False)
        for at in (2, 18)
    )
    return bytes(low + high)


def neighbours(session: str, names: Sequence[str], degree: int) -> dict[str, list[str]]:
    """Who shares masks with whom: a ring in an order that the session draws, each with the next ones on both sides."""
    ring = sorted(names, key=lambda name: hashlib.sha256(f"{session}/{name}".encode()).digest())
    n = len(ring)
    if degree >= n - 1:
        return {name: [other for other in ring if other != name] for name in ring}
    half = (degree + 1) // 2
    near = [d for d in range(-half, half + 1) if d]
    return {name: [ring[(at + d) % n] for d in near] for at, name in enumerate(ring)}


def enough(degree: int) -> int:
    """Shares that give a secret back: more than half, so that no two groups of neighbours can."""
    return degree // 2 + 1


def pair_masks(
    session: str, name: str, key: bytes, others: Mapping[str, bytes], length: int
) -> NDArray[np.uint64]:
    """Σ ±m(s_ij) over the others (their public keys): who comes first by name adds, who comes later takes away."""
    total = np.zeros(length, np.uint64)
    for other, known in others.items():
        drawn = mask(agreed(key, known, f"mask {session}".encode()), length)
        total = total + drawn if name < other else total - drawn
    return total
