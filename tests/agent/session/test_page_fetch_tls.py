"""``fetch_page`` over TLS: a certificate that is trusted, and one that is not."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kakite.agent.session.page_fetch import PageError, PageFetcher
from tests.bounds import WITHIN

pytestmark = pytest.mark.anyio

BODY = b"<h1>Hi</h1>" * 50_000


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate of ``localhost`` that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    private.write_bytes(key.private_bytes(*form))
    return public, private


@asynccontextmanager
async def serving(certificate: Path, key: Path) -> AsyncGenerator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(BODY)}\r\n\r\n"
        writer.write(head.encode() + BODY)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_page_comes_encrypted_if_its_certificate_is_trusted_and_else_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path)
    async with asyncio.timeout(WITHIN), serving(certificate, key) as port:
        fetcher = PageFetcher("registries", [f"localhost:{port}"], {})
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        page = await fetcher.fetch(f"https://localhost:{port}/")
        assert (page.kind, page.data) == ("text/html", BODY)
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(PageError) as refused:
            await fetcher.fetch(f"https://localhost:{port}/")
        assert refused.value.code == "host_unreachable"
