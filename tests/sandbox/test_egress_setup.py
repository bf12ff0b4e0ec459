"""Which hosts and addresses a network allows, and how programs inside come by it."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.sandbox.networked import files, networked

from kakite.errors import UsageError
from kakite.processes import Network, build_proxy_environment
from kakite.processes.spec import PORT
from kakite.sandbox import SandboxSpec
from kakite.sandbox.egress import registries
from kakite.sandbox.egress.policy import (
    AddressScope,
    AllowedHost,
    DeniedHost,
    Target,
    build_policy,
    classify_address,
    read_target,
)
from kakite.sandbox.egress.proxy import EgressProxy
from kakite.sandbox.egress.setup import add_proxy_service, open_network
from kakite.sandbox.inside import proxy_forward

NETWORKS: tuple[Network, ...] = get_args(Network)
INNER = [IPv4Address("127.0.0.1"), IPv4Address("10.1.2.3"), IPv4Address("169.254.169.254")]


def judge(network: Network, authority: str, *hosts: str) -> AllowedHost | DeniedHost:
    target = read_target(authority, None)
    assert target is not None
    return build_policy(hosts).evaluate(network, target)


# Names


@pytest.mark.parametrize("host", registries.REGISTRY_HOSTS)
def test_every_registry_is_allowed_on_its_ports_and_for_itself_alone(host: str) -> None:
    name = host.replace("*", "any")
    for port in (80, 443):
        allowed = judge("registries", f"{name}:{port}")
        assert allowed == AllowedHost(trust=AddressScope.PUBLIC, only_tls=True)
    for other in (f"{name}:22", f"{name}.evil.example:443", f"evil-{name.removeprefix('any.')}:443"):
        assert isinstance(judge("registries", other), DeniedHost), other


@given(st.integers(0, 65535), st.sampled_from(["a.example", "8.8.8.8", "b.a.example"]))
def test_a_wider_network_never_refuses_what_a_narrower_one_allows(port: int, host: str) -> None:
    rules = build_policy(["a.example", "*.a.example:8080"])
    verdicts = [
        isinstance(rules.evaluate(network, Target(host=host, port=port)), AllowedHost) for network in NETWORKS
    ]
    assert verdicts == sorted(verdicts)
    assert not verdicts[0]


def test_a_named_host_is_allowed_with_what_is_named_and_no_more() -> None:
    assert isinstance(judge("registries", "a.example:443", "a.example"), AllowedHost)
    assert isinstance(judge("registries", "a.example:8080", "a.example"), DeniedHost)
    assert isinstance(judge("registries", "a.example:8080", "A.Example.:8080"), AllowedHost)
    assert isinstance(judge("registries", "a.example:443", "a.example:8080"), DeniedHost)
    assert isinstance(judge("registries", "a.b.example:443", "*.b.example"), AllowedHost)
    assert isinstance(judge("registries", "b.example:443", "*.b.example"), DeniedHost)
    assert isinstance(judge("registries", "xn--bcher-kva.example:443", "bücher.example"), AllowedHost)


def test_how_near_a_named_host_may_be_depends_on_how_it_was_named() -> None:
    assert judge("open", "a.b.example:443", "*.b.example") == AllowedHost(trust=AddressScope.PRIVATE)
    assert judge("open", "a.b.example:443", "a.b.example", "*.b.example") == AllowedHost(
        trust=AddressScope.LOOPBACK
    )
    assert judge("open", "10.0.0.1:443", "10.0.0.1") == AllowedHost(trust=AddressScope.ANY)
    assert judge("open", "[::1]:443", "[::1]:443") == AllowedHost(trust=AddressScope.ANY)


@pytest.mark.parametrize("name", ["metadata.google.internal", "METADATA.google.internal.", "metadata.goog"])
def test_where_clouds_keep_secrets_no_network_leads(name: str) -> None:
    assert isinstance(judge("open", f"{name}:80"), DeniedHost)


@pytest.mark.parametrize(
    "text", ["", "*", "a b", "https://a", "a/", "a@b", "a:x", "*.1.2.3.4", "é\0", "a..b"]
)
def test_a_host_that_is_none_is_wrong_usage(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_policy([text])
    assert caught.value.code == "bad_host"


@given(st.text(max_size=40))
@example("0x7f000001:80")
@example("127.1")
@example("0177.0.0.1")
@example("[::ffff:127.0.0.1%eth0]:80")
@example("1.2.3.4.")
def test_what_is_read_as_a_host_is_read_the_same_again_and_numbers_are_whole_addresses(text: str) -> None:
    target = read_target(text, 443)
    if target is None:
        return
    assert read_target(str(target), None) == target
    assert target.host == target.host.lower()
    assert target.host.isascii()
    last = target.host.split(".")[-1]
    if last.isdigit() or last.startswith("0x") or ":" in target.host:
        assert str(ip_address(target.host)) == target.host


# Addresses


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
@example(INNER[0])
@example(INNER[1])
@example(INNER[2])
def test_an_address_in_another_form_is_no_more_public_than_itself(address: IPv4Address) -> None:
    number = int(address)
    for prefix in (0xFFFF << 32, 0x64FF9B << 96):
        assert classify_address(IPv6Address(prefix | number)) == classify_address(address)
    for carrier in (0x2002 << 112 | number << 80, number, 0x26064700 << 96 | 0x5EFE << 32 | number):
        assert classify_address(IPv6Address(carrier)) > AddressScope.PUBLIC


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_counts_as_public_is_no_special_address(address: IPv4Address | IPv6Address) -> None:
    if classify_address(address) is AddressScope.PUBLIC and address not in IPv6Network("::ffff:0:0/96"):
        assert not (address.is_loopback)
        assert not (address.is_link_local)
        assert not (address.is_unspecified)
        assert not (address.is_multicast)
        assert not (address.is_private)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "2001:4860:4860::8888"])
def test_public_addresses_are_public(address: str) -> None:
    assert classify_address(ip_address(address)) is AddressScope.PUBLIC


# What programs are told


def test_programs_are_told_their_network_and_without_one_no_proxy() -> None:
    for network in NETWORKS:
        told = build_proxy_environment(network)
        assert told["KAKITE_NETWORK"] == network
        assert ("https_proxy" in told) is (network != "off")


def test_the_proxy_is_where_programs_are_told_that_it_is() -> None:
    assert proxy_forward.PORT == PORT


def test_terms_get_a_way_out_once_and_whoever_opens_it_opens_that() -> None:
    terms = add_proxy_service(SandboxSpec(hosts=("a.example",)), {})
    proxy = terms.services["proxy"]
    assert isinstance(proxy, EgressProxy)
    assert add_proxy_service(terms) is terms
    with open_network(terms, "registries"):
        with open_network(terms, "open"):
            assert proxy.network == "open"
        assert proxy.network == "registries"
    assert proxy.network == "off"
    with open_network(SandboxSpec(), "open"):  # nothing to open
        pass


# Inside of bubblewrap


def inside(
    folder: Path, script: str, *, network: Network = "registries", timeout: float = 60
) -> tuple[int | None, str]:
    """Run a shell inside, with a web server that it may reach as `$mirror`."""

    async def go() -> tuple[int | None, str]:
        async with files() as world, networked(folder, f"mirror.test:{world.port}") as sandbox:
            world.pages["/big"] = ("text/plain", b"0123456789abcdef" * 200_000)
            env = {"mirror": f"http://mirror.test:{world.port}"}
            done = await sandbox.exec(("bash", "-c", script), timeout=timeout, network=network, env=env)
            return done.exit_code, (done.stdout + done.stderr).decode()

    return asyncio.run(asyncio.wait_for(go(), timeout + 30))


def fetch(address: str) -> str:
    """A script that fetches an address by Python's own means."""
    code = f"import os, urllib.request as u; print(len(u.urlopen(os.path.expandvars('{address}')).read()))"
    return f'python3 -c "{code}"'.replace("$", "\\$")


