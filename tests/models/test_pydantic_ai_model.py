"""Whatever a provider does, it is a reply or a ModelError, and no key is shown."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import traceback
from typing import TYPE_CHECKING, Any

import anthropic
import google.genai.errors
import httpx
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import exceptions
from pydantic_ai.models.function import FunctionModel
from tests.bounds import WITHIN

from kakite.models import errors, pydantic_ai_model
from kakite.models.factory import open_model
from kakite.models.messages import Reply, ToolMessage, UserMessage
from kakite.models.model import Model, ModelError, OnText, connect_model
from kakite.models.scripted_model import ReachedTurn, Scenario, ScriptedTurn
from kakite.models.text_tool_calls import TextToolCallModel
from kakite.tools.toolset import ToolCall
from kakite_testing.fake_providers import ScenarioServer, openai_format, serve_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from tests.models.conftest import RawServer

    Serving = Callable[[bytes | None], AbstractAsyncContextManager[RawServer]]

KEY = "sk-a-key-that-nobody-may-see"
ENVIRON = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GOOGLE_API_KEY": KEY}
MODELS = {"openai": "openai:gpt-x", "anthropic": "anthropic:claude-sonnet-5-5"}


def ignored(_: str) -> None:
    """Take the text, and do nothing with it."""


INVALID = "invalid_request_error"
HOLA = [UserMessage(text="hola")]

both = pytest.mark.parametrize("provider", MODELS)
streamed = pytest.mark.parametrize("on_text", [None, ignored], ids=["whole", "streamed"])


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, WITHIN))


def opened(provider: str, url: str, **more: Any) -> Model:
    arguments: dict[str, Any] = {"max_retries": 0, **more}
    return open_model(MODELS[provider], base_url=url, environ=ENVIRON, **arguments)


def url_of(server: ScenarioServer, provider: str) -> str:
    return server.openai_url if provider == "openai" else server.anthropic_url


async def failure(model: Model, on_text: OnText | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.reply("", HOLA, [], on_text)
    assert caught.value.exit_code == 3
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


# What pydantic-ai raises inside its own agent loop, which we do not use.
ITS_LOOP = {
    "ModelRetry", "ToolFailed", "CallDeferred", "ApprovalRequired", "SkipModelRequest", "RetryModelRequest",
    "SkipToolValidation", "SkipToolExecution", "ToolRetryError", "ToolFailedError",
}  # fmt: skip

NO_BETTER_CODE = {
    "AgentRunError", "RunCancelled", "UsageLimitExceeded", "ConcurrencyLimitExceeded",
    "FallbackExceptionGroup",
}  # fmt: skip


def its_errors() -> dict[str, type[BaseException]]:
    return {
        name: value
        for name, value in vars(exceptions).items()
        if inspect.isclass(value)
        and issubclass(value, BaseException)
        and not issubclass(value, Warning)
        and value.__module__ == exceptions.__name__
        and not name.startswith("_Categorized")
        and name != "ModelHTTPError"
    }


async def passes_through(kind: type[BaseException]) -> bool:
    """Tell whether an error that a provider's library raises reaches the caller as it is."""
    kind_with_words = type(kind.__name__, (kind,), {"__init__": made, "__str__": worded, "retry_after": None})
    error = kind_with_words("no", [ValueError("no")])  # a group asks for what it holds

    async def answer(_messages: Any, _info: Any) -> Any:
        raise error

    try:
        await pydantic_ai_model.RemoteModel("test:model", FunctionModel(answer), {}).reply("", HOLA, [])
    except ModelError:
        return False
    except kind:
        return True
    raise AssertionError(f"{kind.__name__} was swallowed")


def made(_error: BaseException, *_arguments: object) -> None:
    """Be an error without what its own class asks for: a response, a request, a body."""


def worded(_error: BaseException) -> str:
    return "no"


