"""Secrets that programs use and do not see, and rules for requests: laws, the proxy, and real programs."""

from __future__ import annotations

import asyncio
import base64
import posixpath
import ssl
import sys
import unicodedata
import zipfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.sandbox.networked import PATH, put_npm, to_home

from kakite.errors import UsageError
from kakite.sandbox import Sandbox, SandboxError, SandboxSpec, open_sandbox
from kakite.sandbox.egress.credentials import Inspection, Mask, build_inspection, parse_request_rule
from kakite.sandbox.egress.policy import Target
from kakite.sandbox.egress.proxy import SERVICE, EgressProxy
from kakite.sandbox.egress.tls import CertificateAuthority, TlsStream

pytestmark = pytest.mark.anyio

SECRET = "kkt_8Qd3vLz0pXw7Rb2N"
HOST = "api.test"
SECRETS = st.text(st.sampled_from("abcdefXYZ0123456789-_."), min_size=8, max_size=24)


def inspecting(secret: str = SECRET, *requests: str, hosts: tuple[str, ...] = (HOST,)) -> Inspection:
    return build_inspection({"TOKEN": hosts}, requests, {"TOKEN": secret})


@contextmanager
def raising(code: str) -> Generator[list[str]]:
    """Let wrong usage pass if it has this code, and note that it came."""
    refused: list[str] = []
    try:
        yield refused
    except UsageError as error:
        refused.append(error.code)
    assert refused in ([], [code])


# Laws


@given(SECRETS, st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.data())
def test_an_answer_is_told_with_sentinels_however_it_is_cut(
    secret: str, between: list[bytes], data: st.DataObject
) -> None:
    inspection = inspecting(secret)
    sentinel = inspection.credentials[0].sentinel
    whole = secret.encode().join(between)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    _, _, mask = inspection.fill_in(Target(host=HOST, port=443), b"/", [])
    told = b"".join(map(mask.hide, pieces)) + mask.finish()
    assert told == whole.replace(secret.encode(), sentinel)
    assert len(told) == len(whole)


@given(st.integers(1, 40), st.booleans())
def test_of_two_secrets_one_of_which_begins_the_other_nothing_is_told(piece: int, first: bool) -> None:
    long, short = "SECRETSECRETPARTpart", "SECRETSECRET"
    names = {"A": (HOST,), "B": (HOST,)}
    environ = {"A": long, "B": short} if first else {"A": short, "B": long}
    _, _, mask = build_inspection(names, [], environ).fill_in(Target(host=HOST, port=443), b"/", [])
    whole = f"x{long}y{short}z{long}{short}".encode()
    told = b"".join(mask.hide(whole[at : at + piece]) for at in range(0, len(whole), piece)) + mask.finish()
    assert len(told) == len(whole)
    assert b"SECRET" not in told
    assert b"PART" not in told


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_an_answer_of_another_host_is_carried_as_it_comes(pieces: list[bytes]) -> None:
    mask = Mask({})
    assert [mask.hide(piece) for piece in pieces] == pieces
    assert not mask.finish()


@given(SECRETS, st.sampled_from(["{}", "Bearer {}", "token {}", "a={}; b={}"]), st.booleans())
def test_a_secret_goes_to_its_host_alone(secret: str, form: str, basic: bool) -> None:
    inspection = inspecting(secret)
    sentinel = inspection.sentinels["TOKEN"]
    assert sentinel != secret
    assert len(sentinel) == len(secret)

    def written(text: str) -> bytes:
        if basic:
            return b"Basic " + base64.b64encode(f"me:{text}".encode())
        return form.replace("{}", text).encode()

    given_headers = [(b"Authorization", written(sentinel))]
    asked = b"/?key=" + sentinel.encode()
    path, filled, mask = inspection.fill_in(Target(host=HOST, port=443), asked, given_headers)
    assert (b"Authorization", written(secret)) in filled
    assert path == f"/?key={quote(secret, safe='')}".encode()
    # Whatever of this comes back is told as the program had said it.
    assert mask.hide_text(written(secret)) == written(sentinel)
    assert quote(secret, safe="").encode() not in mask.hide_text(path)
    for other in (Target(host="evil.test", port=443), Target(host=HOST, port=8443)):
        path, filled, _ = inspection.fill_in(other, asked, given_headers)
        assert (path, filled) == (asked, given_headers)