def test_a_program_reaches_what_its_network_allows_and_all_of_it_arrives(tmp_path: Path) -> None:
    fetches = " & ".join([fetch("$mirror/big")] * 4)
    code, said = inside(tmp_path, f"{fetches} & wait")
    assert (code, said) == (0, "3200000\n" * 4)


def test_a_program_is_itself_with_its_own_end_and_no_child_that_it_did_not_start(tmp_path: Path) -> None:
    assert inside(tmp_path, "exit 7")[0] == 7
    assert inside(tmp_path, "kill -TERM $$")[0] == 143
    code, said = inside(
        tmp_path, 'python3 -I -c "import os; os.waitpid(-1, 0)" 2>&1 | tail -1; env | grep -c ^LC_'
    )
    assert "ChildProcessError" in said
    assert said.endswith("\n0\n")
    assert code == 1  # grep found none


def test_a_program_that_is_not_there_is_told_as_in_a_shell(tmp_path: Path) -> None:
    async def go() -> tuple[int | None, bytes]:
        async with networked(tmp_path) as sandbox:
            done = await sandbox.exec(("no-such-program", "x"), timeout=WITHIN, network="registries")
            return done.exit_code, done.stderr

    assert asyncio.run(go()) == (127, b"no-such-program: No such file or directory\n")


