"""The proxy on the host: what it lets through, what it refuses and how soon, and that nothing hangs on it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.lanes import examples

from kakite.sandbox.egress.host_questions import MAX_QUESTIONS
from kakite.sandbox.egress.policy import IPAddress
from kakite.sandbox.egress.proxy import MAX_CONNECTIONS, EgressProxy
from kakite.sandbox.egress.tunnel import ProxyTimeouts, parse_server_name, read_client_hello

pytestmark = pytest.mark.anyio

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HOME = ip_address("127.0.0.1")
SECRET = "kkt-proxy-secret"


class World:
    """A proxy with servers behind it, all on loopback."""

    def __init__(self, proxy: EgressProxy, port: int) -> None:
        self.proxy = proxy
        self.port = port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: str | bytes) -> bytes:
        """Say something to the proxy, and return all that it answers until it closes."""
        reader, writer = await self.connect()
        writer.write(request if isinstance(request, bytes) else request.replace("\n", "\r\n").encode())
        async with asyncio.timeout(WITHIN):
            answer = await reader.read(-1)
        writer.close()
        return answer


async def to_home(host: str, port: int) -> Sequence[IPAddress]:
    """Every name is at home here."""
    return [HOME]


def resolving(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[IPAddress]]]:
    async def resolve(host: str, port: int) -> Sequence[IPAddress]:
        return [ip_address(address) for address in addresses]

    return resolve


@asynccontextmanager
async def server(talk: Conversation) -> AsyncGenerator[int]:
    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@asynccontextmanager
async def world(*hosts: str, network: str = "registries", **how: object) -> AsyncGenerator[World]:
    proxy = EgressProxy(hosts, **({"environ": {}, "resolve": to_home} | how))  # pyright: ignore[reportArgumentType]
    async with server(proxy) as port:
        with proxy.open_network(network):  # pyright: ignore[reportArgumentType]
            yield World(proxy, port)
        proxy.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"<end>")
    writer.close()


def answering(answer: bytes, heard: list[bytes] | None = None) -> Conversation:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        writer.write(answer)
        writer.close()

    return talk


HELLO = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# Tunnels


async def test_a_tunnel_carries_bytes_both_ways_also_when_one_side_has_said_all() -> None:
    async with server(echo) as port, world(f"mirror.test:{port}") as here:
        reader, writer = await here.connect()
        writer.write(f"CONNECT mirror.test:{port} HTTP/1.1\r\nHost: x\r\n\r\nearly".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        body = bytes(range(256)) * 8192

        async def say() -> None:
            writer.write(body)
            writer.write_eof()
            await writer.drain()

        _, heard = await asyncio.wait_for(asyncio.gather(say(), reader.read(-1)), WITHIN)
        assert heard == b"early" + body + b"<end>"
        writer.close()


async def test_a_tunnel_ends_when_the_host_breaks_off() -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with server(slam) as port, world(f"mirror.test:{port}") as here:
        answer = await here.ask(f"CONNECT mirror.test:{port} HTTP/1.1\nHost: x\n\nx")
        assert status(answer) == 200


async def test_connections_end_with_the_last_program_whose_network_allowed_them() -> None:
    async with server(echo) as port, world(f"mirror.test:{port}", network="off") as here:
        with here.proxy.open_network("registries"):
            reader, writer = await here.connect()
            writer.write(f"CONNECT mirror.test:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            with here.proxy.open_network("open"):
                pass
            writer.write(b"a")
            assert await asyncio.wait_for(reader.readexactly(1), WITHIN) == b"a"
        assert await asyncio.wait_for(reader.read(1), WITHIN) == b""
        writer.close()


async def test_without_a_program_that_has_a_network_all_is_refused() -> None:
    async with server(HELLO) as port, world(f"mirror.test:{port}", network="off") as here:
        answer = await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.1\nHost: x\n\n")
        assert status(answer) == 403


# Asking the person


class Person:
    """Answers about hosts, once they are told to."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.ready = asyncio.Event()
        self.was_asked = asyncio.Event()
        self.was_withdrawn = asyncio.Event()

    async def ask(self, host: str) -> bool | None:
        self.asked.append(host)
        self.was_asked.set()
        try:
            await self.ready.wait()
        except asyncio.CancelledError:
            self.was_withdrawn.set()
            raise
        return self.answers.pop(0)


