"""Certificates for tests: an authority of our own, and what it has issued."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


class Issued(NamedTuple):
    """Files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """`file` is what a client has to trust."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named("stable authority")
        made = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file = folder / "ca.pem"
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def issue(self, host: str) -> Issued:
        """For a host name or an address."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(_named(host), self._name, key).add_extension(_alternative(host), critical=False)
        files = Issued(self._folder / f"{host}.pem", self._folder / f"{host}.key")
        files.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        files.key.write_bytes(private_bytes(key))
        return files


def private_bytes(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    return made.not_valid_before(now - day).not_valid_after(now + day)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.SubjectAlternativeName:
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])
