"""A model is opened by name, with keys from the environment and from nowhere else."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from importlib.metadata import requires
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from pydantic_ai.providers import infer_provider_class
from tests.bounds import WITHIN

from kakite.models.factory import open_model
from kakite.models.messages import UserMessage
from kakite.models.model import ModelConfigError, ModelError
from kakite.models.providers import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.models.conftest import RawServer

KEYS = {variable: f"key-of-{name}" for name, provider in PROVIDERS.items() for variable in provider.variables}


def refusal(spec: str, *, base_url: str | None = None, **environ: str) -> ModelConfigError:
    with pytest.raises(ModelConfigError) as caught:
        open_model(spec, base_url=base_url, environ=environ)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value


def test_nothing_is_imported_before_a_model_is_opened() -> None:
    code = (
        "import sys, kakite.models.factory, kakite.models.messages, kakite.models.errors;"
        "heavy = {'pydantic_ai', 'openai', 'anthropic', 'httpx2'};"
        "sys.exit(any(name.split('.')[0] in heavy for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=WITHIN, check=False).returncode == 0


@pytest.mark.parametrize("name", [name for name, each in PROVIDERS.items() if each.needs_key])
def test_without_a_key_the_error_names_the_variables(name: str) -> None:
    provider = PROVIDERS[name]
    if find_spec(provider.library) is None:
        assert refusal(f"{name}:m").code == "model_no_library"
        return
    error = refusal(f"{name}:m")
    assert error.code == "model_no_key"
    assert all(variable in error.hint for variable in provider.variables)


@pytest.mark.parametrize("name", ["openai", "anthropic", "google", "ollama", "deepseek", "together", "zai"])
def test_with_a_key_the_model_opens(name: str) -> None:
    model = open_model(f"{name}:some-model", environ=KEYS)
    assert model.name == f"{name}:some-model"
    assert "key-of" not in repr(model)


def test_a_name_may_hold_colons() -> None:
    assert open_model("ollama:qwen3:8b", environ={}).name == "ollama:qwen3:8b"


@pytest.mark.parametrize("spec", ["gpt-5", "openai:", ":gpt-5", ""])
def test_a_name_without_its_half_is_refused(spec: str) -> None:
    assert refusal(spec).code == "model_bad_name"


@pytest.mark.parametrize(
    ("wrong", "right"), [("opneai", "openai"), ("Anthropic", "anthropic"), ("gogle", "google")]
)
def test_an_unknown_provider_names_the_nearest(wrong: str, right: str) -> None:
    error = refusal(f"{wrong}:m", **KEYS)
    assert error.code == "model_unknown_provider"
    assert f"`{right}:m`" in error.hint


def test_a_server_of_ones_own_must_be_somewhere() -> None:
    assert refusal("vllm:m").code == "model_no_address"
    assert open_model("vllm:m", environ={"VLLM_BASE_URL": "http://127.0.0.1:1/v1"}).name == "vllm:m"


def test_a_provider_with_one_address_takes_no_other() -> None:
    assert refusal("deepseek:m", base_url="http://127.0.0.1:1", **KEYS).code == "model_no_address"


def test_what_the_library_refuses_is_a_wrong_name() -> None:
    assert refusal("openrouter:no-vendor", **KEYS).code == "model_bad_name"


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    error = refusal("openai:m", OPENAI_API_KEY="x")
    assert error.code == "model_no_library"
    assert "pip install 'kakite[agent]'" in error.hint


def test_what_is_configured_is_told_by_name_only() -> None:
    configured = {
        name for name, provider in PROVIDERS.items() if provider.is_configured({"GEMINI_API_KEY": "k"})
    }
    assert configured == {"google", "ollama"}


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_is_one_that_the_library_knows(name: str) -> None:
    known = {"vertex": "google-cloud", "xai": "openai"}.get(name, name)
    if find_spec(PROVIDERS[name].library) is None:
        assert PROVIDERS[name].package
        with pytest.raises(ImportError):
            infer_provider_class(known)
    else:
        assert infer_provider_class(known)


async def head_of(server: RawServer, spec: str, base_url: str | None, environ: dict[str, str]) -> str:
    model = open_model(spec, base_url=base_url, environ=environ, max_retries=0)
    with pytest.raises(ModelError):
        await model.reply("", [UserMessage(text="hi")], [])
    return server.heads.pop().decode().lower()


@pytest.mark.parametrize(
    ("name", "variable", "address"),
    [
        ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("google", "GEMINI_API_KEY", ""),
        ("ollama", "OLLAMA_API_KEY", "OLLAMA_BASE_URL"),
    ],
)
def test_keys_come_from_the_given_environment_only(
    name: str,
    variable: str,
    address: str,
    raw_server: Callable[[bytes | None], AbstractAsyncContextManager[RawServer]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, "key-of-the-process")
    monkeypatch.setenv(address or "UNUSED", "http://127.0.0.1:9/nowhere")

    async def main() -> None:
        async with raw_server(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n") as server:
            head = await head_of(server, f"{name}:gpt-x", server.url, {variable: "given-key"})
            assert re.search(r"(authorization|x-api-key|x-goog-api-key): (bearer )?given-key\r", head)
            head = await head_of(server, f"{name}:gpt-x", server.url, {})
            assert "key-of-the-process" not in head
            if address:
                head = await head_of(server, f"{name}:gpt-x", None, {variable: "k", address: server.url})
                assert head.startswith("post")

    asyncio.run(asyncio.wait_for(main(), WITHIN))


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(ModelConfigError, match=r"not `127\.0\.0\.1:8099/v1`") as caught:
        open_model("openai:m", base_url="127.0.0.1:8099/v1", environ={})
    assert caught.value.code == "model_bad_address"
    with pytest.raises(ModelConfigError) as caught:
        open_model("openai:m", base_url="u:S3CRET@127.0.0.1/v1", environ={})
    assert "S3CRET" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "url", ["http://u:S3CRET@127.0.0.1/v1", "http://127.0.0.1/v1?key=S3CRET", "http://h/v1#S3CRET"]
)
def test_an_address_that_holds_a_secret_is_refused_unseen(url: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        open_model("openai:m", base_url=url, environ={})
    assert caught.value.code == "model_bad_address"
    assert "S3CRET" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("spec", "environ", "code", "named"),
    [
        ("vertex:gemini-2.5-pro", {}, "model_no_key", "GOOGLE_CLOUD_PROJECT"),
        ("azure:mine", {"AZURE_OPENAI_API_KEY": "k"}, "model_no_address", "AZURE_OPENAI_ENDPOINT"),
        ("azure:mine", {"AZURE_OPENAI_ENDPOINT": "mine"}, "model_bad_address", "base-url"),
    ],
)
def test_what_a_cloud_misses_is_named(spec: str, environ: dict[str, str], code: str, named: str) -> None:
    error = refusal(spec, **environ)
    assert error.code == code
    assert named in error.hint


@pytest.mark.usefixtures("provider_libraries")
@pytest.mark.parametrize(
    ("environ", "code", "named"),
    [
        ({}, "model_no_key", "AWS_PROFILE"),
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_REGION": "r"}, "model_no_key", "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_BEARER_TOKEN_BEDROCK": "a"}, "model_no_region", "AWS_REGION"),
        ({"AWS_PROFILE": "nobody", "AWS_REGION": "r"}, "model_no_key", "AWS_PROFILE"),
    ],
)
def test_what_bedrock_misses_is_named(
    environ: dict[str, str], code: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials")
    error = refusal("bedrock:amazon.nova-pro-v1:0", **environ)
    assert error.code == code
    assert named in error.hint


@pytest.mark.parametrize("name", [name for name, each in PROVIDERS.items() if each.package])
def test_a_package_is_asked_for_as_the_library_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PROVIDERS[name]
    first = provider.package.partition(",")[0]
    asked = [each.partition(";")[0].strip() for each in requires("pydantic-ai-slim") or []]
    assert first in asked
    monkeypatch.setitem(sys.modules, provider.library, None)
    error = refusal(f"{name}:m", **KEYS)
    assert error.code == "model_no_library"
    assert provider.package in error.hint


def test_what_a_cloud_s_key_consists_of_is_no_name_of_a_place() -> None:
    assert "AWS_SECRET_ACCESS_KEY" in PROVIDERS["bedrock"].secret_variables
    assert "AWS_PROFILE" not in PROVIDERS["bedrock"].secret_variables