def test_no_error_of_the_library_is_missed() -> None:
    async def check() -> None:
        missed = {name for name, kind in its_errors().items() if await passes_through(kind)}
        assert missed == ITS_LOOP

    run(check())


def test_every_error_of_the_library_has_its_code() -> None:
    unnamed = {
        name
        for name, kind in its_errors().items()
        if name not in ITS_LOOP and pydantic_ai_model.classify_error_type(kind) is None
    }
    assert unnamed == NO_BETTER_CODE


@pytest.mark.slow
@pytest.mark.parametrize("module", [openai, anthropic, httpx, httpx2, google.genai.errors])
def test_no_error_of_the_clients_is_missed(module: Any) -> None:
    everything = [getattr(module, name) for name in dir(module)]
    kinds = [kind for kind in everything if inspect.isclass(kind) and issubclass(kind, Exception)]
    assert kinds

    async def check() -> None:
        missed = {
            kind.__name__ for kind in kinds if not issubclass(kind, Warning) and await passes_through(kind)
        }
        # Cookies are not read, sockets are not spoken.
        assert missed <= {"CookieConflict", "WebSocketException", "WebSocketDisconnect"}

    run(check())


def test_every_code_is_documented() -> None:
    documented = ModelError.__doc__ or ""
    assert all(f"``{kind.code}``" in documented for kind in errors.KINDS)


@pytest.mark.slow
@both
@streamed
@pytest.mark.parametrize(
    ("status", "kind", "code", "message", "means", "retryable"),
    [
        (401, "authentication_error", "invalid_api_key", f"bad key {KEY}", "model_auth", False),
        (403, "permission_error", None, "not yours", "model_auth", False),
        (404, "not_found_error", "model_not_found", "no such model", "model_unknown", False),
        (429, "rate_limit_error", "rate_limit_exceeded", "slow down", "model_rate_limit", True),
        (400, "invalid_request_error", None, "odd request", "model_rejected", False),
        (500, "api_error", None, "oh", "model_unavailable", True),
        (503, "api_error", None, "down", "model_unavailable", True),
        (529, "overloaded_error", None, "busy", "model_unavailable", True),
    ],
)
def test_a_refusal_has_its_code(
    provider: str,
    on_text: OnText | None,
    status: int,
    kind: str,
    code: str | None,
    message: str,
    means: str,
    retryable: bool,
) -> None:
    error = {"status": status, "type": kind, "code": code, "message": message}
    script = Scenario.parse(json.dumps({"title": "t", "turns": [{"error": error}]}))

    async def main() -> None:
        async with serve_scenario(script) as server:
            caught = await failure(opened(provider, url_of(server, provider)), on_text)
            assert (caught.code, caught.retryable) == (means, retryable)
            assert message.replace(KEY, "[key]") in caught.message
            assert len(server.requests) == 1

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "status", "kind", "code", "message", "means"),
    [
        ("openai", 429, "insufficient_quota", "insufficient_quota", "no credit", "model_quota"),
        ("openai", 400, INVALID, "context_length_exceeded", "too long", "model_context_overflow"),
        ("anthropic", 400, INVALID, None, "prompt is too long: 9 tokens > 8", "model_context_overflow"),
        ("anthropic", 400, INVALID, None, "Your credit balance is too low", "model_quota"),
    ],
)  # fmt: skip
def test_the_body_says_more_than_the_status(
    provider: str, status: int, kind: str, code: str | None, message: str, means: str
) -> None:
    error = {"status": status, "type": kind, "code": code, "message": message}
    script = Scenario.parse(json.dumps({"title": "t", "turns": [{"error": error}]}))

    async def main() -> None:
        async with serve_scenario(script) as server:
            assert (await failure(opened(provider, url_of(server, provider)))).code == means

    run(main())


BUSY = "{error: {status: 429, type: rate_limit_error, message: slow, retry_after: 0.01}}"


