"""Certificates and keys of a deployment, made with ``cryptography``: nothing is fetched, nothing is shared."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from fedrec.core.errors import FedrecError

YEARS = 2
CA, CERTIFICATE, KEY = "ca.pem", "server.pem", "server.key"
NODE_KEY = "node.key"  # its public half has .pub behind it


def write_private(path: Path, data: bytes) -> None:
    """A new file that only its owner may read."""
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)


def make_certificates(folder: Path, names: list[str], days: int = 365 * YEARS) -> None:
    """An authority of the deployment's own, and a certificate for the addresses of its server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    now = datetime.datetime.now(datetime.UTC)
    root, leaf = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def begun(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        made = x509.CertificateBuilder().subject_name(named(subject)).issuer_name(named("fedrec authority"))
        made = made.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return made.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
            now + datetime.timedelta(days=days)
        )

    authority = (
        begun("fedrec authority", root)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
        )
        .sign(root, hashes.SHA384())
    )
    addresses = [_address(name) for name in dict.fromkeys([*names, "localhost", "127.0.0.1"])]
    certificate = (
        begun("fedrec server", leaf)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key()), critical=False)
        .sign(root, hashes.SHA384())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / CA).write_bytes(authority.public_bytes(pem))
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(pem))
    write_private(folder / KEY, leaf.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


def _address(name: str) -> object:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def check_certificate(path: Path) -> None:
    """Refuses one that has run out, or cannot be read, before anything is started."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FedrecError(f"{path} is no certificate that can be read: {error}") from None
    if found.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        raise FedrecError(
            f"{path} ran out on {found.not_valid_after_utc:%Y-%m-%d}: make new ones with fedrec deploy init"
        )


def make_node_key(folder: Path) -> Path:
    """A node's key, P-384 in OpenSSH's form; what the server is told is the public half."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP384R1())
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, plain)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_private(folder / NODE_KEY, private)
    (folder / f"{NODE_KEY}.pub").write_bytes(public + b"\n")
    return folder / NODE_KEY


def node_keys(path: Path) -> tuple[object, object]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        if path.stat().st_mode & 0o077:
            raise FedrecError(f"others may read {path}, which is private: chmod 600 {path}")
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise FedrecError(f"{path} is no node's key that can be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise FedrecError(f"{path} is no key of an elliptic curve: make one with fedrec deploy add-device")
    return key, key.public_key()
