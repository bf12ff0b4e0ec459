"""A secret is shown and written nowhere, wherever it stands; and nothing that runs is hidden."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kakite.host.config.model import HttpServer, OAuthClient, ServerEntry, SourceLocation, StdioServer
from kakite.host.consent.canonical import canonicalize_entry, compute_entry_digest, describe
from kakite.host.consent.store import ConsentOutdated, ConsentStore
from kakite.host.server.connection import (
    ConnectionState,
    collect_secrets,
    describe_fault,
    describe_start_failure,
    format_stderr_tail,
)
from kakite.host.server.stderr_log import StderrLog
from kakite.processes import ManagedProcess
from kakite.redaction import HIDDEN, Redaction, is_secret_name

NAMES = (
    *("MY_TOKEN_1", "exaApiKey", "X-Api-Key", "API_KEY", "OPENAI_KEY", "api-key", "token", "PGPASS"),
    *("DB_PASSWORD", "client_secret", "_authToken", "SECRET_2", "MYSQL_PWD", "access_token", "GITHUB_PAT"),
    *("SENTRY_DSN", "auth"),
)
names = st.sampled_from(NAMES)
# Letters that no text around has, a digit, and what passwords have besides.
secrets = st.from_regex(r"[QXZ]{4}[QXZ0-9_.~+=^%!-]{4,20}[QXZ]{2}", fullmatch=True)

PLACES: dict[str, Callable[[str, str], StdioServer | HttpServer]] = {
    "variable": lambda name, secret: StdioServer(command="srv", env={name: secret}),
    "default of a variable": lambda name, secret: StdioServer(
        command="srv", env={name: f"${{{'X'}:-{secret}}}"}
    ),
    "attached to a flag": lambda name, secret: StdioServer(command="srv", args=(f"--{name}={secret}",)),
    "after a flag": lambda name, secret: StdioServer(command="npx", args=("-y", "pkg", f"--{name}", secret)),
    "container": lambda name, secret: StdioServer(
        command="docker", args=("run", "-e", f"{name}={secret}", "img")
    ),
    "script": lambda name, secret: StdioServer(
        command="sh", args=("-c", f"{name}={secret} exec srv | tee log")
    ),
    "header on a command line": lambda _, secret: StdioServer(
        command="npx", args=("mcp-remote", "https://h", "--header", f"Authorization: Bearer {secret}")
    ),
    "address on a command line": lambda name, secret: StdioServer(
        command="srv", args=(f"https://h/mcp?a=b&{name}={secret}&c=d",)
    ),
    "password on a command line": lambda _, secret: StdioServer(
        command="srv", args=(f"postgres://me:{secret}@h/db",)
    ),
    "address in a variable": lambda _, secret: StdioServer(
        command="srv", env={"DATABASE_URL": f"postgres://me:{secret}@h/db"}
    ),
    "query": lambda name, secret: HttpServer(url=f"https://h/mcp?a=b&{name}={secret}"),
    "password": lambda _, secret: HttpServer(url=f"https://me:{secret}@h/mcp"),
    "header": lambda _, secret: HttpServer(url="https://h", headers={"X-Other": secret}),
    "bearer": lambda _, secret: HttpServer(url="https://h", headers={"Authorization": f"Bearer {secret}"}),
    "header beside a variable": lambda _, secret: HttpServer(
        url="https://h", headers={"Authorization": f"Bearer {secret}${{X}}"}
    ),
    "login": lambda _, secret: HttpServer(url="https://h", oauth=OAuthClient(id="me", secret=secret)),
    "issuer": lambda name, secret: HttpServer(
        url="https://h", oauth=OAuthClient(issuer=f"https://i?{name}={secret}")
    ),
}
TEXTS: dict[str, Callable[[str, str], str]] = {
    "assigned": lambda name, secret: f"run {name}={secret} now",
    "quoted": lambda name, secret: f'run {name}="{secret}" now',
    "header": lambda name, secret: f"> {name}: {secret}\n> Accept: */*",
    "bearer": lambda _, secret: f"Authorization: Bearer {secret}",
    "flag": lambda name, secret: f"started srv --{name} {secret} --verbose",
    "attached": lambda name, secret: f"started srv --{name}={secret} --verbose",
    "list": lambda name, secret: repr(["srv", f"--{name}", secret]),
    "json": lambda name, secret: json.dumps({"a": 1, name: secret}),
    "json in json": lambda name, secret: json.dumps(json.dumps({name: secret, "a": 1})),
    "query": lambda name, secret: f"GET https://h/x?{name}={secret}&a=b 404",
    "login": lambda _, secret: f"cannot reach https://me:{secret}@h/x",
    "cookie": lambda _, secret: f"Cookie: a=b; c={secret}",
}
arounds = st.text(" \nab/{[", max_size=4)
places = st.sampled_from(sorted(PLACES))


def entry(reached: StdioServer | HttpServer) -> ServerEntry:
    return ServerEntry(name="s", origin=SourceLocation(file="f", line=1, scope="project"), reached=reached)


@given(place=places, name=names, secret=secrets, other=secrets)
def test_consent_shows_and_keeps_no_secret_and_that_it_changed(
    tmp_path_factory: pytest.TempPathFactory, place: str, name: str, secret: str, other: str
) -> None:
    before, after = entry(PLACES[place](name, secret)), entry(PLACES[place](name, other))
    folder = tmp_path_factory.mktemp("state")
    consents = ConsentStore(folder)
    consents.accept_entry(before, Path("/p"))
    kept = (folder / "consents.json").read_text(encoding="utf-8")
    assert secret not in kept + describe(before) + json.dumps(canonicalize_entry(before))
    standing = consents.get_entry_state(after, Path("/p"))
    if secret != other:
        assert compute_entry_digest(before) != compute_entry_digest(after)
        assert isinstance(standing, ConsentOutdated)
        assert len(standing.diff.splitlines()) > 2, "the change is seen"
        assert secret not in standing.diff
        assert other not in standing.diff
        assert describe(before) != describe(after)


@given(place=places, name=names, secret=secrets)
def test_what_an_entry_holds_is_hidden_wherever_it_is_said(place: str, name: str, secret: str) -> None:
    reached = PLACES[place](name, secret)
    redaction = Redaction(collect_secrets(entry(reached)))
    values = reached.env if isinstance(reached, StdioServer) else reached.headers
    if "${" not in str(values):  # an entry that is used is expanded
        assert secret not in redaction.redact(f"I was given {secret}!")


@given(place=st.sampled_from(sorted(TEXTS)), name=names, secret=secrets, around=arounds)
def test_a_secret_is_known_by_what_stands_before_it(place: str, name: str, secret: str, around: str) -> None:
    assert secret not in Redaction().redact(around + TEXTS[place](name, secret) + around)


@given(name=names, secret=secrets)
def test_a_secret_argument_of_a_call_is_hidden(name: str, secret: str) -> None:
    for value in ({name: secret}, {"headers": {name: [secret]}}, {"argv": ["srv", f"--{name}", secret]}):
        assert secret not in json.dumps(Redaction().redact_json(value))


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "GIT_AUTHOR_NAME",
        "GIT_ASKPASS",
        "MONKEY",
        "tokenizer",
        "NODE_OPTIONS",
        "keyboard",
        "url",
    ],
)
def test_what_only_sounds_like_a_secret_is_none(name: str) -> None:
    assert not is_secret_name(name)


# Nothing that could be what runs is hidden from the person who consents

HIDING: list[StdioServer] = [
    StdioServer(command="sk-evil-program-0123456789"),
    StdioServer(command="npx", args=("-y", "--token", "EVIL")),
    StdioServer(command="npx", args=("-y", "sk-EVIL-package-0123456789")),
    StdioServer(command="sh", args=("-c", "npx -y sk-EVIL-package-0123456789")),
    StdioServer(command="sh", args=("-c", "TOKEN=x;EVIL")),
    StdioServer(command="sh", args=("-c", "TOKEN=$(EVIL)")),
    StdioServer(command="sh", args=("-c", "curl -H 'Authorization: Bearer x'|EVIL")),
    StdioServer(command="sh", args=("-c", "--token", "./EVIL")),
    StdioServer(command="srv", args=("--api-key=x;EVIL",)),
    StdioServer(command="srv", args=("--token", "/EVIL")),
    StdioServer(command="srv", env={"SSH_AUTH": "./EVIL"}),
    StdioServer(command="srv", env={"API_TOKEN": "${X:-./EVIL}"}),
    StdioServer(command="srv", env={"API_KEY": "$(EVIL)"}),
    StdioServer(command="srv", env={"BASH_ENV": "EVIL", "GIT_ASKPASS": "EVIL"}),
]


@pytest.mark.parametrize("program", HIDING, ids=str)
def test_a_command_cannot_hide_as_a_secret(program: StdioServer) -> None:
    shown = describe(entry(program))
    assert "EVIL" in shown or "sk-evil-program-0123456789" in shown


@given(text=st.text(max_size=40), more=st.sampled_from(["sh", "npx", "srv"]))
def test_a_mask_cannot_be_forged(text: str, more: str) -> None:
    real = entry(StdioServer(command="srv", args=("pkg", "--token", "QQQQ1234")))
    mask = describe(real).split("--token ")[1].splitlines()[0].strip("'")
    for words in ((text, mask), ("pkg", "--token", mask), (f"{mask}{text}",)):
        forged = entry(StdioServer(command=more, args=words))
        assert mask not in describe(forged)


def test_host_and_variables_of_an_address_are_shown() -> None:
    told = describe(entry(HttpServer(url="https://github.com:x@evil.example/${PATH_OF}?token=${TOKEN}")))
    assert "@evil.example/${PATH_OF}?token=${TOKEN}" in told


@given(values=st.lists(secrets, min_size=1, max_size=4))
def test_what_is_learnt_later_is_hidden_from_then_on_and_nothing_is_forgotten(values: list[str]) -> None:
    redaction = Redaction()
    for at, value in enumerate(values):
        redaction.add_secrets([value])
        told = redaction.redact_json({"said": [f"<{each}>" for each in values[: at + 1]]})
        assert told == {"said": [f"<{HIDDEN}>"] * (at + 1)}
    assert not any(value in repr(redaction) for value in values)


def test_a_value_is_found_in_an_address_and_in_json_too() -> None:
    value: Any = 'p"ä/ß w'
    redaction = Redaction([value])
    for told in (
        value,
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        "x=p%22%C3%A4%2F%C3%9F%20w",
    ):
        assert HIDDEN in redaction.redact(told)


class _Told:
    """A program that ended, as far as what it wrote is asked for."""

    def __init__(self, stderr: str) -> None:
        self._stderr = stderr

    def get_stderr_tail(self) -> str:
        return self._stderr


@given(secret=secrets, before=st.integers(0, 90), after=st.integers(3975, 4000))
def test_no_half_of_a_secret_is_told_where_a_text_is_cut(secret: str, before: int, after: int) -> None:
    redaction = Redaction([secret])
    link = ConnectionState(child=cast("ManagedProcess", _Told(f"{secret}\n{'y' * after}")))
    link.wire.record_garbage(f"{'y' * before}{secret}\n".encode())
    fault = RuntimeError(f"{'y' * (before + 420)}{secret}")
    told = [
        format_stderr_tail(link, redaction),
        describe_fault(link, fault, redaction),
        describe_start_failure(link, fault, 1.0, redaction),
        describe_start_failure(link, TimeoutError(), 1.0, redaction),
    ]
    assert not any(half in text for text in told for half in ("QQ", "XX", "ZZ", secret[:4], secret[-4:]))


def test_a_secret_of_which_the_end_alone_is_kept_is_not_told() -> None:
    body = "QXQXQXQX" * 8
    cut = f"rest of a secret QQQQ\n{body}\n-----END RSA PRIVATE KEY-----\nit failed\n"
    told = format_stderr_tail(
        ConnectionState(child=cast("ManagedProcess", _Told("y" * 65_536 + cut))), Redaction()
    )
    assert told == "it failed"
    told = format_stderr_tail(
        ConnectionState(child=cast("ManagedProcess", _Told(cut + f"{'y' * 100}\n" * 700))), Redaction()
    )
    assert "QQ" not in told
    told = format_stderr_tail(
        ConnectionState(child=cast("ManagedProcess", _Told(f"{'y' * 65_536}QQQ\n{body}\n{cut[22:]}"))),
        Redaction(),
    )
    assert told == "it failed"


def pem(kind: str, *lines: str) -> str:
    return "\n".join((f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"))


base64_lines = st.lists(st.from_regex(r"[QXZ]{4}[A-Za-z0-9+/]{0,60}", fullmatch=True), min_size=1, max_size=6)


def logged(folder: Path, redaction: Redaction, text: str, size: int) -> str:
    """Return what is in a server's log that wrote a text in pieces of that size."""
    log = StderrLog(folder / "log", hide=redaction.make_stream_filter())
    data = text.encode()
    for begin in range(0, len(data), size):
        log.write(data[begin : begin + size])
    log.close()
    told = (folder / "log").read_text(encoding="utf-8")
    (folder / "log").unlink()
    return told