@both
@streamed
def test_a_busy_provider_is_asked_again_and_not_for_ever(provider: str, on_text: OnText | None) -> None:
    async def main() -> None:
        script = Scenario.parse(f"{{title: t, turns: [{BUSY}, {BUSY}, {{say: x}}]}}")
        async with serve_scenario(script) as server:
            url = url_of(server, provider)
            reply = await opened(provider, url, max_retries=2).reply("", HOLA, [], on_text)
            assert reply.text == "x"
            server.play(script)
            caught = await failure(opened(provider, url, max_retries=1), on_text)
            assert (caught.code, caught.retry_after) == (
                "model_rate_limit",
                0.01,
            ) or caught.retry_after is None
            assert server.playback.turns_left == 1

    run(main())


@both
def test_the_wait_that_a_provider_asks_for_is_told(provider: str) -> None:
    async def main() -> None:
        script = Scenario.parse("{title: t, turns: [{error: {status: 429, retry_after: 7}}]}")
        async with serve_scenario(script) as server:
            assert (await failure(opened(provider, url_of(server, provider)))).retry_after == 7

    run(main())


@both
@streamed
def test_nobody_there_is_unreachable_and_not_asked_for_minutes(provider: str, on_text: OnText | None) -> None:
    async def main() -> None:
        caught = await failure(opened(provider, "http://127.0.0.1:9", max_retries=100), on_text)
        assert "http://127.0.0.1:9" in caught.message
        assert (caught.code, caught.retryable) == ("model_unreachable", True)

    run(main())


@both
@streamed
def test_silence_is_a_timeout(provider: str, on_text: OnText | None) -> None:
    async def main() -> None:
        async with serve_scenario(Scenario.parse("{title: t, turns: [{pause: 60, say: x}]}")) as server:
            caught = await failure(opened(provider, url_of(server, provider), timeout=0.2), on_text)
            assert (caught.code, caught.retryable) == ("model_timeout", True)

    run(main())


@both
@streamed
def test_a_cancelled_request_hangs_up_at_once(
    provider: str, on_text: OnText | None, raw_server: Serving
) -> None:
    async def main() -> None:
        async with raw_server(None) as server:
            asking = asyncio.create_task(opened(provider, server.url).reply("", HOLA, [], on_text))
            await server.asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            async with asyncio.timeout(WITHIN):
                await server.hung_up.wait()

    run(main())


def http(body: bytes, status: int = 200, *, kind: str = "application/json", whole: bool = True) -> bytes:
    length = len(body) if whole else len(body) + 100
    return f"HTTP/1.1 {status} OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n".encode() + body


def stream(*events: str, whole: bool = True) -> bytes:
    return http("".join(events).encode(), kind="text/event-stream", whole=whole)


def event(data: dict[str, Any], name: str = "") -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"


HALF = "half a"
OPENAI_CHUNK = event(
    {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": HALF}, "finish_reason": None}],
    }
)
OPENAI_LATE = event({"error": {"message": "late", "type": "server_error"}})
ANTHROPIC_MESSAGE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": list[str](),
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
ANTHROPIC_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": ANTHROPIC_MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": HALF}},
]
ANTHROPIC_START = "".join(event(each, each["type"]) for each in ANTHROPIC_EVENTS)
ANTHROPIC_LATE = event({"type": "error", "error": {"type": "overloaded_error", "message": "late"}}, "error")


@pytest.mark.parametrize(
    ("provider", "answer", "codes"),
    [
        ("openai", http(b"<html>"), {"model_bad_reply"}),
        ("openai", http(b"{}"), {"model_bad_reply"}),
        ("openai", http(b'{"choices": []}'), {"model_bad_reply"}),
        ("openai", http(b'{"choices": [null]}'), {"model_bad_reply"}),
        ("openai", http(b"null"), {"model_bad_reply"}),
        ("openai", http(b'{"ch', whole=False), {"model_unreachable", "model_bad_reply"}),
        ("anthropic", http(b"<html>"), {"model_bad_reply"}),
        ("anthropic", http(b"{}"), {"model_bad_reply"}),
        ("anthropic", http(b"null"), {"model_bad_reply"}),
    ],
)
@streamed
def test_nonsense_is_a_bad_reply(
    provider: str, answer: bytes, codes: set[str], on_text: OnText | None, raw_server: Serving
) -> None:
    async def main() -> None:
        async with raw_server(answer) as server:
            caught = await failure(opened(provider, server.url, max_output_tokens=100), on_text)
            assert caught.code in codes

    run(main())


