"""Ends TLS on the way to a host: certificates for hosts, and TLS over a connection that is open already."""

from __future__ import annotations

import datetime
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kakite.sandbox.egress.policy import parse_address
from kakite.sandbox.egress.tunnel import PIECE

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter, WriteTransport
    from collections.abc import Callable

_DAYS = 30
"""How long certificates count: longer than a sandbox lives."""
_TRUST_STORES = (
    *("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"),
    *("/etc/ssl/cert.pem",),
)


class CertificateAuthority:
    """Issues certificates to the hosts whose TLS the proxy ends. Its key is in this process alone."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Kakite's proxy of one sandbox")])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            **dict.fromkeys(
                ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
            ),
            encipher_only=False,
            decipher_only=False,
        )
        authority = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._start(self._name, self._key.public_key())
        self._certificate = (
            builder.add_extension(authority, critical=True).add_extension(usage, critical=True)
        ).sign(self._key, _sha256())
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def certificate(self) -> bytes:
        """Its own certificate, in PEM, which programs inside trust."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._certificate.public_bytes(Encoding.PEM)

    def get_context(self, host: str) -> ssl.SSLContext:
        """Return what speaks TLS to a program as this host."""
        if host not in self._contexts:
            self._contexts[host] = self._create_context(host)
        return self._contexts[host]

    def _create_context(self, host: str) -> ssl.SSLContext:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        address = parse_address(host)
        names = x509.SubjectAlternativeName([x509.IPAddress(address) if address else x509.DNSName(host)])
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        certificate = (
            self._start(x509.Name([]), key.public_key())
            .add_extension(names, critical=True)
            .add_extension(purpose, critical=False)
            .sign(self._key, _sha256())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        # The standard library takes a key from a file alone. This one is worth nothing outside.
        with tempfile.NamedTemporaryFile() as file:
            file.write(secret + certificate.public_bytes(Encoding.PEM))
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def _start(self, subject: Any, public_key: Any) -> Any:
        from cryptography import x509

        now = datetime.datetime.now(datetime.UTC)
        days = datetime.timedelta(days=_DAYS)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + days)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(identifier, critical=False)
        )


def _sha256() -> Any:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def read_trust_store() -> bytes:
    """Return the certificates that programs on this machine trust, in PEM."""
    own = ssl.get_default_verify_paths().cafile
    for path in (own, *_TRUST_STORES):
        with suppress(OSError):
            if path:
                return Path(path).read_bytes()
    return b""


class TlsStream:
    """TLS over a connection that is open already: what h11's peers want of a reader and of a writer."""

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        context: ssl.SSLContext,
        *,
        host: str | None = None,
        early: bytes = b"",
    ) -> None:
        """Make a stream to ``host``, whose certificate is checked; without one, that of a server.

        ``early`` is what was read already.
        """
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(early)
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )

    @property
    def transport(self) -> WriteTransport:
        """The connection itself."""
        return self._writer.transport

    async def handshake(self) -> None:
        """Agree with the other side.

        Raises:
            OSError: it does not speak TLS; or its certificate is not valid, ``SSLCertVerificationError``.
        """
        await self._run(self._tls.do_handshake)

    async def read(self, size: int) -> bytes:
        """Return what the other side says next; empty once it has said all.

        Raises:
            OSError: it broke off.
        """
        try:
            return await self._run(self._tls.read, size)
        except ssl.SSLZeroReturnError:
            return b""

    def write(self, data: bytes) -> None:
        """Say something."""
        self._tls.write(data)
        self._send()

    async def drain(self) -> None:
        """Wait until the other side takes more."""
        await self._writer.drain()

    def can_write_eof(self) -> bool:
        """Return True: one side can say that it has said all."""
        return True

    def write_eof(self) -> None:
        """Say that this was all."""
        with suppress(ssl.SSLError):  # the other side has not said so yet
            self._tls.unwrap()
        self._send()

    async def _run(self, action: Callable[..., Any], *arguments: object) -> Any:
        while True:
            try:
                return action(*arguments)
            except ssl.SSLWantReadError:
                self._send()
                await self._writer.drain()
            finally:
                self._send()
            if data := await self._reader.read(PIECE):
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _send(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)
