"""Lists the model providers, finds their keys, and opens their models. Also counts tokens.

Imports no provider and no pydantic-ai until a model is opened.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from kakite.errors import UsageError
from kakite.installation import get_extra_install_command, get_install_command

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.providers import Provider as ProviderClient
    from pydantic_ai.settings import ModelSettings
    from splintr import AnyTokenizer

    from kakite.models.model import Effort, Model


DEFAULT_CONTEXT_WINDOW: Final = 128_000
"""Tokens that a model is taken to be able to take when nobody says how many."""
_SELF_HOSTED: Final = frozenset({"ollama", "vllm"})


def count_tokens(text: str) -> int:
    """Count with OpenAI's newest public vocabulary; others differ by a fifth or so, in any language."""
    return len(_load_tokenizer().encode(text.encode("utf-8", "replace").decode()))


def find_context_window(spec: str, *, own_server: bool = False) -> int:
    """Return how many tokens ``PROVIDER:NAME`` can take, read and written; what is not known is a guess."""
    provider, _, name = spec.partition(":")
    if own_server or provider in _SELF_HOSTED:
        return DEFAULT_CONTEXT_WINDOW
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, model = get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        return DEFAULT_CONTEXT_WINDOW
    return model.context_window or DEFAULT_CONTEXT_WINDOW


@cache
def _load_tokenizer() -> AnyTokenizer:
    # Here, not above: it takes a tenth of a second, and only a run that asks a model needs it.
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("o200k_base")


_PLACEHOLDER_KEY: Final = "no-key-needed"
"""Sent where the library insists on a key and the server does not."""
_RESPONSES_ONLY: Final = re.compile(r"codex|-pro(?:-|$)")
"""Names of OpenAI's models that chat completions do not serve."""
_NO_THINKING_TAGS: Final = ("\0no such tag\0", "\0no such tag either\0")


class ModelConfigError(UsageError):
    """A model was asked for that cannot be opened as things are.

    Codes: ``model_bad_name``, ``model_unknown_provider``, ``model_no_key``, ``model_no_address``,
    ``model_bad_address``,
    ``model_no_library``.
    """

    code = "model_bad_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Somebody who runs language models."""

    name: str
    variables: tuple[str, ...]
    """Environment variables for the key. The first one that is set counts."""
    note: str
    needs_key: bool = True
    library: str = "openai"
    """The module that its protocol needs."""
    address: str = ""
    """Where it listens, if nobody says otherwise. Empty: its library knows, or it must be told."""
    address_variable: str = ""
    """Environment variable for the address; ``base_url`` goes before it."""
    flags_failures: bool = False
    """Whether its format marks a failed tool result by itself."""
    caches: bool = False
    """Whether what stays the same between two requests is cached only when the request asks for it."""

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        """Say whether a model of it could be opened. Looks only whether a variable is there."""
        if self.needs_key:
            return any(environ.get(variable) for variable in self.variables)
        return bool(self.address or environ.get(self.address_variable))


PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider(
            name="openai",
            variables=("OPENAI_API_KEY",),
            note="OpenAI, or with --base-url any server that speaks its format: Ollama, vLLM, LM Studio",
            address="https://api.openai.com/v1",
            address_variable="OPENAI_BASE_URL",
        ),
        Provider(
            name="openai-responses",
            variables=("OPENAI_API_KEY",),
            note="OpenAI's Responses API; codex and pro models of `openai` take it by themselves",
            address="https://api.openai.com/v1",
            address_variable="OPENAI_BASE_URL",
        ),
        Provider(
            name="anthropic",
            variables=("ANTHROPIC_API_KEY",),
            note="Anthropic's Claude models",
            library="anthropic",
            address="https://api.anthropic.com",
            address_variable="ANTHROPIC_BASE_URL",
            flags_failures=True,
            caches=True,
        ),
        Provider(
            name="google",
            variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
            note="Google's Gemini API",
            library="google.genai",
            flags_failures=True,
        ),
        Provider(
            name="ollama",
            variables=("OLLAMA_API_KEY",),
            note="models on this machine, served by Ollama",
            needs_key=False,
            address="http://127.0.0.1:11434/v1",
            address_variable="OLLAMA_BASE_URL",
        ),
        Provider(
            name="vllm",
            variables=("VLLM_API_KEY",),
            note="a vLLM server of your own",
            needs_key=False,
            address_variable="VLLM_BASE_URL",
        ),
        Provider(
            name="openrouter", variables=("OPENROUTER_API_KEY",), note="many models, one key", caches=True
        ),
        Provider(name="deepseek", variables=("DEEPSEEK_API_KEY",), note="DeepSeek"),
        Provider(name="moonshotai", variables=("MOONSHOTAI_API_KEY",), note="Moonshot's Kimi models"),
        Provider(name="zai", variables=("ZAI_API_KEY",), note="Z.ai's GLM models"),
        Provider(
            name="alibaba", variables=("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"), note="Alibaba's Qwen models"
        ),
        Provider(name="together", variables=("TOGETHER_API_KEY",), note="Together AI"),
        Provider(name="fireworks", variables=("FIREWORKS_API_KEY",), note="Fireworks AI"),
        Provider(name="nebius", variables=("NEBIUS_API_KEY",), note="Nebius"),
        Provider(name="ovhcloud", variables=("OVHCLOUD_API_KEY",), note="OVHcloud"),
        Provider(name="cerebras", variables=("CEREBRAS_API_KEY",), note="Cerebras"),
        Provider(name="sambanova", variables=("SAMBANOVA_API_KEY",), note="SambaNova"),
        Provider(
            name="groq", variables=("GROQ_API_KEY",), note="Groq; needs pip install groq", library="groq"
        ),
        Provider(
            name="mistral",
            variables=("MISTRAL_API_KEY",),
            note="Mistral; needs pip install mistralai",
            library="mistralai",
        ),
        Provider(
            name="xai", variables=("XAI_API_KEY",), note="xAI; needs pip install xai-sdk", library="xai_sdk"
        ),
        Provider(
            name="cohere",
            variables=("CO_API_KEY",),
            note="Cohere; needs pip install cohere",
            library="cohere",
        ),
    )
}
"""The providers that can be named in ``PROVIDER:NAME``."""


def open_model(
    spec: str,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str],
    timeout: float = 600.0,
    max_retries: int = 4,
    max_output_tokens: int | None = None,
    effort: Effort | None = None,
) -> Model:
    """Open the model ``PROVIDER:NAME``. Nothing is sent yet.

    Args:
        spec: such as ``anthropic:claude-sonnet-5-5`` or ``openai:qwen3-coder``.
        base_url: the server to talk to instead of the provider's own. A key that the environment holds for
            the provider is sent there; where it holds none, a server of your own gets a placeholder.
        environ: where the keys are: the only source of keys there is.
        timeout: seconds for which a provider may be silent; the request with all its repetitions ends after
            three times that.
        max_retries: how often a request is sent again when a provider is busy or the network failed. The wait
            grows from half a second to eight, or is what the provider asks for.
        max_output_tokens: the most that one reply may be. By default what the model can.
        effort: how much the model thinks. By default as its provider does it.

    Raises:
        ModelConfigError: there is no such provider, or its key, its address or its library is missing.
    """
    provider, name = _parse_spec(spec)
    _check_library(provider)
    key = _find_key(provider, base_url, environ)
    address = _find_address(provider, base_url, environ)
    model = _open_provider_model(provider, name, address=address, key=key, max_retries=max_retries)
    settings = _build_settings(
        provider, timeout=timeout, max_retries=max_retries, max_output_tokens=max_output_tokens
    )
    if effort is not None:
        settings["thinking"] = False if effort == "off" else effort
    # Here, not above: it takes the better part of a second, and only a run that asks a model needs it.
    from kakite.models.pydantic_ai_model import RemoteModel

    return RemoteModel(
        spec,
        model,
        settings,
        secrets=frozenset(_collect_secrets(environ)),
        flags_failures=provider.flags_failures,
        address=address,
        patient=max_retries > 1,
    )


def check_model(spec: str, *, base_url: str | None = None, environ: Mapping[str, str]) -> None:
    """Check that a model could be opened, without loading the library that talks to it.

    Raises:
        ModelConfigError: as ``open_model``.
    """
    provider, _ = _parse_spec(spec)
    _check_library(provider)
    _find_key(provider, base_url, environ)
    _find_address(provider, base_url, environ)


def find_address(spec: str, base_url: str) -> str:
    """Return the address of the server that has ``PROVIDER:NAME``; empty: only its library knows it.

    Raises:
        ModelConfigError: there is no such provider, or the address is none.
    """
    return _find_address(_parse_spec(spec)[0], base_url, {})