@given(parts=st.lists(secrets, min_size=2, max_size=5), end=st.sampled_from(["\n", "\r\n", "\\n"]))
def test_a_secret_of_several_lines_is_in_no_log_also_when_it_is_written_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], end: str
) -> None:
    redaction = Redaction([end.join(parts)])
    text = "loaded:\n" + "".join(f"[info] {part}\n" for part in parts) + "ready\n"
    told = logged(tmp_path_factory.getbasetemp(), redaction, text, 7)
    assert told == "loaded:\n" + f"[info] {HIDDEN}\n" * len(parts) + "ready\n"


@given(lines=base64_lines, kind=st.sampled_from(["", "RSA ", "OPENSSH "]), size=st.integers(1, 200))
def test_a_private_key_that_nobody_knows_is_hidden_in_a_log_as_in_a_whole_text(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], kind: str, size: int
) -> None:
    text = f"before\n{pem(kind, *lines)}\nbetween\n{pem(kind, *lines)} after\nlast\n"
    told = logged(tmp_path_factory.getbasetemp(), Redaction(), text, size)
    assert told == Redaction().redact(text) == f"before\n{HIDDEN}\nbetween\n{HIDDEN} after\nlast\n"


def test_a_private_key_is_hidden_beside_one_that_is_known(tmp_path: Path) -> None:
    redaction = Redaction([pem("", "QXZQXZQXZQXZ")])
    told = logged(tmp_path, redaction, f"{pem('', 'ZZZZQQQQXXXX')}\nafter\n", 1)
    assert told == f"{HIDDEN}\nafter\n"