async def test_one_question_serves_all_who_wait_for_a_host_and_all_who_come_later() -> None:
    person = Person(True)
    async with world(ask_host=person.ask) as here:
        request = "CONNECT inner.test:443 HTTP/1.1\nHost: x\n\n"
        several = [asyncio.create_task(here.ask(request)) for _ in range(3)]
        async with asyncio.timeout(WITHIN):
            await person.was_asked.wait()
        person.ready.set()
        answers = await asyncio.gather(*several, here.ask(request))
        # Every name leads to loopback here: that the address is the reason shows that the name is allowed.
        assert all(b"inner.test is at an address of the machine itself" in answer for answer in answers)
    assert person.asked == ["inner.test:443"]


async def test_a_yes_leads_to_no_address_that_is_not_public_and_a_no_is_told() -> None:
    person = Person(True, False, None)
    person.ready.set()
    async with server(echo) as port, world(ask_host=person.ask) as here:
        inner = await here.ask(f"CONNECT inner.test:{port} HTTP/1.1\nHost: x\n\n")
        assert b"403 Forbidden (kakite: inner.test is at an address of the machine itself" in inner
        for _ in range(2):
            no = await here.ask("GET http://other.test/ HTTP/1.1\nHost: x\n\n")
            assert b"403 Forbidden (kakite: the person said no to other.test:80)" in no
        silent = await here.ask("CONNECT third.test:443 HTTP/1.1\nHost: x\n\n")
        assert b"403 Forbidden (kakite: third.test is not a package registry" in silent
        literal = await here.ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\nHost: x\n\n")
        assert b"403 Forbidden (kakite: port" in literal
        metadata = await here.ask("CONNECT metadata.google.internal:80 HTTP/1.1\nHost: x\n\n")
        assert status(metadata) == 403
    assert person.asked == [f"inner.test:{port}", "other.test:80", "third.test:443"]


async def test_no_program_floods_the_person_and_whoever_cannot_be_asked_refuses() -> None:
    person = Person(*[False] * 30)
    person.ready.set()
    async with world(ask_host=person.ask) as here:
        answers = [
            await here.ask(f"GET http://h{number}.test/ HTTP/1.1\nHost: x\n\n") for number in range(24)
        ]
    assert len(person.asked) == MAX_QUESTIONS
    assert all(status(answer) == 403 for answer in answers)

    async def fail(host: str) -> bool | None:
        raise RuntimeError("the test's own")

    async with world(ask_host=fail) as here:
        assert b"is not a package registry" in await here.ask("GET http://a.test/ HTTP/1.1\nHost: x\n\n")


