"""What is remembered of a login."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken

from kakite.host.oauth.token_store import CredentialsError, OAuthCredentials, TokenFile, strip_userinfo
from tests.bounds import WITHIN

URL = "https://there.example/mcp"

words = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20)
tokens = st.builds(
    OAuthToken,
    access_token=words,
    refresh_token=st.none() | words,
    scope=st.none() | words,
    expires_in=st.none() | st.integers(0, 10**6),
)
clients = st.builds(
    OAuthClientInformationFull,
    client_id=words,
    client_secret=st.none() | words,
    redirect_uris=st.just(["http://127.0.0.1:1/callback"]),
    issuer=st.none() | words,
)
metadata = st.builds(
    OAuthMetadata,
    issuer=st.just("https://login.example"),
    authorization_endpoint=st.just("https://login.example/a"),
    token_endpoint=st.just("https://login.example/t"),
)
credentials = st.builds(
    OAuthCredentials,
    tokens=st.none() | tokens,
    expires_at=st.none() | st.floats(0, 10**12),
    client=st.none() | clients,
    metadata=st.none() | metadata,
    resource=words,
)


@given(credentials)
def test_what_is_saved_is_loaded(known: OAuthCredentials) -> None:
    with TemporaryDirectory() as folder:
        file = TokenFile(Path(folder), URL)
        file.save(known)
        assert file.load() == known


@given(credentials)
def test_no_secret_is_in_its_text(known: OAuthCredentials) -> None:
    shown = repr(known)
    bare = repr(OAuthCredentials(expires_at=known.expires_at, resource=known.resource))
    assert shown == bare


@given(st.binary(max_size=200) | st.just(b"[" * 100_000) | st.just(b'{"version": 1}'))
def test_a_damaged_file_is_as_good_as_none(damage: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = TokenFile(Path(folder), URL)
        file.path.write_bytes(damage)
        assert file.load() == OAuthCredentials()


@given(credentials, st.data())
def test_a_file_that_is_cut_off_anywhere_is_as_good_as_none(
    known: OAuthCredentials, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        file = TokenFile(Path(folder), URL)
        file.save(known)
        whole = file.path.read_bytes()
        file.path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        assert file.load() == OAuthCredentials()


@given(known=credentials, new=tokens)
def test_a_renewal_keeps_what_it_does_not_name(known: OAuthCredentials, new: OAuthToken) -> None:
    renewed = known.replace_tokens(new)
    assert renewed.bearer == new.access_token
    assert renewed.tokens
    old = known.tokens
    assert renewed.tokens.refresh_token == (new.refresh_token or (old.refresh_token if old else None))
    assert (renewed.client, renewed.metadata, renewed.resource) == (
        known.client,
        known.metadata,
        known.resource,
    )


def test_a_token_ends_a_little_before_its_time() -> None:
    def left(seconds: int | None) -> float | None:
        end = OAuthCredentials().replace_tokens(OAuthToken(access_token="x", expires_in=seconds)).expires_at
        return None if end is None else end - time.time()

    hour, short, never = left(3600), left(10), left(None)
    assert hour is not None
    assert 3500 < hour <= 3570
    assert short is not None
    assert 8 < short <= 9
    assert never is None


def test_another_address_or_client_has_another_file(tmp_path: Path) -> None:
    files = [
        TokenFile(tmp_path, URL),
        TokenFile(tmp_path, f"{URL}/other"),
        TokenFile(tmp_path, URL, "mine"),
    ]
    assert len({file.path for file in files}) == 3


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    real, linked = TokenFile(tmp_path / "a", URL), TokenFile(tmp_path / "b", URL)
    real.save(OAuthCredentials(tokens=OAuthToken(access_token="x")))
    linked.path.parent.mkdir()
    linked.path.symlink_to(real.path)
    assert not linked.load().bearer
    linked.save(OAuthCredentials())
    assert real.load().bearer == "x", "what it led to is left alone"


@pytest.mark.parametrize(
    ("address", "bare"),
    [
        ("https://me:secret@there.example:8/mcp?a=b#c", "https://there.example:8/mcp?a=b"),
        ("https://there.example/mcp", "https://there.example/mcp"),
    ],
)
def test_a_password_in_an_address_is_left_out(address: str, bare: str) -> None:
    assert strip_userinfo(address) == bare


@pytest.mark.anyio
async def test_who_waits_too_long_for_another_is_told(tmp_path: Path) -> None:
    file = TokenFile(tmp_path, URL)
    async with file.lock(1):
        with pytest.raises(CredentialsError):
            async with file.lock(0.1):
                pass
    async with asyncio.timeout(WITHIN), file.lock(1):
        pass
