"""A throwaway certificate authority. Keys are P-256: a certificate takes a millisecond."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
SKEW = dt.timedelta(minutes=5)


@dataclass(frozen=True)
class Pair:
    """PEM files of a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates into one directory, which holds ca.crt, sa.key and sa.pub too."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dtj throwaway authority")])
        own = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_CA_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / "ca.crt"
        self.certificate.write_bytes(own.public_bytes(serialization.Encoding.PEM))
        _write_key(directory / "ca.key", self._key)

    def issue(self, file: str, common_name: str, *, organization: str = "", names: tuple[str, ...] = ()) -> Pair:
        """Issue a certificate for server and client use; `names` are DNS names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(x509.Name(attributes), self._name, key.public_key())
            .add_extension(purposes, critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
            )
        pair = Pair(self.directory / f"{file}.crt", self.directory / f"{file}.key")
        pair.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair

    def service_account_keys(self) -> Pair:
        """Create the key that signs ServiceAccount tokens (`key`), and its public half (`certificate`)."""
        key = ec.generate_private_key(ec.SECP256R1())
        pair = Pair(self.directory / "sa.pub", self.directory / "sa.key")
        _write_key(pair.key, key)
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        pair.certificate.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, public))
        return pair


_CA_USAGE = x509.KeyUsage(
    digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
