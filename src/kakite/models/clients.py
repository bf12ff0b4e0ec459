"""Opens the models of providers by pydantic-ai: each by its own protocol.

Only ``open_model`` imports this module, when a model is opened.
"""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError

from kakite.models.model import ModelConfigError
from kakite.models.options import TEMPERATURE_HINT
from kakite.models.providers import build_region_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.providers import Provider as ProviderClient

    from kakite.models.options import ModelOptions
    from kakite.models.providers import Provider
    from kakite.tools.toolset import JsonObject

_RESPONSES_ONLY: Final = re.compile(r"codex|-pro(?:-|$)")
"""Names of OpenAI's models that chat completions do not serve."""
_NO_THINKING_TAGS: Final = ("\0no such tag\0", "\0no such tag either\0")
_SAMPLING: Final = frozenset(("temperature", "top_k", "top_p"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAccess:
    """How a provider is reached."""

    address: str
    """Empty: its library knows."""
    key: str
    """Empty: the environment says where credentials are."""
    environ: Mapping[str, str]
    timeout: float
    """Seconds that it may be silent."""
    max_retries: int
    options: ModelOptions
    """What is added to each request."""


def open_provider_model(provider: Provider, name: str, access: ProviderAccess) -> ProviderModel:
    """Return a provider's model as pydantic-ai has it. Nothing is sent yet.

    Raises:
        ModelConfigError: the library does not take the name, or what stands in the environment, or the model
            takes no temperature.
    """
    model = _open_model(provider, name, access)
    _check_sampling(model, access.options)
    return model


def list_account_secrets(model: ProviderModel) -> Iterator[str]:
    """Yield the tokens and keys of an account that the model's library itself has found or fetched."""
    client = _read_fields(getattr(model, "client", None))
    for owner in (client, *(_read_fields(client.get(name)) for name in ("_api_client", "_request_signer"))):
        held = _read_fields(owner.get("credentials") or owner.get("_credentials"))
        for name in ("token", "_token", "secret_key", "_secret_key"):
            if isinstance(value := held.get(name), str):
                yield value


def _read_fields(value: object) -> Mapping[str, object]:
    """Return an object's own fields. Not its properties: some of them fetch a token, or warn."""
    return getattr(value, "__dict__", {})


def _open_model(provider: Provider, name: str, access: ProviderAccess) -> ProviderModel:
    is_own_server = access.address.rstrip("/") != provider.address
    match provider.name:
        case "openai" if not is_own_server and _RESPONSES_ONLY.search(name):
            return _open_responses_model(name, access)
        case "openai-responses":
            return _open_responses_model(name, access)
        case "openai":
            return _open_chat_model(name, _open_openai_client(access, own_server=is_own_server))
        case "xai":
            return _open_chat_model(name, _open_xai_client(access))
        case "azure":
            return _open_azure_model(name, access)
        case "vertex":
            return _open_vertex_model(name, access)
        case "bedrock":
            return _infer_model(provider, name, lambda _: _open_bedrock_client(access))
        case _:
            return _infer_model(provider, name, _make_client_factory(provider, access))


def _check_sampling(model: ProviderModel, options: ModelOptions) -> None:
    """Refuse a temperature that the library would drop unsaid, since the model takes none."""
    profile = cast("Mapping[str, object]", model.profile)
    refuses = any(profile.get(f"{kind}_disallows_sampling_settings") for kind in ("anthropic", "bedrock"))
    if refuses and (options.temperature is not None or _SAMPLING & set(options.body)):
        raise ModelConfigError(
            f"`{options.models}` takes no temperature", hint=TEMPERATURE_HINT, code="model_bad_option"
        )


def _open_chat_model(name: str, client: ProviderClient[Any]) -> ProviderModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    # What the model wrote is its text, also when a file that it quotes holds `<think>`. A stream that
    # stops without saying why was cut off.
    profile = OpenAIModelProfile(
        thinking_tags=_NO_THINKING_TAGS,
        ignore_streamed_leading_whitespace=False,
        openai_chat_streaming_requires_finish_reason=True,
    )
    return OpenAIChatModel(name, provider=client, profile=profile)


def _open_responses_model(
    name: str, access: ProviderAccess, client: ProviderClient[Any] | None = None
) -> ProviderModel:
    """Return a model that is asked by OpenAI's Responses API, which takes reasoning back between turns."""
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.providers.openai import OpenAIProvider

    # Nothing is kept at the provider: reasoning comes back encrypted, and goes along with the next request.
    settings = OpenAIResponsesModelSettings(openai_store=False)
    client = client or OpenAIProvider(base_url=access.address, api_key=access.key)
    return OpenAIResponsesModel(name, provider=client, settings=settings)


def _infer_model(
    provider: Provider, name: str, factory: Callable[[str], ProviderClient[Any]]
) -> ProviderModel:
    from pydantic_ai.models import infer_model

    try:
        return infer_model(f"{provider.name}:{name}", factory)
    except UserError as error:
        raise ModelConfigError(
            f"`{provider.name}:{name}` cannot be opened: {error}", hint=provider.note
        ) from None


def _open_openai_client(access: ProviderAccess, *, own_server: bool) -> ProviderClient[Any]:
    if own_server:
        # Not OpenAIProvider: it assumes what only OpenAI's server can do, and prices a local model as theirs.
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return _skip_request_transform(
            OpenAICompatibleProvider("openai-compatible", base_url=access.address, api_key=access.key)
        )
    from pydantic_ai.providers.openai import OpenAIProvider

    return _skip_request_transform(OpenAIProvider(base_url=access.address, api_key=access.key))


def _open_xai_client(access: ProviderAccess) -> ProviderClient[Any]:
    """Return a client for xAI's API in OpenAI's format: its own library wants packages older than ours."""
    from pydantic_ai.profiles.grok import grok_model_profile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return _skip_request_transform(
        OpenAICompatibleProvider(
            "xai", base_url=access.address, api_key=access.key, profile=grok_model_profile
        )
    )


def _open_azure_model(name: str, access: ProviderAccess) -> ProviderModel:
    """Return a deployment, asked by the API that has no versions unless the environment names one."""
    from pydantic_ai.providers.azure import AzureProvider

    version = access.environ.get("OPENAI_API_VERSION", "").strip()
    address = access.address.rstrip("/")
    is_whole = urlsplit(address).path.endswith("/v1") or "models.ai.azure.com" in address
    if is_whole or not version:
        client = AzureProvider(
            azure_endpoint=address if is_whole else f"{address}/openai/v1", api_key=access.key
        )
    else:
        client = AzureProvider(azure_endpoint=address, api_key=access.key, api_version=version)
    if _RESPONSES_ONLY.search(name):
        return _open_responses_model(name, access, client)
    return _open_chat_model(name, _skip_request_transform(client))


def _open_vertex_model(name: str, access: ProviderAccess) -> ProviderModel:
    """Return a model on Google Cloud: one of Anthropic's by Anthropic's own format.

    Google's library itself looks for the credentials, in the process's environment and beyond.
    """
    project = access.environ.get("GOOGLE_CLOUD_PROJECT", "").strip()
    location = access.environ.get("GOOGLE_CLOUD_LOCATION", "").strip() or "global"
    if name.startswith("claude"):
        from anthropic.lib.vertex import AsyncAnthropicVertex
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropicVertex(
            project_id=project,
            region=location,
            max_retries=access.max_retries,
            base_url=f"{access.address.rstrip('/')}/v1" if access.address else None,
        )
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider

    provider = GoogleCloudProvider(
        project=project,
        location=location,
        base_url=access.address or None,
        retry_options=_build_google_retries(access.max_retries),
    )
    _add_google_body(provider, access.options.body)
    return GoogleModel(name, provider=provider)


def _open_bedrock_client(access: ProviderAccess) -> ProviderClient[Any]:
    from pydantic_ai.providers.bedrock import BedrockProvider

    boto3, config, exceptions = map(import_module, ("boto3", "botocore.config", "botocore.exceptions"))
    given = {"retries": {"total_max_attempts": access.max_retries + 1}, "read_timeout": access.timeout}
    session, more = _describe_aws_session(access)
    try:
        client = boto3.Session(**session).client(
            "bedrock-runtime",
            config=config.Config(**given, **more),
            endpoint_url=access.address or None,
        )
    except exceptions.NoRegionError:
        raise build_region_error() from None
    except exceptions.BotoCoreError as error:
        raise ModelConfigError(
            f"Bedrock cannot be asked as things are: {error}",
            hint="look at AWS_PROFILE, and at the file of AWS that has this profile",
            code="model_no_key",
        ) from None
    return BedrockProvider(bedrock_client=client)


def _describe_aws_session(access: ProviderAccess) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what boto3's session is given, and what its client's settings are besides."""

    def read(name: str) -> str | None:
        return access.environ.get(name, "").strip() or None

    session: dict[str, Any] = {"region_name": read("AWS_REGION") or read("AWS_DEFAULT_REGION")}
    if access.key and access.key != read("AWS_ACCESS_KEY_ID"):
        from pydantic_ai.providers.bedrock import _BearerTokenSession  # pyright: ignore[reportPrivateUsage]

        token = _BearerTokenSession(access.key)
        return {**session, "botocore_session": token}, {"signature_version": "bearer"}
    if not access.key:
        return {**session, "profile_name": read("AWS_PROFILE")}, {}
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return {**session, **{name: read(name.upper()) for name in names}}, {}


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


def _make_client_factory(provider: Provider, access: ProviderAccess) -> Callable[[str], ProviderClient[Any]]:
    def build_client(name: str) -> ProviderClient[Any]:
        from pydantic_ai.providers import infer_provider_class

        made_by = infer_provider_class(name)
        arguments: dict[str, Any] = {"api_key": access.key}
        if access.address:
            if "base_url" not in inspect.signature(made_by).parameters:
                raise ModelConfigError(
                    f"`{provider.name}` has one address, so it takes no --base-url",
                    hint="a server of your own that speaks OpenAI's format is `openai:NAME` with --base-url",
                    code="model_no_address",
                )
            arguments["base_url"] = access.address
        if provider.name != "google":
            return made_by(**arguments)
        arguments["retry_options"] = _build_google_retries(access.max_retries)
        made = made_by(**arguments)
        _add_google_body(made, access.options.body)
        return made

    return build_client


def _build_google_retries(max_retries: int) -> Any:
    # The only library here that takes its repetitions with the client, and makes none unless asked.
    from google.genai.types import HttpRetryOptions

    return HttpRetryOptions(attempts=max_retries + 1, initial_delay=0.5, max_delay=8.0)


def _add_google_body(provider: ProviderClient[Any], body: JsonObject) -> None:
    """Add fields to each request: pydantic-ai has no way to say them, and its library has."""
    if body:
        provider.client._api_client._http_options.extra_body = dict(body)