@pytest.mark.parametrize(
    ("provider", "answer"),
    [
        ("openai", stream(OPENAI_CHUNK)),
        ("openai", stream(OPENAI_CHUNK, "data: [DONE]\n\n")),
        ("openai", stream(OPENAI_CHUNK, whole=False)),
        ("openai", stream(OPENAI_CHUNK, "data: {broken\n\n")),
        ("openai", stream(OPENAI_CHUNK, OPENAI_LATE)),
        ("anthropic", stream(ANTHROPIC_START)),
        ("anthropic", stream(ANTHROPIC_START, whole=False)),
        ("anthropic", stream(ANTHROPIC_START, ANTHROPIC_LATE)),
    ],
)  # fmt: skip
def test_half_a_stream_is_no_reply(provider: str, answer: bytes, raw_server: Serving) -> None:
    async def main() -> None:
        said: list[str] = []
        async with raw_server(answer) as server:
            caught = await failure(opened(provider, server.url), said.append)
            assert caught.code != "model_rejected"
        assert "".join(said) == HALF

    run(main())


@both
def test_what_the_listener_raises_is_its_own(provider: str) -> None:
    def break_the_pipe(_: str) -> None:
        raise BrokenPipeError("nobody listens")

    async def main() -> None:
        async with serve_scenario(Scenario.parse("{title: t, turns: [{say: a b c}]}")) as server:
            with pytest.raises(BrokenPipeError):
                await opened(provider, url_of(server, provider)).reply("", HOLA, [], break_the_pipe)

    run(main())


@both
def test_what_a_model_thinks_is_told_apart_from_what_it_says(provider: str) -> None:
    said: list[str] = []
    thought: list[str] = []

    async def main() -> None:
        turns = ({"think": "Let me see: one and one.", "say": "It is two."}, {"say": "Bye."})
        scenario = Scenario.parse(json.dumps({"title": "t", "turns": turns}))
        async with serve_scenario(scenario) as server:
            model = opened(provider, url_of(server, provider))
            reply = await model.reply("", HOLA, [], said.append, thought.append)
            assert "".join(said) == reply.text == "It is two."
            assert "".join(thought) == "Let me see: one and one."
            assert len(thought) > 1
            again = await model.reply("", [*HOLA, reply, *HOLA], [])
            assert again.text == "Bye."
            assert server.violations == ()

    run(main())


@both
def test_a_model_serves_one_event_loop_after_another(provider: str) -> None:
    async def ask(model: Model) -> Reply:
        return await model.reply("", HOLA, [])

    async def main(models: list[Model]) -> None:
        async with serve_scenario(Scenario.parse("{title: t, turns: [{say: x}, {say: y}]}")) as server:
            models.append(opened(provider, url_of(server, provider)))
            both_replies = await asyncio.gather(ask(models[0]), ask(models[0]))
            assert {reply.text for reply in both_replies} == {"x", "y"}

    models: list[Model] = []
    run(main(models))

    async def again() -> None:
        assert (await failure(models[0])).code == "model_unreachable"

    run(again())


def test_a_status_without_a_name_is_read_by_its_number() -> None:
    assert pydantic_ai_model.classify_error(exceptions.ModelHTTPError(418, "m")) is errors.REJECTED
    assert pydantic_ai_model.classify_error(google.genai.errors.APIError(503, {})) is errors.UNAVAILABLE
    assert pydantic_ai_model.classify_error(openai.OpenAIError("x")) is errors.FAILED