def find_key_variable(spec: str) -> str:
    """Return the variable that holds the key for ``PROVIDER:NAME``.

    Raises:
        ModelConfigError: there is no such provider.
    """
    return _parse_spec(spec)[0].variables[0]


def _parse_spec(spec: str) -> tuple[Provider, str]:
    provider, colon, name = spec.partition(":")
    if not colon or not provider or not name:
        raise ModelConfigError(
            f"a model is named `PROVIDER:NAME`, not `{spec}`",
            hint=f"for example `anthropic:claude-sonnet-5-5`; the providers are {', '.join(PROVIDERS)}",
        )
    if provider not in PROVIDERS:
        raise _build_unknown_error(provider, name)
    return PROVIDERS[provider], name


def _build_unknown_error(provider: str, name: str) -> ModelConfigError:
    from rapidfuzz import process  # only who mistypes comes here

    nearest = process.extractOne(provider.lower(), list(PROVIDERS), score_cutoff=60)
    meant = f"did you mean `{nearest[0]}:{name}`? " if nearest else ""
    return ModelConfigError(
        f"there is no provider `{provider}`",
        hint=f"{meant}the providers are {', '.join(PROVIDERS)}; "
        "a server of your own that speaks OpenAI's format is `openai:NAME` with --base-url",
        code="model_unknown_provider",
    )


def _check_library(provider: Provider) -> None:
    if not _is_installed("pydantic_ai"):
        raise ModelConfigError(
            "the libraries that talk to language models are not installed",
            hint=get_extra_install_command("agent"),
            code="model_no_library",
        )
    if not _is_installed(provider.library):
        raise ModelConfigError(
            f"`{provider.name}` needs the Python module `{provider.library}`, which is not installed",
            hint=get_install_command(provider.note.rpartition("pip install ")[2]),
            code="model_no_library",
        )


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _find_key(provider: Provider, base_url: str | None, environ: Mapping[str, str]) -> str:
    for variable in provider.variables:
        if key := environ.get(variable, "").strip():
            return key
    own_server = base_url or environ.get(provider.address_variable)
    if own_server or not provider.needs_key:
        return _PLACEHOLDER_KEY
    raise ModelConfigError(
        f"`{provider.name}` needs a key, and {_format_variables(provider.variables)} not set",
        hint=f"set {' or '.join(provider.variables)} in the environment",
        code="model_no_key",
    )


def _find_address(provider: Provider, base_url: str | None, environ: Mapping[str, str]) -> str:
    address = base_url or environ.get(provider.address_variable, "") or provider.address
    if not address and not provider.needs_key:
        raise ModelConfigError(
            f"`{provider.name}` is your own server, and Kakite does not know its address",
            hint=f"give --base-url, or set {provider.address_variable}",
            code="model_no_address",
        )
    parts = urlsplit(address)
    if (
        "@" in parts.netloc or parts.query or parts.fragment
    ):  # it is stored and shown, so it may hold no secret
        raise ModelConfigError(
            "the address of a model's server must not contain a password, `?` or `#`",
            hint=f"put the key in the variable {provider.variables[0]}",
            code="model_bad_address",
        )
    if address and (parts.scheme not in {"http", "https"} or not parts.netloc):
        shown = f", not `{address}`" if "@" not in address else ""
        raise ModelConfigError(
            f"the address of a model's server begins with http:// or https://{shown}",
            hint="for example --base-url http://127.0.0.1:8080/v1",
            code="model_bad_address",
        )
    return address


def _format_variables(variables: tuple[str, ...]) -> str:
    return f"{variables[0]} is" if len(variables) == 1 else f"none of {', '.join(variables)} is"


def _collect_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    for provider in PROVIDERS.values():
        for variable in provider.variables:
            if value := environ.get(variable, "").strip():
                yield value


def _open_provider_model(
    provider: Provider, name: str, *, address: str, key: str, max_retries: int
) -> ProviderModel:
    is_own_server = address.rstrip("/") != provider.address
    match provider.name:
        case "openai" if not is_own_server and _RESPONSES_ONLY.search(name):
            return _open_responses_model(name, address, key)
        case "openai-responses":
            return _open_responses_model(name, address, key)
        case "openai":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.profiles.openai import OpenAIModelProfile

            # What the model wrote is its text, also when a file that it quotes holds `<think>`. A stream that
            # stops without saying why was cut off.
            profile = OpenAIModelProfile(
                thinking_tags=_NO_THINKING_TAGS,
                ignore_streamed_leading_whitespace=False,
                openai_chat_streaming_requires_finish_reason=True,
            )
            client = _open_openai_client(address, key, own_server=is_own_server)
            return OpenAIChatModel(name, provider=client, profile=profile)
        case _:
            return _infer_model(provider, name, _make_client_factory(provider, address, key, max_retries))


