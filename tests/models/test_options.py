"""A temperature, headers and fields of one's own: chosen by model, checked, and never shown."""

from __future__ import annotations

import asyncio
import json
import traceback

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds import WITHIN
from tests.models import wire
from tests.models.wire import Answer, Asked, serving

from kakite.models.errors import redact_secrets
from kakite.models.factory import check_model, open_model
from kakite.models.messages import UserMessage
from kakite.models.model import ModelConfigError, ModelError
from kakite.models.options import ModelOptions, check_body, check_header, choose_options, expand_headers

KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
NAMES = st.sampled_from(["openai", "anthropic", "*"])
OPTIONS = st.builds(
    ModelOptions,
    models=NAMES.map(lambda name: f"{name}:*"),
    temperature=st.none() | st.floats(0, 2),
    headers=st.dictionaries(st.sampled_from(["X-A", "x-a", "X-B"]), st.sampled_from("12"), max_size=2),
    body=st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2),
)
SECRETS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=6, max_size=30).filter(
    lambda text: text == text.strip() and text not in "the header was refused [key]"
)


@given(st.lists(OPTIONS, max_size=4), OPTIONS)
def test_what_is_said_last_for_a_model_counts_and_what_is_said_for_others_does_not(
    known: list[ModelOptions], last: ModelOptions
) -> None:
    chosen = choose_options("openai:gpt-5", [*known, last])
    before = choose_options("openai:gpt-5", known)
    if last.models == "anthropic:*":
        assert chosen == before
        return
    assert chosen.temperature == (before.temperature if last.temperature is None else last.temperature)
    assert last.body.items() <= chosen.body.items()
    assert last.headers.items() <= chosen.headers.items()
    spelt = [name.lower() for name in chosen.headers if name not in last.headers]
    assert not set(spelt) & {name.lower() for name in last.headers}


@pytest.mark.slow
@given(SECRETS, st.sampled_from(["said", "json", "raw", "page"]))
@settings(max_examples=25, deadline=None)
def test_no_value_of_a_header_is_in_an_error_however_the_provider_says_it(secret: str, how: str) -> None:
    def echo(asked: Asked) -> Answer:
        value = asked.headers["x-gateway"]
        said = {
            "said": json.dumps({"error": {"message": f"the header was refused: {value}"}}),
            "json": json.dumps({"detail": [{"header": value}]}),
            "raw": f"the header was refused: {value}",
            "page": f"<html>{value}</html>" * 300,
        }[how]
        return Answer(content=said.encode(), status=400)

    async def main(url: str) -> str:
        options = [ModelOptions(headers={"X-Gateway": "Bearer ${GATEWAY}"})]
        environ = {**KEYS, "GATEWAY": secret}
        model = open_model("openai:m", base_url=url, environ=environ, max_retries=0, options=options)
        with pytest.raises(ModelError) as caught:
            await asyncio.wait_for(model.reply("", [UserMessage(text="Hello.")], []), WITHIN)
        return "".join(traceback.format_exception(caught.value)) + caught.value.hint + repr(model)

    with serving(echo) as server:
        told = asyncio.run(main(f"{server.url}/v1"))
    assert server.asked[0].headers["x-gateway"] == f"Bearer {secret}"
    assert "400" in told or "refused" in told
    message = told.replace(traceback.__file__, "")
    assert secret not in message
    assert json.dumps(secret)[1:-1] not in message


