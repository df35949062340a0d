"""The agent's certificate: made by itself, signed by nobody, recognised by its SHA-256. Floor 5."""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from linkqual.errors import HostError

CERTIFICATE, KEY = "certificate.pem", "key.pem"
LIFETIME = timedelta(days=3653)  # nobody looks at it: the pin is what counts


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    @property
    def pin(self) -> str:
        """SHA-256 of the DER certificate, in hex."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.certificate.decode("ascii"))).hexdigest()

    def context(self) -> ssl.SSLContext:
        """A server's TLS 1.3 context. HostError when certificate and key do not fit each other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # a near end connects once
        with tempfile.TemporaryDirectory() as folder:  # mode 0700; OpenSSL takes files only
            certificate, key = Path(folder, CERTIFICATE), Path(folder, KEY)
            certificate.write_bytes(self.certificate)
            _write_private(key, self.key)
            context.load_cert_chain(certificate, key)
        return context


def make() -> Identity:
    """A new certificate (ECDSA P-256)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "linkqual agent")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + LIFETIME)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def load_or_make(folder: Path) -> Identity:
    """The identity kept in `folder`, made at the first start; the key is readable by its owner only."""
    certificate, key = folder / CERTIFICATE, folder / KEY
    hint = f"give another --directory, delete {folder}, or start with --ephemeral"
    try:
        if certificate.exists() and key.exists():
            identity = Identity(certificate.read_bytes(), key.read_bytes())
            identity.context()
            return identity
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        identity = make()
        _write_private(key, identity.key)
        certificate.write_bytes(identity.certificate)
    except ssl.SSLError:
        raise HostError(f"the certificate in {folder} is damaged or does not fit its key", hint) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a certificate"
        raise HostError(f"the agent's certificate cannot be kept in {folder}: {reason}", hint) from None
    return identity


def _write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