def _open_responses_model(name: str, address: str, key: str) -> ProviderModel:
    """Return a model that is asked by OpenAI's Responses API, which takes reasoning back between turns."""
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.providers.openai import OpenAIProvider

    # Nothing is kept at the provider: reasoning comes back encrypted, and goes along with the next request.
    settings = OpenAIResponsesModelSettings(openai_store=False)
    return OpenAIResponsesModel(
        name, provider=OpenAIProvider(base_url=address, api_key=key), settings=settings
    )


def _infer_model(
    provider: Provider, name: str, factory: Callable[[str], ProviderClient[Any]]
) -> ProviderModel:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        return infer_model(f"{provider.name}:{name}", factory)
    except UserError as error:
        raise ModelConfigError(
            f"`{provider.name}:{name}` cannot be opened: {error}", hint=provider.note
        ) from None


def _open_openai_client(address: str, key: str, *, own_server: bool) -> ProviderClient[Any]:
    if own_server:
        # Not OpenAIProvider: it assumes what only OpenAI's server can do, and prices a local model as theirs.
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return _skip_request_transform(
            OpenAICompatibleProvider("openai-compatible", base_url=address, api_key=key)
        )
    from pydantic_ai.providers.openai import OpenAIProvider

    return _skip_request_transform(OpenAIProvider(base_url=address, api_key=key))


def _skip_request_transform(provider: ProviderClient[Any]) -> ProviderClient[Any]:
    """Let the conversation and the tools go past the client's check of every part for names to translate.

    There are none in them, and at turn 60 the check takes the loop 15 to 30 ms, and more later.
    """
    _patch_client(provider.client)
    return provider


def _patch_client(client: Any) -> Any:
    create: Callable[..., Awaitable[Any]] = client.chat.completions.create
    copy: Callable[..., Any] = client.with_options

    @functools.wraps(create)
    async def create_untransformed(
        *, messages: Iterable[object], extra_body: object = None, **more: Any
    ) -> Any:
        body = {"messages": list(messages), **cast("dict[str, object]", extra_body or {})}
        if isinstance(more.get("tools"), list):
            body["tools"] = more.pop("tools")
        return await create(messages=[], extra_body=body, **more)

    def copy_patched(**options: Any) -> Any:  # each request has a client of its own
        return _patch_client(copy(**options))

    client.chat.completions.create = create_untransformed
    client.with_options = copy_patched
    return client


def _make_client_factory(
    provider: Provider, address: str, key: str, max_retries: int
) -> Callable[[str], ProviderClient[Any]]:
    def build_client(name: str) -> ProviderClient[Any]:
        from pydantic_ai.providers import infer_provider_class

        made_by = infer_provider_class(name)
        arguments: dict[str, Any] = {"api_key": key}
        if address:
            if "base_url" not in inspect.signature(made_by).parameters:
                raise ModelConfigError(
                    f"`{provider.name}` has one address, so it takes no --base-url",
                    hint="a server of your own that speaks OpenAI's format is `openai:NAME` with --base-url",
                    code="model_no_address",
                )
            arguments["base_url"] = address
        if provider.name == "google":
            # The only library here that takes its repetitions with the client, and makes none unless asked.
            from google.genai.types import HttpRetryOptions

            arguments["retry_options"] = HttpRetryOptions(
                attempts=max_retries + 1, initial_delay=0.5, max_delay=8.0
            )
        return made_by(**arguments)

    return build_client


def _build_settings(
    provider: Provider, timeout: float, max_retries: int, max_output_tokens: int | None
) -> ModelSettings:
    settings: ModelSettings = {"timeout": timeout, "request_timeout": 3 * timeout}
    if provider.name != "google":
        settings["max_retries"] = max_retries
    if max_output_tokens is not None:
        settings["max_tokens"] = max_output_tokens
    if provider.caches:
        # The tools and the instructions, and then the conversation as it grows.
        settings["cache"] = True
    return settings
