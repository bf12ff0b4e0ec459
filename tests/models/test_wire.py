"""Each provider by its own wire format: a streamed text, a call, the tokens, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.models import wire
from tests.models.wire import Answer, Asked, serving

from kakite.models.factory import open_model
from kakite.models.messages import Reply, ToolMessage, UserMessage
from kakite.models.model import ModelError
from kakite.models.options import ModelOptions
from kakite.tools.toolset import Tool, ToolCall

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("provider_libraries")]

KEY = "a-key-that-nobody-may-see"
TOOL = Tool(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
)
AWS = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIDNOBODY", "AWS_SECRET_ACCESS_KEY": KEY}
CLOUD = {"GOOGLE_CLOUD_PROJECT": "p1", "GOOGLE_CLOUD_LOCATION": "europe-west1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A provider."""

    spec: str
    path: str
    """Where a streamed request goes."""
    stream: Callable[[Asked], Answer] = wire.stream_openai
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    base: str = ""
    """Of the address, behind the host."""
    has_key: Callable[[Asked], bool] = lambda asked: asked.headers["authorization"] == f"Bearer {KEY}"


CHAT = "/v1/chat/completions"
OPENAI = {
    name: Case(spec=f"{name}:m", path=CHAT, base="/v1", environ={variable: KEY})
    for name, variable in (
        ("openai", "OPENAI_API_KEY"),
        ("xai", "XAI_API_KEY"),
        ("ollama", "OLLAMA_API_KEY"),
        ("vllm", "VLLM_API_KEY"),
    )
}
VERSION = {"AZURE_OPENAI_API_KEY": KEY, "OPENAI_API_VERSION": "2026-01-01"}
CASES = {
    **OPENAI,
    "openai-responses": Case(
        spec="openai-responses:gpt-5",
        path="/v1/responses",
        base="/v1",
        stream=wire.stream_responses,
        environ={"OPENAI_API_KEY": KEY},
    ),
    "groq": Case(spec="groq:llama-3", path=f"/openai{CHAT}", environ={"GROQ_API_KEY": KEY}),
    "mistral": Case(spec="mistral:codestral-latest", path=CHAT, environ={"MISTRAL_API_KEY": KEY}),
    "anthropic": Case(
        spec="anthropic:claude-sonnet-4-6",
        path="/v1/messages",
        stream=wire.stream_anthropic,
        environ={"ANTHROPIC_API_KEY": KEY},
    ),
    "google": Case(
        spec="google:gemini-2.5-pro",
        path="/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        stream=wire.stream_google,
        environ={"GOOGLE_API_KEY": KEY},
        has_key=lambda asked: asked.headers["x-goog-api-key"] == KEY,
    ),
    "vertex": Case(
        spec="vertex:gemini-2.5-pro",
        path="/v1beta1/projects/p1/locations/europe-west1/publishers/google/models/gemini-2.5-pro"
        ":streamGenerateContent?alt=sse",
        stream=wire.stream_google,
        environ=CLOUD,
    ),
    "vertex-claude": Case(
        spec="vertex:claude-sonnet-4-6",
        path="/v1/projects/p1/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-6"
        ":streamRawPredict",
        stream=wire.stream_anthropic,
        environ=CLOUD,
    ),
    "azure": Case(spec="azure:my-deployment", path=f"/openai{CHAT}", environ={"AZURE_OPENAI_API_KEY": KEY}),
    "azure-version": Case(
        spec="azure:my-deployment",
        path="/openai/deployments/my-deployment/chat/completions?api-version=2026-01-01",
        environ=VERSION,
        has_key=lambda asked: asked.headers["api-key"] == KEY,
    ),
    "bedrock": Case(
        spec="bedrock:eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        path="/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream",
        stream=wire.stream_bedrock,
        environ=AWS,
        has_key=lambda asked: "Credential=AKIDNOBODY/" in asked.headers["authorization"],
    ),
}
each_provider = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def private_key() -> str:
    """The key of an account that nobody has."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return made.private_bytes(pem, form, serialization.NoEncryption()).decode()


@pytest.fixture
def account(tmp_path: Path, private_key: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make a file of an account of Google Cloud, whose token comes from a server at this address."""

    def create(url: str) -> None:
        said = {"type": "service_account", "client_email": "a@p1", "private_key": private_key}
        file = tmp_path / "account.json"
        file.write_text(json.dumps({**said, "token_uri": f"{url}/token"}), encoding="utf-8")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))

    return create


def answer_with(answer: Callable[[Asked], Answer]) -> Callable[[Asked], Answer]:
    """Return what a provider answers, which hands out tokens besides."""

    def reply(asked: Asked) -> Answer:
        if asked.path == "/token":
            token = {"access_token": KEY, "token_type": "Bearer", "expires_in": 3600}
            return Answer(content=json.dumps(token).encode())
        return answer(asked)

    return reply