@given(
    st.sampled_from(["X-A", "x_b!"])
    | st.text('aZ09-_.!~ :"\t\r\né', min_size=1, max_size=4)
    | st.sampled_from(["Host", "content-length", "Transfer-Encoding", "Connection", "Upgrade"]),
    st.tuples(
        st.text("aZ09 :,;", max_size=3), st.sampled_from("a \t\r\n\0é☃"), st.text("aZ: ", max_size=2)
    ).map("".join),
)
def test_a_header_that_passes_arrives_as_one_header_and_changes_no_other(name: str, value: str) -> None:
    try:
        check_header(name, value)
    except ValueError:
        return
    own = [("Host", "h"), ("Content-Length", "1"), ("Content-Type", "text/plain")]
    sent = [*own, *expand_headers({name: value}, {})[0].items()]
    client, server = h11.Connection(h11.CLIENT), h11.Connection(h11.SERVER)
    server.receive_data(client.send(h11.Request(method="POST", target="/", headers=sent)) or b"")
    heard = server.next_event()
    assert isinstance(heard, h11.Request)
    assert list(heard.headers) == [(each.lower().encode(), text.strip().encode()) for each, text in sent]
    assert name.lower() not in {each.lower() for each, _ in own}
    assert server.receive_data(client.send(h11.Data(b"a")) or b"") is None
    assert isinstance(server.next_event(), h11.Data)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer abc"),
        ("X-Api-Key", "abc"),
        ("Host", "elsewhere"),
        ("Content-Length", "3"),
        ("A B", "c"),
        ("", "c"),
        ("X-Line", "a\r\nX-Other: b"),
        ("X-Snow", "☃"),
    ],
)
def test_a_header_is_refused_that_cannot_be_sent_or_would_show_a_secret(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"header|secret|characters"):
        check_header(name, value)


@given(
    st.sampled_from(["Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization"]),
    st.sampled_from(["", "Bearer ", "basic "]),
    st.text("abcXYZ0189-_.=+/", min_size=1, max_size=30),
    st.sampled_from(
        ["{}{}${{T}}", "{}${{T}}{}", "{}{}${{T:-}}", "{}${{T:-{}}}", "{}${{T}} {}${{T}}", "{}{}"]
    ),
)
def test_nothing_of_a_secret_stands_beside_its_variable(
    name: str, scheme: str, secret: str, where: str
) -> None:
    with pytest.raises(ValueError, match="secret"):
        check_header(name, where.format(scheme, secret))


@pytest.mark.parametrize("value", ["Bearer ${T}", "basic  ${T}", "${T}", " ${T:-} ", "${A}${B:-}"])
def test_a_variable_of_a_secret_may_have_a_scheme_before_it(value: str) -> None:
    check_header("Authorization", value)
    check_header("X-Team", f"blue {value} ${{C:-literal}}")


def test_a_secret_stands_as_a_variable() -> None:
    headers, hidden = expand_headers({"Authorization": "Bearer ${TOKEN}", "X-A": "${B:-c}"}, {"TOKEN": "t1"})
    assert headers == {"Authorization": "Bearer t1", "X-A": "c"}
    assert hidden == {"Bearer t1"}


@given(st.text("abcdefgh ", max_size=5), st.text("abcdefgh,-", max_size=12))
def test_what_is_no_secret_is_hidden_nowhere(short: str, literal: str) -> None:
    said = {"X-Debug": "${DEBUG}", "Accept-Language": literal, "X-Team": f"${{TEAM:-{literal}}}"}
    assert expand_headers(said, {"DEBUG": short or "e"})[1] == frozenset()
    assert redact_secrets("abcdefgh", [short, "a", "bc"]) == "abcdefgh"


@given(st.lists(st.text("aAbB", min_size=1, max_size=2), unique=True))
def test_a_header_is_spelt_in_one_way(names: list[str]) -> None:
    headers = dict.fromkeys(names, "1")
    if len({name.lower() for name in names}) == len(names):
        assert expand_headers(headers, {})[0] == headers
        return
    with pytest.raises(ModelConfigError) as caught:
        expand_headers(headers, {})
    assert caught.value.code == "model_bad_option"