PARTS = [
    "a",
    "b",
    ".",
    "..",
    "/",
    "%2e",
    "%2F",
    "%5c",
    "\\",
    ";",
    "%25",
    "%",
    "#",
    "%23",
    "?",
    "é",
    "%c0%ae",
    "．",
]


@given(
    st.lists(st.sampled_from([*PARTS, *"abcd/"]), max_size=8).map("".join), st.sampled_from(["GET", "DELETE"])
)
def test_no_path_leads_out_of_what_a_rule_allows_however_a_server_reads_it(text: str, method: str) -> None:
    inspection = Inspection((), (parse_request_rule(f"GET {HOST}/a/*"),))
    path = quote(f"/a/{text}", safe="/%.;\\#?")
    why = inspection.find_refusal(Target(host=HOST, port=443), method.encode(), path.encode())
    if why:
        return
    assert method == "GET"
    assert "#" not in path
    place = path.partition("?")[0]
    for read in (
        place,
        unquote(place),
        unquote(unquote(place)),
        unicodedata.normalize("NFKC", unquote(place)),
    ):
        assert read.startswith("/a/"), read
        assert posixpath.normpath(read) in {"/a", read.removesuffix("/")}, read


@given(st.text(max_size=40))
def test_what_is_no_rule_is_wrong_usage(text: str) -> None:
    with raising("bad_request_rule") as refused:
        rule = parse_request_rule(text)
    if refused:
        return
    assert rule.path.startswith("/")
    assert rule.target.port
    assert all(method.isupper() for method in rule.methods)


# Readable cases


@pytest.mark.parametrize(
    ("rule", "method", "path", "allowed"),
    [
        ("GET api.test/v1/*", "GET", "/v1/items?x=/../y", True),
        ("GET api.test/v1/*", "POST", "/v1/items", False),
        ("GET,POST api.test/v1/*", "POST", "/v1/items", True),
        ("api.test/v1/*", "DELETE", "/v1/items", True),
        ("api.test", "DELETE", "/anything", True),
        ("api.test/v1", "GET", "/v1", True),
        ("api.test/v1", "GET", "/v1/items", False),
        ("GET api.test/v1/*", "GET", "/v1/../admin", False),
        ("GET api.test/v1/*", "GET", "/v1/%2e%2e/admin", False),
        ("GET api.test/v1/*", "GET", "/v1/%252e%252e/admin", False),
        ("GET api.test/v1/*", "GET", "/v1/a%2fb", False),
        ("GET api.test/v1/*", "GET", "/v1/caf%C3%A9", True),
        ("GET api.test/v1/a?[b]", "GET", "/v1/aZb", False),
        ("GET api.test/v1/*", "GET", "/v1/%c0%ae%c0%ae/admin", False),
        ("GET api.test/v1/*", "GET", "/v1/..%00/admin", False),
        ("GET api.test/v1/*", "GET", "/v1/..%20/admin", False),
        ("GET api.test/v1/*", "GET", "/v1/%u002e%u002e/admin", False),
        ("GET api.test/v1/*", "GET", "/v1/%EF%BC%8E%EF%BC%8E/admin", False),
        ("POST api.test/repos/*/issues", "POST", "/repos/x/secrets#/issues", False),
        ("POST api.test/repos/*/issues", "POST", "/repos/x/secrets%23/issues", False),
        ("GET api.test/v1/*", "GET", "/v1/x?_method=DELETE", False),
        ("GET api.test/v1/*", "GET", "/v1//admin", False),
        ("GET api.test/v1/*", "GET", "/v1/a%5c..%5cadmin", False),
    ],
)
def test_a_rule_allows_what_it_says_and_no_more(rule: str, method: str, path: str, *, allowed: bool) -> None:
    inspection = build_inspection({}, [rule], {})
    why = inspection.find_refusal(Target(host=HOST, port=443), method.encode(), path.encode())
    assert (why == "") is allowed, why
    assert inspection.find_refusal(Target(host="other.test", port=443), method.encode(), path.encode()) == ""