@each_provider
async def test_a_streamed_text_a_call_and_the_tokens_arrive(
    name: str, account: Callable[[str], None]
) -> None:
    case = CASES[name]
    pieces: list[str] = []
    with serving(answer_with(case.stream)) as server:
        account(server.url)
        model = open_model(case.spec, base_url=server.url + case.base, environ=case.environ, max_retries=0)
        reply = await model.reply("Be brief.", [UserMessage(text="Hello.")], [TOOL], pieces.append)
        result = ToolMessage(call_id=reply.calls[0].id, tool="look", text="nothing", is_error=True)
        await model.reply("Be brief.", [UserMessage(text="Hello."), reply, result], [TOOL], pieces.append)
    first, second = server.asked
    assert first.path == second.path == case.path
    assert case.has_key(first)
    check_reply(reply)
    assert "".join(pieces) == reply.text * 2
    assert "nothing" in json.dumps(second.body)


def check_reply(reply: Reply) -> None:
    """Look whether it is what the server has said."""
    (call,) = reply.calls
    assert isinstance(call, ToolCall)
    assert (reply.text, call.name, call.arguments) == ("".join(wire.TEXT), *wire.CALL)
    assert reply.finish == "tool_calls"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (wire.INPUT, wire.OUTPUT)


@each_provider
@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [(401, "model_auth", False), (429, "model_rate_limit", True), (503, "model_unavailable", True)],
)
async def test_a_refusal_has_its_code_and_shows_no_key(
    name: str, status: int, code: str, retryable: bool, account: Callable[[str], None]
) -> None:
    case = CASES[name]
    with serving(answer_with(lambda _: wire.refuse(status, f"not with {KEY}"))) as server:
        account(server.url)
        model = open_model(case.spec, base_url=server.url + case.base, environ=case.environ, max_retries=0)
        with pytest.raises(ModelError) as caught:
            await model.reply("", [UserMessage(text="Hello.")], [], lambda _: None)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert len(server.asked) == 1
    assert KEY not in f"{caught.value.message} {caught.value.hint}"
    assert "not with" in caught.value.message


async def test_a_token_of_a_profile_of_aws_is_shown_by_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    lines = (
        "[p]",
        "aws_access_key_id = AKIDNOBODY",
        "aws_secret_access_key = s",
        f"aws_session_token = {KEY}",
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    environ = {"AWS_PROFILE": "p", "AWS_REGION": "eu-west-1"}
    with serving(lambda _: wire.refuse(400, f"not with {KEY}")) as server:
        model = open_model(CASES["bedrock"].spec, base_url=server.url, environ=environ, max_retries=0)
        with pytest.raises(ModelError) as caught:
            await model.reply("", [UserMessage(text="Hello.")], [], lambda _: None)
    assert server.asked[0].headers["x-amz-security-token"] == KEY
    assert "not with" in caught.value.message
    assert KEY not in caught.value.message


TEMPERATURE: dict[str, Callable[[Asked], object]] = {
    "google": lambda asked: asked.body["generationConfig"]["temperature"],
    "vertex": lambda asked: asked.body["generationConfig"]["temperature"],
    "bedrock": lambda asked: asked.body["inferenceConfig"]["temperature"],
}
BODY: dict[str, Callable[[Asked], object]] = {
    "bedrock": lambda asked: asked.body["additionalModelRequestFields"]["x_field"],
}


@pytest.mark.parametrize("name", [name for name in CASES if name != "mistral"])
async def test_a_temperature_headers_and_fields_go_in_the_provider_s_own_form(
    name: str, account: Callable[[str], None]
) -> None:
    case = CASES[name]
    options = [
        ModelOptions(temperature=0.25, headers={"X-Team": "b-${TEAM}"}),
        ModelOptions(models="other:*", headers={"X-Other": "no"}),
        ModelOptions(models=f"{case.spec.partition(':')[0]}:*", body={"x_field": {"a": [1]}}),
    ]
    with serving(answer_with(case.stream)) as server:
        account(server.url)
        environ = {**case.environ, "TEAM": "42"}
        base_url = server.url + case.base
        model = open_model(case.spec, base_url=base_url, environ=environ, max_retries=0, options=options)
        await model.reply("Be brief.", [UserMessage(text="Hello.")], [TOOL], lambda _: None)
    (asked,) = server.asked
    assert asked.headers["x-team"] == "b-42"
    assert "x-other" not in asked.headers
    assert TEMPERATURE.get(name, lambda asked: asked.body["temperature"])(asked) == 0.25
    assert BODY.get(name, lambda asked: asked.body["x_field"])(asked) == {"a": [1]}