@pytest.mark.parametrize("value", ["a\nb", "☃", "\x00"])
def test_the_value_of_a_variable_is_refused_unseen(value: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        expand_headers({"X-A": "${A}"}, {"A": f"secret{value}"})
    assert caught.value.code == "model_bad_option"
    assert "secret" not in caught.value.message


def test_a_variable_that_is_not_set_is_named_before_anything_is_sent() -> None:
    options = [ModelOptions(headers={"X-A": "${NOT_SET}"})]
    for check in (check_model, open_model):
        with pytest.raises(ModelConfigError) as caught:
            check("openai:m", environ=KEYS, options=options)
        assert caught.value.code == "model_unset_variable"
        assert "NOT_SET" in caught.value.hint


@pytest.mark.parametrize("header", ["Authorization", "authorization"])
@pytest.mark.parametrize("name", ["openai", "openai-responses", "anthropic", "openrouter", "deepseek", "xai"])
def test_an_authorization_of_one_s_own_stands_in_place_of_the_key(name: str, header: str) -> None:
    spec = f"{name}:vendor/m"
    options = [ModelOptions(headers={header: "Bearer ${GATEWAY}"})]
    check_model(spec, environ={"GATEWAY": "a-token"}, options=options)
    assert open_model(spec, environ={"GATEWAY": "a-token"}, options=options).name == spec
    other = [ModelOptions(headers={"X-Authorization": "Bearer ${GATEWAY}"})]
    with pytest.raises(ModelConfigError) as caught:
        open_model(spec, environ={"GATEWAY": "a-token"}, options=other)
    assert caught.value.code == "model_no_key"


@pytest.mark.parametrize("spec", ["google:m", "vertex:m"])
def test_it_does_not_where_the_key_has_another_place(spec: str) -> None:
    options = [ModelOptions(headers={"Authorization": "Bearer ${GATEWAY}"})]
    with pytest.raises(ModelConfigError) as caught:
        check_model(spec, environ={"GATEWAY": "a-token"}, options=options)
    assert caught.value.code == "model_no_key"


@pytest.mark.parametrize("header", ["Authorization", "authorization"])
@pytest.mark.parametrize(
    ("spec", "variable"), [("openai:m", "OPENAI_BASE_URL"), ("anthropic:m", "ANTHROPIC_BASE_URL")]
)
def test_no_other_key_goes_along_with_it(spec: str, variable: str, header: str) -> None:
    async def main(url: str) -> None:
        options = [ModelOptions(headers={header: "Bearer ${GATEWAY}"})]
        environ = {variable: url, "GATEWAY": "a-token"}
        model = open_model(spec, environ=environ, max_retries=0, options=options)
        with pytest.raises(ModelError):
            await asyncio.wait_for(model.reply("", [UserMessage(text="Hello.")], []), WITHIN)

    with serving(lambda _: wire.refuse(400, "no")) as server:
        asyncio.run(main(server.url))
    (asked,) = server.asked
    assert asked.headers["authorization"] == "Bearer a-token"
    assert "no-key-needed" not in "".join(asked.headers.values())


@pytest.mark.parametrize("name", ["messages", "model", "tools", "stream"])
def test_fields_that_kakite_makes_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        check_body({name: []})
    check_body({"service_tier": "flex"})


@pytest.mark.parametrize("options", [ModelOptions(temperature=0.5), ModelOptions(body={"top_p": 1})])
def test_a_model_that_takes_no_temperature_is_told_before_anything_is_sent(options: ModelOptions) -> None:
    with pytest.raises(ModelConfigError) as caught:
        open_model("anthropic:claude-opus-4-8", environ=KEYS, options=[options])
    assert caught.value.code == "model_bad_option"
    assert "model_options" in caught.value.hint


@pytest.mark.parametrize("hidden", ["e", "temperature"])
def test_a_provider_that_refuses_a_temperature_is_told_in_plain_words(hidden: str) -> None:
    said = "Unsupported value: 'temperature' does not support 0.5 with this model."

    async def main(url: str) -> ModelError:
        options = [ModelOptions(temperature=0.5, headers={"X-Debug": "${DEBUG}"})]
        environ = {**KEYS, "DEBUG": hidden}
        model = open_model("openai:o3", base_url=url, environ=environ, max_retries=0, options=options)
        with pytest.raises(ModelError) as caught:
            await model.reply("", [UserMessage(text="Hello.")], [])
        return caught.value

    with serving(lambda _: wire.refuse(400, said)) as server:
        error = asyncio.run(asyncio.wait_for(main(f"{server.url}/v1"), WITHIN))
    assert server.asked[0].body["temperature"] == 0.5
    assert error.code == "model_rejected"
    assert said.replace("temperature", "[key]" if hidden == "temperature" else "temperature") in error.message
    assert "--temperature" in error.hint