@pytest.mark.parametrize(
    ("credentials", "environ", "code"),
    [
        ({"TOKEN": (HOST,)}, {}, "credential_missing"),
        ({"TOKEN": (HOST,)}, {"TOKEN": "short"}, "bad_credential"),
        ({"TOKEN": (HOST,)}, {"TOKEN": "has blanks in it"}, "bad_credential"),
        ({"TOKEN": ()}, {"TOKEN": SECRET}, "bad_credential"),
        ({"TOKEN": ("*.test",)}, {"TOKEN": SECRET}, "bad_credential"),
        ({"TOKEN": ("https://api.test/",)}, {"TOKEN": SECRET}, "bad_credential"),
        ({SECRET + "!": (HOST,)}, {}, "bad_credential"),
        ({"PATH": (HOST,)}, {"PATH": SECRET}, "bad_credential"),
        ({"KAKITE_PASSED_VARIABLES": (HOST,)}, {"KAKITE_PASSED_VARIABLES": SECRET}, "bad_credential"),
    ],
)
def test_what_is_no_credential_is_told_without_the_secret(
    credentials: dict[str, tuple[str, ...]], environ: dict[str, str], code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        build_inspection(credentials, [], environ)
    assert caught.value.code == code
    assert caught.value.hint
    told = f"{caught.value.message} {caught.value.hint}"
    assert SECRET not in told
    assert "short" not in told
    assert "blanks in it" not in told


def test_a_sentinel_begins_as_its_secret_where_that_tells_the_kind_alone() -> None:
    assert inspecting("ghp_0123456789abcdef").sentinels["TOKEN"].startswith("ghp_")
    assert not inspecting("password-x").sentinels["TOKEN"].startswith("password-")
    assert SECRET not in repr(inspecting())


# The proxy


@dataclass
class Service:
    """A server over TLS that wants a secret, and tells what it was asked."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list[bytes])
    answer: Callable[[bytes], bytes] = field(default=bytes)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heard.append(head)
            body = self.answer(head)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Echo: %b\r\nContent-Length: %d\r\n\r\n"
                % (field_of(head), len(body))
            )
            writer.write(body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked went away
        finally:
            writer.close()


def field_of(head: bytes) -> bytes:
    """Return what `Authorization` said."""
    lines = [line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization:")]
    return lines[0].partition(b": ")[2] if lines else b"none"


@asynccontextmanager
async def world(
    *requests: str, host: str = HOST, valid_for: str = "", also: str = ""
) -> AsyncGenerator[tuple[Service, EgressProxy, int]]:
    """A service, and a proxy that has its secret, at a port on loopback."""
    authority = CertificateAuthority()
    service = Service(answer=lambda head: b"<" + field_of(head) + b">")
    context = authority.get_context(valid_for or host)
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    listening = await asyncio.start_server(service.talk, "127.0.0.1", 0, ssl=context)
    async with listening:
        service.port = listening.sockets[0].getsockname()[1]
        rules = [rule.replace("PORT", str(service.port)) for rule in requests]
        inspection = build_inspection({"TOKEN": (f"{host}:{service.port}",)}, rules, {"TOKEN": SECRET})
        hosts = (f"{also}:{service.port}",) if also else ()
        proxy = EgressProxy(hosts, environ={}, resolve=to_home, inspection=inspection, trust=trust)
        serving = await asyncio.start_server(proxy, "127.0.0.1", 0)
        async with serving:
            with proxy.open_network("registries"):
                yield service, proxy, serving.sockets[0].getsockname()[1]
            proxy.close()


async def ask(proxy: EgressProxy, port: int, target: str, *requests: str) -> bytes:
    """Ask one after the other, over TLS through a tunnel, and return all answers."""
    host = target.partition(":")[0]
    assert proxy.authority is not None
    trust = ssl.create_default_context(cadata=proxy.authority.certificate.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    async with asyncio.timeout(WITHIN):
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            return head + await reader.read(-1)
        stream = TlsStream(reader, writer, trust, host=host)
        await stream.handshake()
        answers = b""
        for number, request in enumerate(requests, 1):
            close = "Connection: close\n" if number == len(requests) else ""
            stream.write(f"{request}\nHost: {host}\n{close}\n".replace("\n", "\r\n").encode())
            await stream.drain()
            if not close:
                answers += await stream.read(65536)
        while data := await stream.read(65536):
            answers += data
        writer.close()
    return answers


async def test_the_secret_reaches_its_host_and_never_comes_back() -> None:
    async with world() as (service, proxy, port):
        sentinel = proxy.inspection.sentinels["TOKEN"]
        told = await ask(
            proxy,
            port,
            f"{HOST}:{service.port}",
            f"GET /a?key={sentinel} HTTP/1.1\nAuthorization: Bearer {sentinel}",
        )
        (heard,) = service.heard
        assert f"GET /a?key={SECRET} HTTP/1.1\r\n".encode() in heard
        assert field_of(heard) == f"Bearer {SECRET}".encode()
        assert told.endswith(f"<Bearer {sentinel}>".encode())
        assert f"X-Echo: Bearer {sentinel}\r\n".encode() in told
        assert SECRET.encode() not in told


async def test_a_request_that_no_rule_allows_is_told_why_and_the_next_one_goes() -> None:
    async with world("GET api.test:PORT/v1/*") as (service, proxy, port):
        target = f"{HOST}:{service.port}"
        told = await ask(proxy, port, target, "DELETE /v1/x HTTP/1.1")
        assert told.startswith(b"HTTP/1.1 403 Forbidden (kakite: DELETE /v1/x is not among the requests")
        assert b"the setting requests" in told.partition(b"\r\n\r\n")[2]
        assert not service.heard
        for name in ("X-HTTP-Method-Override", "X_HTTP_METHOD_OVERRIDE", "X-Original-URL", "X-Rewrite_URL"):
            override = f"GET /v1/x HTTP/1.1\n{name}: /admin/DELETE"
            assert (await ask(proxy, port, target, override)).startswith(b"HTTP/1.1 200 ")
        assert len(service.heard) == 4
        assert not any(b"admin" in head for head in service.heard)


async def test_answers_are_asked_for_whole_and_as_they_are() -> None:
    async with world() as (service, proxy, port):
        forms = (
            "Range: bytes=0-5",
            "If-Range: x",
            "Accept-Encoding: gzip",
            "Accept_Encoding: gzip",
            "RANGE: x",
        )
        await ask(proxy, port, f"{HOST}:{service.port}", "\n".join(("GET / HTTP/1.1", *forms)))
        (heard,) = service.heard
        assert b"range" not in heard.lower()
        assert heard.lower().count(b"encoding") == 1
        assert b"Accept-Encoding: identity\r\n" in heard


async def test_no_other_way_leads_to_a_host_that_has_rules() -> None:
    async with world("GET api.test:PORT/v1/*") as (service, proxy, port):
        target = f"{HOST}:{service.port}"
        with proxy.open_network("open"):
            for request in (
                f"GET http://{target}/admin HTTP/1.1",
                f"GET http://{HOST}/admin HTTP/1.1",
                f"CONNECT {HOST}:443 HTTP/1.1",
                f"CONNECT {HOST}:{service.port - 1} HTTP/1.1",
                f"CONNECT {HOST.upper()}.:443 HTTP/1.1",
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(f"{request}\r\nHost: x\r\n\r\n".encode())
                async with asyncio.timeout(WITHIN):
                    assert (await reader.read(-1)).startswith(b"HTTP/1.1 403 "), request
                writer.close()
        assert not service.heard


async def test_one_tunnel_serves_several_requests_and_the_host_is_always_the_tunnels() -> None:
    async with world() as (service, proxy, port):
        target = f"{HOST}:{service.port}"
        told = await ask(proxy, port, target, "GET /1 HTTP/1.1", "GET /2 HTTP/1.1\nHost: evil.test")
        assert told.count(b"HTTP/1.1 ") == 2
        assert [head.split(b" ")[1] for head in service.heard][:1] == [b"/1"]
        assert all(f"Host: {target}\r\n".encode() in head for head in service.heard)


async def test_a_host_with_anothers_certificate_gets_nothing() -> None:
    async with world(valid_for="other.test") as (service, proxy, port):
        sentinel = proxy.inspection.sentinels["TOKEN"]
        request = f"GET / HTTP/1.1\nAuthorization: {sentinel}"
        told = await ask(proxy, port, f"{HOST}:{service.port}", request)
        assert told.startswith(b"HTTP/1.1 502 Bad Gateway (kakite: api.test: its certificate is not valid")
        assert not service.heard


async def test_another_host_gets_the_sentinel_and_its_tls_is_its_own() -> None:
    async with world(also="other.test", valid_for="other.test") as (service, proxy, port):
        sentinel = proxy.inspection.sentinels["TOKEN"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        target = f"other.test:{service.port}"
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(WITHIN):
            await reader.readuntil(b"\r\n\r\n")
            assert proxy.authority is not None
            ours = ssl.create_default_context(cadata=proxy.authority.certificate.decode())
            with pytest.raises(ssl.SSLCertVerificationError):  # it is not we who answer
                await TlsStream(reader, writer, ours, host="other.test").handshake()
        writer.close()
        plain = await asyncio.open_connection("127.0.0.1", port)
        plain[1].write(f"GET http://{HOST}:{service.port}/{sentinel} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(WITHIN):
            await plain[0].read(-1)
        plain[1].close()
        assert not service.heard


# Real programs in a sandbox


@asynccontextmanager
async def sandboxed(folder: Path, *requests: str) -> AsyncGenerator[tuple[Sandbox, Service]]:
    async with world(*requests) as (service, proxy, _):
        path = f"/workspace/home/bin:{Path(sys.executable).parent}:{PATH}"
        environ = {"HOME": str(folder), "PATH": path, "TOKEN": SECRET}
        terms = SandboxSpec(network="registries", services={SERVICE: proxy})
        sandbox = open_sandbox("bubblewrap", folder / "task", environ=environ, terms=terms)
        try:
            await sandbox.prepare()
        except SandboxError as error:
            pytest.skip(f"bubblewrap does not work here: {error}")
        try:
            put_npm(folder / "task/home/bin")
            yield sandbox, service
        finally:
            await sandbox.destroy()


_PYTHON = """
import os
from urllib.request import Request, urlopen
print(urlopen(Request(os.environ["U"], headers={"Authorization": "Bearer " + os.environ["TOKEN"]})).read())
"""
_NODE = "fetch(process.env.U, {headers: {Authorization: 'Bearer ' + process.env.TOKEN}}).then(r => r.text())"
PROGRAMS = {
    "python3": ("python3", "-c", _PYTHON),
    "node": ("node", "-e", f"{_NODE}.then(console.log)"),
    "curl": ("sh", "-c", 'curl -sS -H "Authorization: Bearer $TOKEN" "$U"'),
    "git": ("sh", "-c", 'git -c http.extraHeader="Authorization: Bearer $TOKEN" ls-remote "$U"; true'),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
async def test_programs_use_a_secret_that_is_nowhere_inside(program: str, tmp_path: Path) -> None:
    async with sandboxed(tmp_path) as (sandbox, service):
        there = await sandbox.exec(("sh", "-c", f"command -v {program.split(maxsplit=1)[0]}"), timeout=WITHIN)
        if there.exit_code != 0:
            pytest.skip(f"{program} is not installed here")
        done = await sandbox.exec(
            PROGRAMS[program], env={"U": f"https://{HOST}:{service.port}/x"}, timeout=60
        )
        assert done.exit_code == 0, done.stderr
        assert field_of(service.heard[-1]) == f"Bearer {SECRET}".encode()
        assert SECRET.encode() not in done.stdout + done.stderr
        looked = await sandbox.exec(
            (
                "sh",
                "-c",
                f"cat /proc/*/environ | tr '\\0' '\\n'; grep -rsa {SECRET[:9]} ~ /workspace /tmp; true",
            ),
            timeout=60,
        )
        assert b"TOKEN=kkt_" in looked.stdout
        assert SECRET.encode() not in looked.stdout


@pytest.mark.slow
async def test_pip_installs_from_an_index_that_wants_a_secret(tmp_path: Path) -> None:
    wheel = tmp_path / "inner-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("inner.py", "WORD = 'from inside'\n")
        file.writestr("inner-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: inner\nVersion: 1.0\n")
        file.writestr(
            "inner-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr("inner-1.0.dist-info/RECORD", "")

    def serve(head: bytes) -> bytes:
        if base64.b64encode(f"me:{SECRET}".encode()) not in head:
            return b"no"
        if head.split(b" ")[1].endswith(b".whl"):
            return wheel.read_bytes()
        return b'<!DOCTYPE html><a href="/inner-1.0-py3-none-any.whl">inner-1.0-py3-none-any.whl</a>'

    async with sandboxed(tmp_path) as (sandbox, service):
        service.answer = serve
        index = f"https://me:$TOKEN@{HOST}:{service.port}/simple"
        command = (
            f'pip install --target . --no-deps --index-url "{index}" inner && '
            'python3 -c "import inner; print(inner.WORD)"'
        )
        done = await sandbox.exec(("sh", "-c", command), timeout=120)
        assert done.stdout.endswith(b"from inside\n"), done.stdout + done.stderr
        assert SECRET.encode() not in done.stdout + done.stderr
