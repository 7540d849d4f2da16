"""Certificates for servers, self-signed or signed by a private authority."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(
    folder: Path,
    host: str = "localhost",
    begins: float = -1,
    ends: float = 1,
    *,
    issuer: Path | None = None,
    is_authority: bool = False,
) -> Path:
    """Make a certificate for the host and 127.0.0.2, with its key in the same file.

    It is valid for these days from now. The issuer's file has an authority and its key.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    names = [x509.DNSName(host), x509.IPAddress(ip_address("127.0.0.2"))]
    signer, by = key, name
    if issuer is not None:
        loaded = serialization.load_pem_private_key(issuer.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer, by = loaded, x509.load_pem_x509_certificate(issuer.read_bytes()).subject
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=begins))
        .not_valid_after(now + timedelta(days=ends))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .sign(signer, hashes.SHA256())
    )
    file = folder / f"{host}.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return file


def tls(file: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