def test_a_key_without_an_end_hides_no_log_for_ever(tmp_path: Path) -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + "still going on\n" * 10_000
    told = logged(tmp_path, Redaction(), text, 4096)
    assert told.startswith(HIDDEN)
    assert 10_000 // 3 < told.count("going on") < 10_000


@given(secret=secrets, off=st.integers(-20, 9000), size=st.sampled_from([4096, 65_536, 1_000_000]))
def test_no_secret_in_a_line_without_end_is_told_in_two_halves(secret: str, off: int, size: int) -> None:
    line = f"{'y' * (69_632 - off)} {secret} {'y' * 80_000}\nthe next {secret}\n"
    with TemporaryDirectory() as folder:
        told = logged(Path(folder), Redaction([secret]), line, size)
    assert not any(half in told for half in ("QQ", "XX", "ZZ", secret[:4], secret[-4:]))
    assert told.startswith("y" * 50_000)
    assert told.endswith(f"\nthe next {HIDDEN}\n")


@pytest.mark.parametrize("before", ["All tests", "3", "They now", "the suite must", "checks  "])
def test_a_verb_is_not_the_name_of_a_secret(before: str) -> None:
    assert Redaction().redact(f"{before} pass: Fahrenheit is right") == f"{before} pass: Fahrenheit is right"
    for secret in ("hunter2", "QXZ-QXZ", "'QXZ'", "qxz.7"):
        assert secret not in Redaction().redact(f"{before} pass: {secret} is right")


@pytest.mark.parametrize("before", ["", "db ", "user=all ", "tests_", "contests ", "all pass=x "])
def test_a_password_is_hidden_after_other_words(before: str) -> None:
    assert "QXZ" not in Redaction().redact(f"{before}pass: QXZ-QXZ")
    assert "QXZ" not in Redaction().redact("all tests pass=QXZ-QXZ")