def test_a_long_message_is_cut() -> None:
    assert len(errors.build_model_error(errors.FAILED, "x" * 9999).message) < 2100
    assert errors.build_model_error(errors.FAILED, " ").message


def test_the_longer_secret_goes_first() -> None:
    assert errors.redact_secrets("abcdefgh abcdef", ["abcdef", "abcdefgh", ""]) == "[key] [key]"


@given(
    st.text("abcXYZ0189-_.", min_size=8, max_size=30).map(lambda text: f"{text}9"),
    st.sampled_from(["{{'authorization': 'Bearer {}'}}", 'header "bearer {}"', "Bearer  {} is bad"]),
)
def test_a_token_that_nobody_has_told_is_hidden_by_what_stands_before_it(token: str, said: str) -> None:
    told = errors.build_model_error(errors.AUTH, said.format(token)).message
    assert told == re.sub("([Bb]earer +)@", r"\1[key]", said.format("@"))


@pytest.mark.parametrize(
    "said", ["use Bearer authentication.", "max_tokens: 128000 is too large", "the key is bad"]
)
def test_what_is_no_token_stays(said: str) -> None:
    assert errors.build_model_error(errors.AUTH, said).message == said


def test_a_key_is_hidden_by_its_look() -> None:
    key = "sk-proj-" + "a1" * 12
    assert errors.build_model_error(errors.AUTH, f"Incorrect key {key}.").message == "Incorrect key [key]."


@given(st.integers(300, 599))
def test_every_status_means_something(status: int) -> None:
    kind = errors.classify_status(status)
    assert kind in errors.KINDS
    assert kind.retryable or status < 500


def test_google_speaks_too(raw_server: Serving) -> None:
    parts: list[dict[str, Any]] = [{"text": "hi"}, {"functionCall": {"name": "a", "args": {"x": 1}}}]
    body: dict[str, Any] = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "totalTokenCount": 10},
        "modelVersion": "gemini-2.5-flash",
    }
    malformed: dict[str, Any] = {"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}

    async def main() -> None:
        async with raw_server(http(json.dumps(body).encode())) as server:
            model = open_model("google:gemini-2.5-flash", base_url=server.url, environ=ENVIRON)
            reply = await model.reply("", HOLA, [])
            assert (reply.text, reply.finish, reply.usage.input_tokens) == ("hi", "tool_calls", 7)
            (call,) = reply.calls
            assert isinstance(call, ToolCall)
            assert (call.name, call.arguments) == ("a", {"x": 1})
            result = ToolMessage(call_id=call.id, tool="a", text="no", is_error=True)
            assert (await model.reply("", [*HOLA, reply, result], [])).text == "hi"
        async with raw_server(http(json.dumps({**body, "candidates": [malformed]}).encode())) as server:
            model = open_model("google:gemini-2.5-flash", base_url=server.url, environ=ENVIRON)
            assert (await failure(model)).code == "model_bad_reply"

    run(main())


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "the request exceeds the available context size, try increasing it"}),
        (400, {"message": "request (5000 tokens) is too big", "type": "exceed_context_size_error"}),
        (500, {"message": "the request exceeds the available context size."}),
        (400, {"message": "Trying to keep the first 5 tokens when context the overflows."}),
        (400, {"message": "The model is loaded with context length of only 4096 tokens"}),
        (400, {"message": "This model's maximum prompt length is 131072 but the request has 200000 tokens"}),
        (
            400,
            {"message": "The input (9 tokens) is longer than the model's context length (8 tokens)."},
        ),
        (422, {"message": "`inputs` tokens + `max_new_tokens` must be <= 4096"}),
        (400, "the input length exceeds the context length"),
    ],
)
def test_whatever_a_server_calls_it_too_long_is_known_as_such(
    status: int, error: object, raw_server: Serving
) -> None:
    async def main() -> None:
        async with raw_server(http(json.dumps({"error": error}).encode(), status)) as server:
            model = open_model("openai:m", base_url=server.url, environ={}, max_retries=0)
            assert (await failure(model)).code == "model_context_overflow"

    run(main())


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "max_tokens is too large: 99999", "model_rejected"),
        (400, "Invalid schema for function `x`: context is no object", "model_rejected"),
        (503, "only maintenance today", "model_unavailable"),
        (401, "no context for you: the prompt is too long", "model_auth"),
        (429, "too many requests in this context", "model_rate_limit"),
    ],
)
def test_another_refusal_is_not_taken_for_too_long(
    status: int, message: str, code: str, raw_server: Serving
) -> None:
    async def main() -> None:
        body = json.dumps({"error": {"message": message}}).encode()
        async with raw_server(http(body, status)) as server:
            model = open_model("openai:m", base_url=server.url, environ={}, max_retries=0)
            assert (await failure(model)).code == code

    run(main())