@pytest.mark.parametrize("how", ["network", "much"])
async def test_a_question_ends_with_the_network_and_for_a_program_that_says_too_much(how: str) -> None:
    person = Person()
    async with world(network="off", ask_host=person.ask) as here:
        with here.proxy.open_network("registries"):
            _, writer = await here.connect()
            writer.write(b"CONNECT slow.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(WITHIN):
                await person.was_asked.wait()
                if how == "much":
                    writer.write(b"x" * 200_000)
                    await person.was_withdrawn.wait()
        async with asyncio.timeout(WITHIN):
            await person.was_withdrawn.wait()
        writer.close()


async def test_a_question_is_withdrawn_when_no_program_waits_for_its_answer() -> None:
    person = Person()
    async with world(ask_host=person.ask) as here:
        reader, writer = await here.connect()
        writer.write(b"CONNECT slow.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(WITHIN):
            await person.was_asked.wait()
            writer.close()
            await person.was_withdrawn.wait()
        del reader
    assert person.asked == ["slow.test:443"]


async def test_a_closed_proxy_ends_and_refuses_connections() -> None:
    async with server(HELLO) as port, world(f"mirror.test:{port}") as here:
        reader, writer = await here.connect()
        writer.write(f"GET http://mirror.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await reader.readuntil(b"hello")
        here.proxy.close()
        assert await asyncio.wait_for(reader.read(1), WITHIN) == b""
        writer.close()
        assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")) == 403


# Whom a tunnel greets


async def client_hello(name: str | None) -> bytes:
    """What a real TLS client says first to a host of this name."""
    said = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    tls = context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return said.read()


def fed(*pieces: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    return reader


async def test_the_name_in_a_greeting_is_found_however_it_is_cut() -> None:
    hello = await client_hello("Index.Example.org")
    body = hello[5:]
    records = b"".join(
        b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in (body[:7], body[7:100], body[100:])
    )
    for said in (hello, records):
        for cut in (0, 1, 5, 60, len(said)):
            seen, name = await read_client_hello(fed(said[cut:]), said[:cut])
            assert (seen, name) == (said, "index.example.org")


async def test_what_is_no_greeting_has_no_name() -> None:
    hello = await client_hello("a.example")
    assert await read_client_hello(fed(b"GET / HTTP/1.1\r\n"), b"") == (b"GET / HTTP/1.1\r\n", None)
    assert await read_client_hello(fed(), b"\x16\x03") == (b"\x16\x03", None)
    assert await read_client_hello(fed(b"\0" * 40_000), b"\x16\x03\x01\xff\xff") == (
        b"\x16\x03\x01\xff\xff" + b"\0" * 40_000,
        None,
    )
    assert (await read_client_hello(fed(await client_hello(None)), b""))[1] == ""
    for cut in range(len(hello) - 5):  # never raises
        parse_server_name(hello[5 : 5 + cut])


@pytest.mark.parametrize(
    ("network", "name", "passes"),
    [
        ("registries", "pypi.org", True),
        ("registries", "evil.example", False),
        ("registries", None, False),
        ("open", "evil.example", True),
    ],
)
async def test_a_registrys_tunnel_is_for_that_registry_alone(
    network: str, name: str | None, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.close()

    async with server(listen) as port, server(through_to(port)) as upstream:
        environ = {"https_proxy": f"http://127.0.0.1:{upstream}"}
        async with world(network=network, environ=environ, resolve=resolving("8.8.8.8")) as here:
            reader, writer = await here.connect()
            writer.write(b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
            hello = await client_hello(name)
            writer.write(hello)
            rest = await asyncio.wait_for(reader.read(-1), WITHIN)
            writer.close()
        assert (heard == [hello]) is passes
        assert (rest == b"") is passes  # else an alert that a TLS client understands


# Plain HTTP


async def test_plain_http_goes_through_and_the_address_not_the_host_header_says_where() -> None:
    heard: list[bytes] = []
    hello = answering(
        b"HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nX-A: 1\r\nConnection: x-b\r\nX-B: 2\r\n\r\nhello", heard
    )
    async with server(hello) as port, world(f"mirror.test:{port}") as here:
        answer = await here.ask(
            f"GET http://mirror.test:{port}/a?b=1#c HTTP/1.1\nHost: metadata.google.internal\n"
            "Proxy-Authorization: Basic abc\nConnection: close, x-hop\nX-Hop: 1\nX-End: 2\n\n"
        )
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (body, head.split(b"\r\n")[0]) == (b"hello", b"HTTP/1.1 200 Fine")
    assert b"X-A: 1" in head
    assert b"X-B" not in head
    lines = heard[0].decode().split("\r\n")
    assert lines[0] == "GET /a?b=1 HTTP/1.1"
    assert f"Host: mirror.test:{port}" in lines
    assert "X-End: 2" in lines
    assert not [line for line in lines if line.lower().startswith(("proxy-", "x-hop")) or "google" in line]


async def test_one_connection_serves_several_requests() -> None:
    async with server(HELLO) as port, world(f"mirror.test:{port}") as here:
        request = f"GET http://mirror.test:{port}/ HTTP/1.1\nHost: x\n\n"
        answer = await here.ask(request * 2 + request.replace("\n\n", "\nConnection: close\n\n"))
        assert answer.count(b"200 OK") == answer.count(b"hello") == 3


async def test_bodies_of_any_kind_go_through_both_ways() -> None:
    async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"expect: 100-continue" in head.lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert b"content-length" not in head.lower()
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n")
        while True:
            line = await reader.readuntil(b"\r\n")
            data = await reader.readexactly(int(line, 16) + 2)
            writer.write(line + data)
            await writer.drain()
            if line == b"0\r\n":
                break
        writer.close()

    body = b"x" * 3_000_000
    async with server(mirror) as port, world(f"mirror.test:{port}") as here:
        reader, writer = await here.connect()
        head = f"POST http://mirror.test:{port}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        # Both lengths at once are how requests are smuggled past proxies.
        writer.write(f"{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        answer = (
            await asyncio.wait_for(reader.readuntil(b"\r\n0\r\n\r\n"), WITHIN) if len(body) < 60000 else b""
        )
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            answer += await asyncio.wait_for(reader.read(65536), WITHIN)
        writer.close()
    assert answer.count(b"x") >= len(body)
    assert b"Content-Length" not in answer[:300]


async def test_a_host_may_answer_before_it_heard_all() -> None:
    refusal = answering(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
    async with (
        server(refusal) as port,
        world(f"mirror.test:{port}", patience=ProxyTimeouts(linger=0.2)) as here,
    ):
        head = f"POST http://mirror.test:{port}/ HTTP/1.1\nHost: x\nContent-Length: 1000000\n\n"
        answer = await here.ask(head + "x" * 100)
        assert answer.endswith(b"no")


async def test_an_answer_without_a_length_ends_with_its_connection_also_for_an_old_program() -> None:
    endless = answering(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100_000)
    async with server(endless) as port, world(f"mirror.test:{port}") as here:
        answer = await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")
        assert answer.partition(b"\r\n\r\n")[2] == b"x" * 100_000


async def test_half_an_answer_is_not_taken_for_all_of_it() -> None:
    cut = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    async with server(cut) as port, world(f"mirror.test:{port}") as here:
        answer = await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")
        assert b"Content-Length: 100" in answer
        assert answer.endswith(b"\r\n\r\nhalf")
    cut = answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf")
    async with server(cut) as port, world(f"mirror.test:{port}") as here:
        answer = await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.1\nHost: x\n\n")
        assert b"half" in answer
        assert not answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "request_",
    [
        "hello\n\n",
        "GET / HTTP/1.1\nHost: x\n\n",
        "GET https://pypi.org/ HTTP/1.1\nHost: x\n\n",
        "GET http://a:b@pypi.org/ HTTP/1.1\nHost: x\n\n",
        "GET http:// HTTP/1.1\nHost: x\n\n",
        "GET http://pypi.org/ HTTP/1.1\n\n",
        "GET http://127.1/ HTTP/1.1\nHost: x\n\n",
        "CONNECT pypi.org HTTP/1.1\nHost: x\n\n",
        "CONNECT 2130706433:80 HTTP/1.1\nHost: x\n\n",
        "CONNECT 0x7f000001:80 HTTP/1.1\nHost: x\n\n",
        "CONNECT pypi.org:443:443 HTTP/1.1\nHost: x\n\n",
        "CONNECT pypi.org:0 HTTP/1.1\nHost: x\n\n",
        "POST http://pypi.org/ HTTP/1.1\nHost: x\nContent-Length: -1\n\n",
        "GET http://pypi.org/ HTTP/1.1\nHost: x\nX-Long: " + "x" * 300_000 + "\n\n",
    ],
)
async def test_what_is_no_good_request_is_refused_as_such(request_: str) -> None:
    async with world() as here:
        assert status(await here.ask(request_)) in {400, 431}


async def test_any_bytes_are_answered_or_closed_and_the_next_connection_is_served() -> None:
    async with server(HELLO) as port, world(f"mirror.test:{port}", patience=ProxyTimeouts(head=0.05)) as here:
        for junk in (
            b"\0" * 10,
            b"\xff" * 70_000,
            b"\r\n" * 50_000,
            b"CONNECT ",
            b"GET http://x/ HTTP/9.9\r\n\r\n",
        ):
            answer = await here.ask(junk)
            assert not answer or status(answer) >= 400
        assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")) == 200


HERE = b"mirror.test:{port}"
ONCE = st.tuples(
    st.sampled_from(
        [b"GET http://" + HERE + b"/", b"POST http://" + HERE + b"/?a", b"CONNECT " + HERE, b"HEAD /"]
    ),
    st.sampled_from([b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b" HTTP/2\r\n"]),
    st.lists(
        st.sampled_from(
            [
                *(b"Host: x\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n"),
                *(b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: websocket\r\n"),
            ]
        ),
        max_size=4,
    ).map(b"".join),
    st.sampled_from([b"\r\n", b"\n", b""]),
    st.sampled_from([b"", b"5\r\nhello\r\n", b"0\r\n\r\n", b"hello", b"\x16\x03\x01", b"x\r\n"]),
).map(b"".join)


@given(st.lists(st.one_of(ONCE, ONCE, st.binary(max_size=20)), max_size=3))
@settings(max_examples=examples(80), deadline=None)
def test_whatever_is_said_the_proxy_answers_or_closes_in_time_and_no_error_escapes(said: list[bytes]) -> None:
    async def go() -> None:
        escaped: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
        patience = ProxyTimeouts(head=0.02, idle=0.05, half=0.02, linger=0.02)
        async with server(echo) as port, world(f"mirror.test:{port}", patience=patience) as here:
            with contextlib.suppress(ConnectionError):
                await here.ask(b"".join(said).replace(b"{port}", str(port).encode()))
        assert not escaped

    asyncio.run(asyncio.wait_for(go(), WITHIN))


# Refusals


async def test_a_refusal_names_the_host_and_the_setting_in_the_reason_and_in_the_body() -> None:
    async with world() as here:
        for request in (
            "CONNECT evil.example:443 HTTP/1.1\nHost: x\n\n",
            "GET http://evil.example/ HTTP/1.1\nHost: x\n\n",
        ):
            answer = await here.ask(request)
            head, _, body = answer.decode().partition("\r\n\r\n")
            assert status(answer) == 403
            for text in (head.split("\r\n")[0], body):
                assert "evil.example" in text
                assert "setting hosts" in text
        assert status(await here.ask("HEAD http://evil.example/ HTTP/1.1\nHost: x\n\n")) == 403


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "224.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1"),
        *("::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:1::1"),
        *("::7f00:1", "2606:4700::5efe:7f00:1"),
    ],
)
async def test_no_name_leads_to_an_address_that_is_not_public(address: str) -> None:
    async with world(network="open", resolve=resolving(address)) as here:
        assert status(await here.ask("CONNECT public.example:443 HTTP/1.1\nHost: x\n\n")) == 403
        literal = f"[{address}]" if ":" in address else address
        assert status(await here.ask(f"CONNECT {literal}:443 HTTP/1.1\nHost: x\n\n")) == 403


async def test_a_name_is_resolved_once_and_what_was_judged_is_connected_to() -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[IPAddress]:
        asked.append(host)
        return [HOME] if len(asked) == 1 else [ip_address("169.254.169.254")]

    async with server(HELLO) as port, world(f"mirror.test:{port}", resolve=rebinding) as here:
        answer = await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")
    assert (status(answer), asked) == (200, ["mirror.test"])


async def test_of_several_addresses_those_that_are_private_are_left_out() -> None:
    resolve = resolving("169.254.169.254", "127.0.0.1")
    async with server(HELLO) as port, world(f"mirror.test:{port}", resolve=resolve) as here:
        assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")) == 200


async def test_the_machines_own_services_are_not_public_at_any_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An address counts as public here that is the machine's own: as with a server that has one.
    import kakite.sandbox.egress.policy as judged

    monkeypatch.setattr(judged, "_NOT_PUBLIC", ())
    monkeypatch.setattr(judged, "WEB_PORTS", range(65536))
    reached: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.read(1))
        writer.close()

    async with server(listen) as port, world(network="open") as here:
        answer = await here.ask(f"GET http://own.example:{port}/ HTTP/1.0\n\n")
    assert (status(answer), b"".join(reached)) == (403, b"")


async def test_who_does_not_answer_is_told_with_the_reason() -> None:
    async def nowhere(host: str, port: int) -> Sequence[IPAddress]:
        raise OSError

    async def never(host: str, port: int) -> Sequence[IPAddress]:
        await asyncio.Event().wait()
        return []

    async with server(HELLO) as port:
        pass
    async with world(f"mirror.test:{port}") as here:
        answer = await here.ask(f"CONNECT mirror.test:{port} HTTP/1.1\nHost: x\n\n")
        assert (status(answer), b"refused" in answer) == (502, True)
    async with world(resolve=nowhere) as here:
        assert status(await here.ask("CONNECT pypi.org:443 HTTP/1.1\nHost: x\n\n")) == 502
    async with world(resolve=never, patience=ProxyTimeouts(connect=0.05)) as here:
        assert status(await here.ask("CONNECT pypi.org:443 HTTP/1.1\nHost: x\n\n")) == 504
    async with server(answering(b"no http\r\n\r\n")) as port, world(f"mirror.test:{port}") as here:
        assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")) == 502


# Limits


async def test_a_head_that_drips_and_a_host_that_is_silent_are_not_waited_for_for_ever() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    patience = ProxyTimeouts(head=0.3, idle=0.2, linger=0.2)
    async with server(silent) as port, world(f"mirror.test:{port}", patience=patience) as here:
        assert await here.ask("GET http://mirror.test") == b""
        assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.1\nHost: x\n\n")) == 504
        answer = await here.ask(f"CONNECT mirror.test:{port} HTTP/1.1\nHost: x\n\nhello")
        assert answer.endswith(b"Connected\r\n\r\n")


async def test_a_head_that_comes_byte_by_byte_has_no_more_time_than_one_that_does_not_come() -> None:
    async with world(patience=ProxyTimeouts(head=0.3)) as here:
        reader, writer = await here.connect()
        async with asyncio.timeout(WITHIN):
            while True:
                writer.write(b"a")
                with contextlib.suppress(TimeoutError, ConnectionError):
                    assert await asyncio.wait_for(reader.read(1), 0.02) == b""
                    break
        writer.close()


async def test_more_connections_than_are_allowed_are_refused_at_once_and_the_others_go_on() -> None:
    async with server(HELLO) as port, world(f"mirror.test:{port}") as here:
        idle = [await here.connect() for _ in range(MAX_CONNECTIONS)]
        request = f"GET http://mirror.test:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        for reader, writer in idle:
            writer.write(request)
            assert (await asyncio.wait_for(reader.readuntil(b"hello"), WITHIN)).startswith(b"HTTP/1.1 200")
        assert status(await here.ask(request)) == 503
        reader, writer = idle[0]
        writer.write(request)
        assert (await asyncio.wait_for(reader.readuntil(b"hello"), WITHIN)).startswith(b"HTTP/1.1 200")
        for _, each in idle:
            each.close()


# A proxy of the machine's own


def through_to(port: int, heard: list[bytes] | None = None) -> Conversation:
    """Be a company's proxy that lets everybody through to one server, or nobody if there is none."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        if not port:
            writer.write(b"HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic\r\n\r\n")
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            far_writer.write(head)

        async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(carry(reader, far_writer), carry(far_reader, writer))

    return talk


async def test_the_machines_own_proxy_is_used_with_credentials_that_nobody_sees() -> None:
    asked: list[bytes] = []
    seen: list[bytes] = []
    hello = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", seen)
    async with server(hello) as port, server(through_to(port, asked)) as upstream:
        proxy = f"http://person:{SECRET}@127.0.0.1:{upstream}"
        environ = {"HTTPS_PROXY": proxy, "http_proxy": proxy}
        async with world("mirror.test:81", environ=environ) as here:
            tunnel = await here.ask("CONNECT mirror.test:81 HTTP/1.1\nHost: x\n\nGET / HTTP/1.1\n\n")
            plain = await here.ask("GET http://mirror.test:81/x HTTP/1.0\n\n")
    assert tunnel.endswith(b"hello")
    assert plain.endswith(b"hello")
    assert all(b"Proxy-Authorization: Basic cGVyc29uOmtrdC1wcm94eS1zZWNyZXQ=" in head for head in asked)
    assert asked[1].startswith(b"GET http://mirror.test:81/x HTTP/1.1\r\n")
    assert b"Authorization" not in seen[0]


async def test_no_failure_of_the_machines_own_proxy_shows_it() -> None:
    async with server(through_to(0)) as upstream:
        environ = {"HTTPS_PROXY": f"http://person:{SECRET}@127.0.0.1:{upstream}"}
        async with world(environ=environ, resolve=resolving("8.8.8.8")) as here:
            answer = await here.ask("CONNECT pypi.org:443 HTTP/1.1\nHost: x\n\n")
        assert (status(answer), b"407" in answer) == (502, True)
        assert SECRET.encode() not in answer
        assert str(upstream).encode() not in answer
    for address in (
        f"http://person:{SECRET}@127.0.0.1:1",
        f"socks5://person:{SECRET}@127.0.0.1",
        "http://[",
        "http://a:b:c",
    ):
        async with world(environ={"HTTPS_PROXY": address}, resolve=resolving("8.8.8.8")) as here:
            answer = await here.ask("CONNECT pypi.org:443 HTTP/1.1\nHost: x\n\n")
        assert status(answer) == 502
        assert SECRET.encode() not in answer


@pytest.mark.parametrize(
    "exempt", ["*", ".test", "test", "mirror.test", "mirror.test:{port}", "other, mirror.test"]
)
async def test_hosts_that_the_machine_reaches_without_its_proxy_are_reached_without(exempt: str) -> None:
    async with server(HELLO) as port:
        environ = {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": exempt.format(port=port)}
        async with world(f"mirror.test:{port}", environ=environ) as here:
            assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")) == 200
        environ["NO_PROXY"] = "mirror.test.example, irror.test, mirror.test:1, 127.0.0.0/8"
        async with world(f"mirror.test:{port}", environ=environ) as here:
            assert status(await here.ask(f"GET http://mirror.test:{port}/ HTTP/1.0\n\n")) == 502


async def test_behind_the_machines_own_proxy_names_that_are_private_here_are_still_refused() -> None:
    asked: list[bytes] = []
    async with server(through_to(0, asked)) as upstream:
        environ = {"HTTPS_PROXY": f"http://127.0.0.1:{upstream}"}
        async with world(network="open", environ=environ, resolve=resolving("10.0.0.1")) as here:
            assert status(await here.ask("CONNECT inner.example:443 HTTP/1.1\nHost: x\n\n")) == 403
    assert not asked