def test_output_ends_when_the_program_closes_it(tmp_path: Path) -> None:
    # What carries the connections holds none of the program's streams.
    look = "carrier=$(grep -l [f]orward.py /proc/[2-9]*/cmdline); readlink ${carrier%cmdline}fd/[0-2]"
    assert inside(tmp_path, look, timeout=WITHIN) == (0, "/dev/null\n" * 3)


def test_many_connections_that_are_left_open_hinder_nobody(tmp_path: Path) -> None:
    script = f"""
python3 -I - <<'E'
import socket
left = [socket.create_connection(("127.0.0.1", {PORT})) for _ in range(60)]
for each in left[:30]:
    each.close()
left[40].shutdown(socket.SHUT_WR)
assert left[40].recv(1) == b""
import os, urllib.request as u
print(len(u.urlopen(os.environ["mirror"] + "/big").read()))
E
"""
    assert inside(tmp_path, script) == (0, "3200000\n")


TOOLS = {
    "curl": "curl -sS {0}",
    "wget": "wget -nv -O- {0}",
    "git": "git ls-remote {0}/x.git",
    "python": "python3 -c \"import urllib.request as u; u.urlopen('{0}')\"",
    "npm": "npm view x --registry {0}",
    "node": "node -e \"fetch('{0}').catch(e => {{console.error(e); process.exit(1)}})\"",
}


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("network", ["off", "registries"])
def test_a_tool_that_may_not_fails_at_once_with_the_reason(
    tmp_path: Path, tool: str, network: Network
) -> None:
    command = TOOLS[tool].format("https://evil.example")
    there = f"command -v {command.split()[0]} > /dev/null || exit 99"
    code, said = inside(tmp_path, f"TIMEFORMAT=%R; {there}; time {command}", network=network)
    if code == 99:
        pytest.skip(f"{tool} is not installed")
    assert code not in {0, None}
    assert float(said.strip().splitlines()[-1]) < 15  # most of it is the tool's start, on a busy machine
    if network == "off":
        assert any(word in said.lower() for word in ("resol", "eai_again"))
    elif tool in {"curl", "git", "node"}:  # show the status alone
        assert "403" in said
    else:
        assert "evil.example is not a package registry; the setting hosts allows it" in said


def test_a_program_without_a_network_does_not_reach_the_proxys_port(tmp_path: Path) -> None:
    code, said = inside(tmp_path, f"exec 3<>/dev/tcp/127.0.0.1/{PORT}", network="off")
    assert code == 1
    assert "refused" in said


def test_the_hosts_socket_gives_nothing_to_a_program_without_a_network(tmp_path: Path) -> None:
    script = """
python3 -I -c '
import socket
s = socket.socket(socket.AF_UNIX)
s.connect("/run/kakite/proxy")
s.sendall(b"CONNECT pypi.org:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
print(s.recv(100).split()[1])'
"""
    assert inside(tmp_path, script, network="off") == (0, "b'403'\n")


ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect("/run/kakite/proxy")
s.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
print(s.recv(1000).split(b"\\r\\n")[0].decode())
"""


def test_a_program_has_its_own_network_and_not_the_wider_one_of_the_tasks_terms(tmp_path: Path) -> None:
    async def go() -> list[str]:
        async with files() as world, networked(tmp_path, f"mirror.test:{world.port}", network="open") as box:

            async def answer(network: Network, host: str) -> str:
                argv = ("python3", "-I", "-c", ASK, host)
                done = await box.exec(argv, timeout=WITHIN, network=network)
                return done.stdout.decode()

            named = f"mirror.test:{world.port}"
            said = [await answer("off", named), await answer("registries", "evil.example:443")]
            with box.allow_network():  # as long as something runs that was launched
                said.append(await answer("off", named))
            return [*said, await answer("off", named)]

    off, registries, online, after = asyncio.run(asyncio.wait_for(go(), WITHIN))
    assert " 403 " in off
    assert "is not a package registry" in registries
    assert " 200 " in online
    assert " 403 " in after


def test_a_cancelled_program_takes_what_carries_its_connections_along(tmp_path: Path) -> None:
    async def until(there: bool) -> None:
        async with asyncio.timeout(WITHIN):
            while bool(await asyncio.to_thread(carriers, "34567")) is not there:
                pass

    async def go() -> None:
        async with networked(tmp_path) as sandbox:
            running = asyncio.create_task(sandbox.exec(("sleep", "34567"), timeout=60, network="registries"))
            await until(there=True)
            running.cancel()
            await asyncio.wait({running})
            await until(there=False)

    asyncio.run(go())


def carriers(word: str) -> list[str]:
    """The processes on this machine that carry connections for a command with that word."""
    found: list[str] = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if proxy_forward.__file__ in words[:5] and word in words:
            found.append(folder.name)
    return found