@pytest.mark.parametrize(
    ("status", "named", "message", "code"),
    [
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "model_auth"),
        (403, "PERMISSION_DENIED", "not yours", "model_auth"),
        (404, "NOT_FOUND", "models/x is not found", "model_unknown"),
        (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", "model_rate_limit"),
        (
            400,
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens (8).",
            "model_context_overflow",
        ),
        (400, "INVALID_ARGUMENT", "odd request", "model_rejected"),
        (500, "INTERNAL", "oh", "model_unavailable"),
        (503, "UNAVAILABLE", "The model is overloaded.", "model_unavailable"),
    ],
)
def test_what_google_refuses_has_its_code(
    status: int, named: str, message: str, code: str, raw_server: Serving
) -> None:
    reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    details = [reason] if code == "model_auth" else []
    body = {"error": {"code": status, "message": message, "status": named, "details": details}}

    async def main() -> None:
        async with raw_server(http(json.dumps(body).encode(), status)) as server:
            model = open_model("google:m", base_url=server.url, environ=ENVIRON, max_retries=0)
            assert (await failure(model)).code == code

    run(main())


def test_an_answer_of_google_without_an_end_is_a_bad_reply(raw_server: Serving) -> None:
    silent: dict[str, Any] = {"content": {"role": "model", "parts": []}}
    bodies: list[dict[str, Any]] = [{"candidates": []}, {"candidates": [silent]}]

    async def main() -> None:
        for body in bodies:
            async with raw_server(http(json.dumps(body).encode())) as server:
                model = open_model("google:m", base_url=server.url, environ=ENVIRON, max_retries=0)
                assert (await failure(model)).code == "model_bad_reply"

    run(main())


def hello() -> bytes:
    """Return a whole answer after which the connection may be kept."""
    body = json.dumps(
        openai_format.build_completion(ReachedTurn(number=1, turn=ScriptedTurn(say="hola")), "m")
    ).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_while_connected_replies_share_a_connection() -> None:
    callers: list[object] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in head.lower().split(b"\r\n") if b"content-length:" in line)
                await reader.readexactly(int(length.split(b":")[1]))
                callers.append(writer.get_extra_info("peername"))
                writer.write(hello())
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def talk() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            model = TextToolCallModel(opened("openai", f"http://127.0.0.1:{port}"))
            async with connect_model(model):
                for _ in range(3):
                    assert (await model.reply("", HOLA, [])).text == "hola"
            assert (await model.reply("", HOLA, [])).text == "hola"

    run(talk())
    assert len(callers) == 4
    assert len(set(callers[:3])) == 1
    assert callers[3] != callers[0]


def test_a_kept_connection_that_the_server_has_closed_is_opened_again(raw_server: Serving) -> None:
    async def talk() -> None:
        async with raw_server(hello()) as server:
            model = opened("openai", server.url)
            async with connect_model(model):
                for _ in range(3):
                    assert (await model.reply("", HOLA, [])).text == "hola"
            assert len(server.heads) == 3

    run(talk())
